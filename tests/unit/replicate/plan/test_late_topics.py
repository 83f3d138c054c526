"""A topic that the job reads only from later on."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.errors import LateRow

BATCHES = pytest.mark.parametrize("rows", [1, 3, 1000])


def widened(*ddls: str, narrow: bool = True) -> Shop:
    """Table ``a`` is read; table ``b`` has a history in a topic of its own that the job is not to read yet."""
    shop = Shop(topic_per_table=True, topics=("cdc_shop_a",) if narrow else None)
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("b", id="1", v="x")
    for ddl in ddls:
        shop.sql(ddl)
        shop.insert("b", id=str(len(shop.held) + 1), v="y", n="5")
    shop.insert("a", id="1")
    shop.watermark()
    if narrow:
        shop.run()
        shop.insert("b", id="8", v="z")
        shop.insert("a", id="2")
        shop.watermark()
        shop.run()
        assert shop.rows("b") is None
        shop.configure(topics=None)
    else:
        shop.insert("b", id="8", v="z")
        shop.insert("a", id="2")
        shop.watermark()
    return shop


HISTORIES: list[tuple[str, ...]] = [
    (),
    ("ALTER TABLE b ADD COLUMN n INT DEFAULT 3",),
    ("ALTER TABLE b DROP COLUMN v",),
    ("ALTER TABLE b RENAME COLUMN v TO n",),
    ("TRUNCATE TABLE b",),
    ("ALTER TABLE b MODIFY COLUMN v VARCHAR(20)", "TRUNCATE TABLE b", "ALTER TABLE b ADD COLUMN n INT"),
    ("DROP TABLE b; CREATE",),
]


@BATCHES
@pytest.mark.parametrize("protocol", ["simple", "open"])
@pytest.mark.parametrize("ddls", HISTORIES[:-1])
def test_the_older_ddl_of_a_topic_that_is_added_is_applied(ddls: tuple[str, ...], protocol: str, rows: int) -> None:
    """The topic's rows count from the beginning, and so do its DDLs, though both are older than what
    the job has applied."""
    shop, whole = widened(*ddls), widened(*ddls, narrow=False)
    whole.run()
    shop.run(rows)
    assert shop.columns("b") == whole.columns("b")
    assert shop.rows("b") == whole.rows("b") != []
    assert shop.condition("b") == "clean"
    assert shop.rows("a") == [(1,), (2,)]


@BATCHES
def test_a_table_that_was_made_twice_in_a_topic_that_is_added_is_the_second_one(rows: int) -> None:
    shop = Shop(topic_per_table=True, topics=("cdc_shop_a",))
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("b", id="1", v="x")
    shop.sql("DROP TABLE b")
    shop.sql("CREATE TABLE b (id INT PRIMARY KEY, w INT)")
    shop.insert("b", id="2", w="7")
    shop.insert("a", id="1")
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    shop.run(rows)
    shop.insert("b", id="3", w="8")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("b") == [(2, 7), (3, 8)]
    assert shop.columns("b") == ("id", "w")


def test_a_death_while_a_new_topic_is_taken_in_changes_nothing() -> None:
    ddls = ("ALTER TABLE b ADD COLUMN n INT DEFAULT 3", "ALTER TABLE b DROP COLUMN v")
    whole = widened(*ddls, narrow=False)
    whole.run()

    def judge(shop: Shop) -> None:
        assert shop.rows("b") == whole.rows("b")
        assert shop.columns("b") == whole.columns("b")

    assert after_every_death(lambda: widened(*ddls), judge) >= 16


def test_a_new_topic_with_older_rows_of_a_known_table_stops_the_job_or_is_applied() -> None:
    """``a`` became ``b``, and the rows of ``b`` lie in the topic that was left out."""
    shop = Shop(topic_per_table=True, topics=("cdc_shop_a",))
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.insert("a", id="1")
    shop.sql("RENAME TABLE a TO b")
    shop.insert("b", id="2")
    shop.watermark()
    shop.run()
    assert shop.rows("b") == [(1,)]
    shop.configure(topics=None)
    with pytest.raises(LateRow, match="apply-if-newest"):
        shop.run()
    shop.configure(late_rows="apply-if-newest")
    shop.run()
    assert shop.rows("b") == [(1,), (2,)]
    assert shop.condition("b") == "unverified"


# ---- what was removed before the job began


@BATCHES
@pytest.mark.parametrize(
    ("ddl", "gone", "condition"),
    [
        ("CREATE TABLE u (id INT PRIMARY KEY)", 0, "clean"),
        ("CREATE TABLE u (id INT PRIMARY KEY)", 1, "unverified"),
        ("CREATE TABLE u (id INT PRIMARY KEY)", 3, "unverified"),
        ("TRUNCATE TABLE t", 1, "clean"),
        ("TRUNCATE TABLE t", 2, "unverified"),
        ("TRUNCATE TABLE t", 3, "unverified"),
        ("TRUNCATE TABLE t", 6, "unverified"),
        ("RENAME TABLE t TO v", 0, "clean"),
        ("RENAME TABLE t TO v", 3, "unverified"),
    ],
)
def test_a_table_is_clean_only_if_no_row_of_it_can_have_been_removed_before_the_job_began(
    ddl: str, gone: int, condition: str, rows: int
) -> None:
    """The job sees its CREATE or TRUNCATE in one partition, and retention has removed messages of another. A watermark
    that is left from before that moment shows that none of them was of the table."""
    shop = Shop("canal-json")
    shop.send(shop.encoder.watermark(shop.tick()), "cdc")
    shop.broker.add_partition("cdc")
    shop.watermark(partitions=2)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark(partitions=2)
    shop.sql(ddl)
    name = "v" if "RENAME" in ddl else "t"
    for number in "23":
        change = shop.row("insert", (SCHEMA, name), {"id": number})
        (encoded,) = shop.encoder.rows([change])
        shop.send(encoded, "cdc", 1)
        shop.watermark(partitions=2)
    shop.broker.trim(("cdc", 1), gone)
    shop.run(rows)
    shop.watermark(partitions=2)
    shop.run(rows)
    found = shop.rows(name)
    assert found is not None
    assert ((2,) in found, (3,) in found) == (gone < 3, gone < 5)
    assert shop.condition(name) == condition
    shop.sql(f"TRUNCATE TABLE {name}")
    shop.watermark(partitions=2)
    shop.run(rows)
    assert (shop.rows(name), shop.condition(name)) == ([], "clean")


@BATCHES
def test_a_job_that_begins_at_the_latest_messages_knows_the_tables_that_are_created_then(rows: int) -> None:
    shop = Shop("canal-json", starting="latest")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.watermark()
    shop.start()
    shop.watermark()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.insert("u", id="1")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("u"), shop.condition("u")) == ([(1,)], "clean")


# ---- DDL that stands in a topic that is added


@BATCHES
def test_a_table_of_a_database_that_was_dropped_before_its_topic_was_read_is_dropped(rows: int) -> None:
    """Seed 7314901: the DROP DATABASE stands in the default topic, and was applied before."""

    def story(topics: tuple[str, ...] | None) -> Shop:
        shop = Shop(topic_per_table=True, topics=topics)
        shop.sql("CREATE DATABASE b")
        shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
        shop.sql("CREATE TABLE gone (id INT PRIMARY KEY)", schema="b")
        shop.insert("gone", schema="b", id="1")
        drop = shop.change("DROP DATABASE b", schema="b")
        shop.send_ddl(msgspec.structs.replace(drop, table=None, pre_table=None, schema="b", name=""), "cdc")
        shop.sql("CREATE DATABASE b")
        shop.sql("CREATE TABLE again (id INT PRIMARY KEY)", schema="b")
        shop.insert("again", schema="b", id="2")
        shop.insert("a", id="1")
        shop.watermark()
        shop.run()
        return shop

    shop = story(("cdc", "cdc_shop_a", "cdc_b_again"))
    assert (shop.rows("gone", "b"), shop.rows("again", "b")) == (None, [(2,)])
    shop.configure(topics=None)
    for number in ("3", "4"):
        shop.run(rows)
        shop.insert("again", schema="b", id=number)
        shop.watermark()
    shop.run(rows)
    assert (shop.rows("gone", "b"), shop.rows("again", "b")) == (None, [(2,), (3,), (4,)])
    assert shop.status("again", "b").condition == "clean"


def renamed(protocol: str = "simple") -> Shop:
    """Table ``a`` became ``b``, whose topic is not read; the job has passed what stands there."""
    shop = Shop(protocol, topic_per_table=True, topics=("cdc_shop_a",))
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.insert("a", id="1")
    shop.sql("RENAME TABLE a TO b")
    shop.watermark()
    shop.run()
    return shop


def read_all(shop: Shop, rows: int) -> None:
    """Until the job has passed all DDL, and then with every topic."""
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    shop.run(rows)


@BATCHES
@pytest.mark.parametrize("protocol", ["simple", "open"])
def test_the_drop_of_a_renamed_table_in_a_topic_that_is_added_is_applied(protocol: str, rows: int) -> None:
    """Seed 7324227: the table had passed it by the watermarks of the topic of its old name."""
    shop = renamed()
    shop.sql("DROP TABLE b")
    read_all(shop, rows)
    assert shop.rows("b") is None


@BATCHES
def test_the_alter_of_a_renamed_table_in_a_topic_that_is_added_is_applied(rows: int) -> None:
    shop = renamed()
    shop.sql("ALTER TABLE b ADD COLUMN n INT DEFAULT 5")
    read_all(shop, rows)
    shop.insert("b", id="2", n="6")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("b"), shop.condition("b")) == ([(1, 5), (2, 6)], "clean")


def test_a_table_with_later_rows_than_a_ddl_in_a_topic_that_is_added_is_marked() -> None:
    """The rows stand in a partition that was read before that of the DDL."""
    shop = renamed()
    shop.configure(late_rows="apply-if-newest")
    alter = shop.change("ALTER TABLE b ADD COLUMN n INT DEFAULT 5")
    shop.bootstrap("b")
    shop.insert("b", id="2", n="6")
    shop.watermark("cdc_shop_a")
    shop.run()
    shop.configure(topics=None)
    shop.run()
    assert shop.rows("b") == [(1, None), (2, 6)]
    shop.send_ddl(alter, "cdc_shop_b")
    shop.watermark()
    shop.run()
    assert shop.condition("b") == "diverged"
    assert "a DDL came after later rows had been applied" in shop.status("b").detail


def test_a_ddl_that_comes_again_in_a_topic_that_was_read_changes_nothing() -> None:
    shop = Shop(topic_per_table=True)
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    alter = shop.change("ALTER TABLE a ADD COLUMN n INT DEFAULT 5")
    shop.send_ddl(alter)
    shop.insert("a", id="1", n="1")
    shop.watermark()
    shop.run()
    shop.send_ddl(alter)
    shop.watermark()
    shop.run()
    assert (shop.rows("a"), shop.condition("a")) == ([(1, 1)], "clean")


@pytest.mark.parametrize("rows", [1, 2, 4, 1000])
def test_rows_of_a_new_name_that_are_read_before_its_rename_wait_for_it(rows: int) -> None:
    """Seed 7334867: the topics of the old and of the new name come late, and the new one is read faster."""
    shop = Shop("open", topic_per_table=True, topics=("cdc_shop_a",))
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE old (id INT PRIMARY KEY)")
    for number in "12345678":
        shop.insert("old", id=number)
    shop.sql("RENAME TABLE old TO new")
    shop.insert("new", id="9")
    shop.insert("a", id="1")
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    shop.run(rows)
    shop.insert("new", id="10")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("new") == sorted([(number,) for number in range(1, 11)], key=repr)
    assert (shop.condition("new"), shop.rows("old")) == ("clean", None)


@pytest.mark.parametrize(("gone", "condition"), [(0, "clean"), (1, "unverified")])
def test_an_empty_table_of_arrival_mode_is_clean_only_if_no_row_of_it_can_have_been_removed(
    gone: int, condition: str
) -> None:
    shop = Shop("canal-json", mode="arrival")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.broker.add_partition("cdc")
    if gone:
        (encoded,) = shop.encoder.rows([shop.row("insert", (SCHEMA, "t"), {"id": "1"})])
        shop.send(encoded, "cdc", 1)
        shop.broker.trim(("cdc", 1), gone)
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], condition)


def test_a_drop_database_that_comes_late_with_its_table_is_applied() -> None:
    """The changefeed's filter left both out, and it starts again from an older start-ts."""
    shop = Shop()
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    create = shop.change("CREATE TABLE gone (id INT PRIMARY KEY)", schema="b")
    drop = shop.change("DROP DATABASE b", schema="b")
    shop.insert("a", id="1")
    shop.watermark()
    shop.run()
    shop.send_ddl(create, "cdc")
    shop.send_ddl(msgspec.structs.replace(drop, table=None, pre_table=None, schema="b", name=""), "cdc")
    shop.watermark()
    shop.run()
    assert (shop.rows("gone", "b"), shop.rows("a")) == (None, [(1,)])


@pytest.mark.parametrize("protocol", ["canal-json", "open"])
def test_rows_of_a_name_whose_rename_lies_in_an_unread_topic_mark_the_table_that_gets_it(protocol: str) -> None:
    """Story 2800 of ``--harder``: they had no schema, were left out, and the table came clean with old values."""
    shop = Shop(protocol, topic_per_table=True, topics=("cdc", "cdc_shop_t"))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="1")
    shop.sql("RENAME TABLE t TO u")
    shop.sql("RENAME TABLE u TO t")
    shop.update("t", id="1", v="2")
    shop.insert("t", id="2", v="2")
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    shop.run()
    shop.watermark()
    shop.run()
    is_whole = shop.rows("t") == [(1, 2), (2, 2)]
    assert shop.condition("t") == ("clean" if is_whole else "diverged")
    assert shop.rows("u") is None


@pytest.mark.parametrize("rows", [3, 1000])
@pytest.mark.parametrize(
    ("ddl", "value", "rows_now"),
    [
        ("ALTER TABLE b ADD COLUMN n INT DEFAULT 5", {"n": "7"}, [(1, 5), (2, 5), (3, 7), (4, 7)]),
        ("TRUNCATE TABLE b", {}, [(3,), (4,)]),
    ],
)
def test_late_rows_on_both_sides_of_a_late_ddl_are_applied(
    rows: int, ddl: str, value: dict[str, str], rows_now: list[tuple[int, ...]]
) -> None:
    """Seed 9061886: those after it were not. Also where a death comes between."""

    def make() -> Shop:
        shop = renamed("canal-json")
        shop.configure(late_rows="apply-if-newest")
        shop.insert("b", id="2")
        shop.watermark()
        shop.sql(ddl)
        shop.insert("b", id="3", **value)
        shop.watermark()
        shop.insert("b", id="4", **value)
        shop.watermark()
        shop.run()
        shop.configure(topics=None)
        return shop

    def judge(shop: Shop) -> None:
        assert (shop.rows("b"), shop.condition("b")) == (rows_now, "unverified")

    assert after_every_death(make, judge, rows) > 3


# ---- a job that begins behind messages that retention had removed


def cut(ends_after: str) -> Shop:
    """Two topics, of one of which the first messages are gone; then the changefeed starts again from before table ``t``
    was emptied. ``ends_after``: what the first batch reads last."""
    shop = Shop(topic_per_table=True)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    old = shop.tick()
    shop.sql("TRUNCATE TABLE t")
    row = shop.row("insert", (SCHEMA, "t"), {"id": "1"})
    shop.broker.add_partition("cdc_shop_t")
    for _ in range(2):
        shop.send(shop.encoder.watermark(shop.tick()), "cdc_shop_t", 1)
    shop.broker.trim(("cdc_shop_t", 1), 1)
    if ends_after == "first watermark":
        shop.run()
    shop.send(shop.encoder.watermark(old), "cdc_shop_t", 1)
    if ends_after == "older watermark":
        shop.watermark("cdc_shop_t")
        shop.run()
    (encoded,) = shop.encoder.rows([row])
    shop.send(encoded, "cdc_shop_t", 1)
    shop.watermark("cdc_shop_t", partitions=2)
    shop.run()
    return shop


@pytest.mark.parametrize(
    ("ends_after", "rows"), [("first watermark", [(1,)]), ("older watermark", []), ("everything", [(1,)])]
)
def test_what_is_sent_again_does_not_show_how_far_back_a_partition_reaches(ends_after: str, rows: list[object]) -> None:
    """It may not be all there yet, and count as a replay then."""
    shop = cut(ends_after)
    assert (shop.rows("t"), shop.condition("t")) == (rows, "unverified")


@pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
@pytest.mark.parametrize(
    "ddls",
    [
        ("ALTER TABLE t ADD COLUMN w INT DEFAULT 7",),
        ("ALTER TABLE t RENAME COLUMN v TO w",),
        ("ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD COLUMN v INT"),
    ],
)
def test_late_rows_from_before_a_ddl_are_left_out_and_rows_that_are_right_stay(
    protocol: str, ddls: tuple[str, ...]
) -> None:
    shop = Shop(protocol, late_rows="apply-if-newest")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    late = shop.row("insert", ("shop", "t"), {"id": "1", "v": "10"})
    shop.insert("t", id="2", v="20")
    for ddl in ddls:
        shop.sql(ddl)
    shop.watermark()
    shop.run()
    before = shop.rows("t")
    shop.send_row(late, "other")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == (before, "diverged")
    assert "late rows" in shop.status("t").detail
    assert not any(rows.late for rows in shop.lab.state.load().pending)
