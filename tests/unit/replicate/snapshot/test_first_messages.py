"""Messages of a table that come before its full read has begun, in protocols that tell no schema before the first row.
The read brings the schema, and no other table waits for it."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.errors import DecisionNeeded, SchemaMissing, UnsupportedDdl

PROTOCOLS = pytest.mark.parametrize("protocol", ["canal-json", "debezium", "open"])


def shop_with_a_table_before(protocol: str, *, topic_per_table: bool = False) -> Shop:
    """The changefeed began after the CREATE TABLE of ``t`` and its first row."""
    shop = Shop(protocol, snapshot="now", topic_per_table=topic_per_table)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "x"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    return shop


def settled(shop: Shop, batches: int = 8) -> None:
    for number in range(batches):
        shop.insert("other", id=str(100 + number))
        shop.watermark()
        shop.run()


@PROTOCOLS
@pytest.mark.parametrize("topic_per_table", [False, True])
def test_rows_before_the_read_do_not_hold_it_up(protocol: str, topic_per_table: bool) -> None:
    shop = shop_with_a_table_before(protocol, topic_per_table=topic_per_table)
    shop.insert("t", id="2", v="y")
    settled(shop)
    assert shop.rows("t") == [(1, "x"), (2, "y")]
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_other_tables_go_on_meanwhile(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    settled(shop, 1)
    assert shop.rows("t") is None
    assert shop.rows("other") == [(100,)]
    assert shop.status("t").detail == "it will be read in full; the read has not begun"


@PROTOCOLS
def test_a_ddl_before_the_read_needs_no_schema(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "x", "n": None}
    shop.insert("t", id="2", v="y", n="3")
    settled(shop)
    assert shop.rows("t") == [(1, "x", None), (2, "y", 3)]
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_rows_of_a_former_name_wait_for_the_read_of_the_new_one(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="3", v="z")
    settled(shop)
    assert shop.rows("t") is None
    assert shop.rows("u") == [(1, "x"), (2, "y"), (3, "z")]
    assert shop.condition("u") == "clean"


@PROTOCOLS
def test_rows_of_a_table_that_is_dropped_since_need_no_schema(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.sql("DROP TABLE t")
    settled(shop, 2)
    assert shop.rows("t") is None
    assert shop.applied > shop.ts - (5000 << 18)


@PROTOCOLS
def test_an_online_schema_change_before_the_read_leaves_the_new_table(protocol: str) -> None:
    """As gh-ost and pt-online-schema-change make it: a copy with the new columns takes the name."""
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.sql("CREATE TABLE t_new LIKE t")
    settled(shop, 1)
    shop.follow_source()
    shop.sql("ALTER TABLE t_new ADD COLUMN n INT")
    shop.insert("t_new", id="1", v="x", n=None)
    shop.insert("t_new", id="2", v="y", n="3")
    settled(shop, 1)
    shop.sql("RENAME TABLE t TO t_old")
    shop.sql("RENAME TABLE t_new TO t")
    shop.sql("DROP TABLE t_old")
    shop.insert("t", id="4", v="z", n="5")
    settled(shop)
    assert shop.rows("t") == [(1, "x", None), (2, "y", 3), (4, "z", 5)]
    assert shop.rows("t_new") is None
    assert shop.rows("t_old") is None
    assert shop.condition("t") == "clean"


@PROTOCOLS
@pytest.mark.parametrize(
    "ddls",
    [
        ("ALTER TABLE t ADD COLUMN n INT", "DROP TABLE t"),
        ("TRUNCATE TABLE t", "DROP TABLE t"),
        ("RENAME TABLE t TO u", "ALTER TABLE u ADD COLUMN n INT", "DROP TABLE u"),
    ],
)
def test_a_table_that_was_changed_and_dropped_before_the_job_began_stops_nothing(
    protocol: str, ddls: tuple[str, ...]
) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    for query in ddls:
        shop.sql(query)
    settled(shop)
    assert shop.rows("other") is not None
    assert shop.rows("t") is shop.rows("u") is None
    assert shop.applied > shop.ts - (5000 << 18)


@PROTOCOLS
@pytest.mark.parametrize("read", [1, 2])
def test_a_ddl_before_the_read_needs_no_schema_whenever_the_job_dies(protocol: str, read: int) -> None:
    """``read``: how often the source is looked at before the deaths: the read begins at the third time."""

    def make() -> Shop:
        shop = shop_with_a_table_before(protocol)
        shop.sql("ALTER TABLE t RENAME COLUMN v TO w")
        shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "w": "x"}
        shop.insert("t", id="2", w="y")
        settled(shop, read)
        shop.insert("other", id="9")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        settled(shop, 4)
        assert shop.rows("t") == [(1, "x"), (2, "y")]

    assert after_every_death(make, judge) > 5


def shop_without_the_table(protocol: str, *ddls: str) -> Shop:
    """``t`` was changed before the job began, and the source does not have it any more."""
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.insert("t", id="3", v="z", n="1")
    for query in ddls:
        shop.sql(query)
    return shop


@PROTOCOLS
@pytest.mark.parametrize("messages", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("gone", [("DROP TABLE t",), ("RENAME TABLE t TO u", "DROP TABLE u")])
def test_a_changed_table_stops_nothing_while_its_drop_is_still_to_be_read(
    protocol: str, gone: tuple[str, ...], messages: int
) -> None:
    shop = shop_without_the_table(protocol)
    shop.watermark()
    shop.sql(gone[0])
    shop.insert("other", id="1")
    shop.watermark()
    for query in gone[1:]:
        shop.sql(query)
    shop.batch(messages)
    settled(shop)
    assert shop.lab.view().tables.keys() & {(SCHEMA, "t"), (SCHEMA, "u")} <= {
        name for name, table in shop.lab.view().tables.items() if table.condition == "dropped"
    }
    assert shop.rows("t") is shop.rows("u") is None
    assert shop.applied > shop.ts - (5000 << 18)
    assert shop.condition("other") == "clean"


@PROTOCOLS
def test_a_table_that_was_renamed_is_read_under_its_new_name_whenever_the_rename_is_read(protocol: str) -> None:
    shop = shop_without_the_table(protocol)
    shop.watermark()
    shop.sql("RENAME TABLE t TO u")
    shop.held[(SCHEMA, "u"), "1"] = {"id": "1", "v": "x", "n": None}
    shop.held[(SCHEMA, "u"), "2"] = {"id": "2", "v": "y", "n": None}
    shop.batch(4)
    shop.insert("u", id="4", v="w", n="2")
    shop.follow_source()
    settled(shop)
    assert shop.rows("t") is None
    assert shop.rows("u") == [(1, "x", None), (2, "y", None), (3, "z", 1), (4, "w", 2)]
    assert shop.condition("u") == "clean"


@PROTOCOLS
@pytest.mark.parametrize("ddl", ["", "ALTER TABLE late ADD COLUMN n INT"])
@pytest.mark.parametrize("before", [[], ["CREATE TABLE late (id INT PRIMARY KEY)", "DROP TABLE late"]])
def test_a_table_that_the_changefeed_sends_later_is_read_in_full(protocol: str, ddl: str, before: list[str]) -> None:
    """It is older than the changefeed, whose rules include it since. The job has asked for its tables before."""
    shop = shop_with_a_table_before(protocol)
    for query in before:
        shop.sql(query)
    settled(shop)
    shop.change("CREATE TABLE late (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.held[(SCHEMA, "late"), "1"] = {"id": "1", "v": "x"}
    shop.insert("late", id="2", v="y")
    if ddl:
        shop.sql(ddl)
        shop.held[(SCHEMA, "late"), "1"]["n"] = shop.held[(SCHEMA, "late"), "2"]["n"] = None
    shop.follow_source()
    settled(shop)
    assert [row[:2] for row in shop.rows("late") or ()] == [(1, "x"), (2, "y")]
    assert shop.condition("late") == "clean"


@PROTOCOLS
@pytest.mark.parametrize("ddl", ["", "ALTER TABLE t ADD COLUMN n INT"])
def test_a_table_that_the_reader_may_not_see_stops_the_job(protocol: str, ddl: str) -> None:
    """A user without SELECT on a table does not see it, which is no DROP. Its rows must not be lost."""
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    if ddl:
        shop.sql(ddl)
    hidden = shop.tables.pop((SCHEMA, "t"))
    shop.start()
    shop.follow_source()
    with pytest.raises(DecisionNeeded, match=r"`shop`\.`t`: its messages come, but .* does not show it.*SELECT"):
        settled(shop)
    shop.tables[SCHEMA, "t"] = hidden
    settled(shop)
    assert [row[:2] for row in shop.rows("t") or ()] == [(1, "x"), (2, "y")]
    assert shop.condition("t") == "clean"


@PROTOCOLS
@pytest.mark.parametrize("ddl", ["", "ALTER TABLE t ADD COLUMN n INT"])
def test_a_table_that_is_excluded_while_it_waits_is_read_once_it_is_included_again(protocol: str, ddl: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    if ddl:
        shop.sql(ddl)
    shop.watermark()
    shop.run()
    shop.configure(tables=("shop.*", "!shop.t"))
    settled(shop)
    assert shop.rows("t") is None
    assert shop.condition("other") == "clean"
    shop.configure(tables=())
    settled(shop)
    assert [row[:2] for row in shop.rows("t") or ()] == [(1, "x"), (2, "y")]


@PROTOCOLS
def test_a_job_without_full_reads_does_not_wait_for_one(protocol: str) -> None:
    """The section was there when the table was found, and is gone."""
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.setup = msgspec.structs.replace(shop.setup, snapshot="")
    shop.insert("t", id="3", v="z")
    with suppress(SchemaMissing):
        for _ in range(8):
            shop.clock.advance(200.0)
            shop.watermark()
            shop.run()
        pytest.fail("the job waits for ever")


@pytest.mark.parametrize(
    "query", ["TRUNCATE TABLE t", "ALTER TABLE t ADD COLUMN n INT", "RENAME TABLE t TO u", "DROP TABLE t"]
)
@pytest.mark.parametrize("snapshot", ["now", ""])
def test_a_ddl_whose_message_lacks_the_database_stops_the_job(query: str, snapshot: str) -> None:
    shop = Shop("simple", snapshot=snapshot)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="1")
    shop.watermark()
    shop.run()
    shop.send_ddl(msgspec.structs.replace(shop.change(query), table=None, pre_table=None))
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=query):
        shop.run()
    assert shop.rows("t") == [(1, 1)]
