"""A lost state folder: tables that are not there, that were catching up, and topics that are others."""

from __future__ import annotations

import pytest

from tests.unit.test_holes.changefeed import SCHEMA
from tests.unit.test_holes.shop import Shop
from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import RowChange, SchemaChange
from ticdc_spark.protocols.base import Encoded

MARKS = ("diverged", "quarantined")


def table(protocol: str = "simple", **job: object) -> Shop:
    """A table with a row that is applied."""
    shop = Shop(protocol, **job)  # type: ignore[arg-type]
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    shop.watermark()
    shop.run()
    return shop


def unreadable(shop: Shop, topic: str = "cdc") -> None:
    shop.send(Encoded(None, b"{"), topic)


def test_a_table_that_came_later_than_the_lost_state_is_marked_as_missing() -> None:
    """Its CREATE lies below what all tables had applied: whether it was dropped since, the DDLs say."""
    shop = table()
    shop.sql("CREATE TABLE gone (id INT PRIMARY KEY)")
    late = shop.change("CREATE TABLE late (id INT PRIMARY KEY)")
    row = shop.row("insert", (SCHEMA, "late"), {"id": "1"})
    shop.sql("DROP TABLE gone")
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.run()
    shop.insert("t", id="3", v="c")
    shop.watermark()
    shop.run()
    shop.lose_state()
    shop.send_ddl(late)
    shop.send_row(row)
    shop.insert("t", id="4", v="d")
    shop.watermark()
    shop.run()
    assert shop.condition("late") == "diverged"
    assert "the lake did not have it when the state was lost" in shop.status("late").detail
    assert (SCHEMA, "gone") not in shop.lab.view().tables
    assert shop.rows("t") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert shop.condition("t") == "clean"


def catch_up(shop: Shop, created: SchemaChange, row: RowChange, upto: int) -> None:
    """The topic of one table is sent up to a watermark, once the other is far beyond it."""
    for number in ("2", "3"):
        shop.insert("t", id=number, v="b")
        shop.watermark("cdc_shop_t")
        shop.run()
    shop.send_ddl(created)
    shop.send_row(row)
    shop.send(shop.encoder.watermark(upto), "cdc_shop_late")
    shop.run()


def test_a_table_that_was_catching_up_when_the_state_was_lost_gets_its_rows() -> None:
    shop = table(topic_per_table=True)
    late = shop.change("CREATE TABLE late (id INT PRIMARY KEY)")
    first = shop.row("insert", (SCHEMA, "late"), {"id": "1"})
    low = shop.tick()
    second = shop.row("insert", (SCHEMA, "late"), {"id": "2"})
    alter = shop.change("ALTER TABLE late ADD COLUMN n INT")
    catch_up(shop, late, first, low)
    assert shop.rows("late") == [(1,)]
    shop.lose_state()
    shop.send_row(second)
    shop.send_ddl(alter)
    shop.watermark()
    shop.run()
    assert shop.rows("late") == [(1, None), (2, None)]


def test_topics_that_were_made_anew_after_the_state_was_lost_stop_the_job() -> None:
    shop = table()
    shop.lose_state()
    shop.sql("DROP TABLE t")
    shop.broker.create("cdc")
    shop.watermark()
    with pytest.raises(SourceChanged, match="no topic reaches back"):
        shop.run()


def test_a_view_is_no_table_that_a_lost_state_lacks() -> None:
    shop = table()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    view = SchemaChange(
        commit_ts=shop.tick(), query="CREATE VIEW v AS SELECT 1", kind="CREATE", schema=SCHEMA, name="v"
    )
    shop.send_ddl(view)
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.run()
    shop.insert("t", id="3", v="c")
    shop.watermark()
    shop.run()
    shop.lose_state()
    shop.run()
    assert {name: one.condition for name, one in shop.lab.view().tables.items()} == {
        (SCHEMA, "t"): "clean",
        (SCHEMA, "u"): "clean",
    }


def test_a_partition_that_was_added_is_no_topic_made_anew() -> None:
    """The other one has lost its first messages by retention, and reaches back."""
    shop = table()
    for number in ("2", "3"):
        shop.insert("t", id=number, v="b")
        shop.watermark()
        shop.run()
    shop.lose_state()
    shop.broker.trim(("cdc", 0), 2)
    shop.broker.add_partition("cdc")
    shop.insert("t", id="4", v="b")
    shop.bootstrap("t")
    shop.watermark()
    shop.send(shop.encoder.watermark(shop.tick()), "cdc", 1)
    shop.run()
    assert shop.condition("t") == "clean"


def test_a_changefeed_that_was_made_anew_from_an_older_start_goes_on() -> None:
    shop = table()
    old = shop.applied
    shop.lose_state()
    shop.broker.create("cdc")
    shop.send(shop.encoder.watermark(old), "cdc")
    shop.bootstrap("t")
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, "a"), (2, "b")]


def two_topics() -> Shop:
    """Two tables with topics of their own; the state is lost."""
    shop = table(topic_per_table=True)
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    for number in ("1", "2"):
        shop.insert("u", id=number)
        shop.watermark()
        shop.run()
    shop.lose_state()
    return shop


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_the_topic_of_one_table_that_was_made_anew_after_the_state_was_lost_leaves_it_unverified(rows: int) -> None:
    """Seed 7105309: the topic of the other table reaches back, and this one began behind a row."""
    shop = two_topics()
    shop.insert("t", id="2", v="b")
    shop.broker.create("cdc_shop_t")
    shop.bootstrap("t")
    shop.insert("t", id="3", v="c")
    shop.insert("u", id="3")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") == [(1, "a"), (3, "c")]
    assert shop.condition("t") == "unverified"
    assert "its topics lost their first messages" in shop.status("t").detail
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,), (3,)], "clean")
    shop.run(again=True)
    assert shop.condition("t") == "unverified"


def test_a_topic_that_is_not_there_any_more_after_the_state_was_lost_leaves_its_table_unverified() -> None:
    shop = two_topics()
    shop.insert("t", id="2", v="b")
    shop.broker.delete("cdc_shop_t")
    shop.insert("u", id="3")
    shop.watermark()
    shop.run()
    assert (shop.condition("t"), shop.condition("u")) == ("unverified", "clean")


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_a_topic_without_rows_that_reaches_back_after_the_state_was_lost_leaves_its_table_clean(rows: int) -> None:
    """Retention has removed its rows; a watermark up to which they were applied is there."""
    shop = two_topics()
    shop.broker.trim(("cdc_shop_t", 0), shop.broker.end_offsets()["cdc_shop_t", 0] - 2)
    shop.insert("u", id="3")
    shop.watermark()
    shop.run(rows)
    assert (shop.condition("t"), shop.condition("u")) == ("clean", "clean")


def test_a_topic_in_which_retention_left_nothing_after_the_state_was_lost_leaves_its_table_unverified() -> None:
    shop = two_topics()
    shop.broker.trim(("cdc_shop_t", 0), shop.broker.end_offsets()["cdc_shop_t", 0])
    shop.insert("u", id="3")
    shop.watermark("cdc_shop_u")
    shop.run()
    shop.clock.advance(3600.0)
    shop.insert("u", id="4")
    shop.watermark("cdc_shop_u")
    shop.run()
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,), (3,), (4,)], "clean")
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "a")], "unverified")


@pytest.mark.parametrize("column", ["n INT", "n INT NOT NULL DEFAULT 3"])
@pytest.mark.parametrize("protocol", ["open", "canal-json"])
def test_a_rename_that_is_read_again_does_not_take_the_columns_of_a_later_table_of_the_name(
    protocol: str, column: str
) -> None:
    """Seed 7200589: the lake has `u`, and in place of the table that was `t`, another `t`."""
    creates = ("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", f"CREATE TABLE s (id INT PRIMARY KEY, {column})")
    shop = Shop(protocol, schema_sql=f"USE `shop`;\n{creates[0]};\n{creates[1]};\n")
    for create in creates:
        shop.change(create)
    one = shop.change("RENAME TABLE t TO u")
    shop.send_ddl(one)
    shop.send_ddl(shop.change("RENAME TABLE s TO t", ts=one.commit_ts))
    shop.insert("t", id="1", n="5")
    shop.watermark()
    shop.run()
    shop.lose_state()
    shop.sql("ALTER TABLE u ADD COLUMN w INT")
    shop.insert("u", id="2", v="a", w="7")
    shop.watermark()
    shop.run()
    assert (shop.columns("t"), shop.rows("t")) == (("id", "n"), [(1, 5)])
    assert (shop.columns("u"), shop.rows("u")) == (("id", "v", "w"), [(2, "a", 7)])


@pytest.mark.parametrize("protocol", ["open", "debezium"])
def test_a_state_that_is_lost_in_the_midst_of_a_rename_to_and_fro_does_not_mix_up_the_two(protocol: str) -> None:
    """The lake's table has its new name, and its stamp the schema of the old one."""
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="2")
    shop.watermark()
    shop.dies("stamp shop.u", after=True)
    shop.lose_state()
    shop.sql("RENAME TABLE u TO t")
    shop.insert("t", id="3")
    for _ in range(2):
        shop.watermark()
        shop.run()
    assert (shop.rows("t"), shop.condition("t"), shop.rows("u")) == ([(1,), (2,), (3,)], "clean", None)


def test_a_ddl_that_is_sent_again_alone_does_not_show_that_a_topic_reaches_back() -> None:
    """The topic was made anew, and a filter that was widened brings an old CREATE of another table."""
    shop = table()
    old = shop.change("CREATE TABLE late (id INT PRIMARY KEY)")
    for number in ("2", "3"):
        shop.insert("t", id=number, v="b")
        shop.watermark()
        shop.run()
    shop.lose_state()
    shop.insert("t", id="4", v="c")
    shop.broker.create("cdc")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.watermark()
    shop.send_ddl(old)
    shop.watermark()
    with pytest.raises(SourceChanged):
        shop.run()


@pytest.mark.parametrize("batches", range(1, 6))
def test_a_state_that_is_lost_while_an_older_copy_of_it_catches_up(batches: int) -> None:
    """Story 11639 of ``--harder``: the table that was made again under its old name counted as being as far as the one
    that has its new name, and stayed."""
    shop = Shop()
    shop.run()
    backup = shop.lab.state.save()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="2")
    shop.watermark()
    shop.run()
    shop.insert("u", id="3")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.lab.state.restore(backup)
    for _ in range(batches):
        shop.batch(2)
    shop.lose_state()
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.rows("u")) == (None, [(1,), (2,), (3,)])


def test_a_table_that_was_catching_up_when_the_state_was_lost_and_is_renamed_is_marked() -> None:
    shop = table(topic_per_table=True)
    late = shop.change("CREATE TABLE late (id INT PRIMARY KEY)")
    first = shop.row("insert", (SCHEMA, "late"), {"id": "1"})
    low = shop.tick()
    rename = shop.change("RENAME TABLE late TO later")
    second = shop.row("insert", (SCHEMA, "later"), {"id": "2"})
    catch_up(shop, late, first, low)
    shop.lose_state()
    shop.send_ddl(rename)
    shop.send_row(second)
    shop.watermark()
    shop.run()
    shop.watermark()
    shop.run()
    assert (shop.rows("later"), shop.condition("later")) == ([(1,)], "diverged")


@pytest.mark.parametrize("at", ["apply rows", "stamp shop.late", "rename shop.late", "stamp shop.later"])
@pytest.mark.parametrize("after", [False, True])
def test_a_state_that_is_lost_again_in_the_batch_in_which_a_table_catches_up_loses_no_rename(
    at: str, after: bool
) -> None:
    """Seed 8721960: the stamp counted the table as one that had gone as far as the others, and the RENAME after it as
    applied."""
    shop = table(topic_per_table=True)
    late = shop.change("CREATE TABLE late (id INT PRIMARY KEY)")
    first = shop.row("insert", (SCHEMA, "late"), {"id": "1"})
    low = shop.tick()
    second = shop.row("insert", (SCHEMA, "late"), {"id": "2"})
    rename = shop.change("RENAME TABLE late TO later")
    catch_up(shop, late, first, low)
    shop.send_row(second)
    shop.send_ddl(rename)
    shop.watermark()
    shop.dies(at, after=after)
    shop.lose_state()
    shop.watermark()
    shop.run()
    shop.watermark()
    shop.run()
    assert shop.rows("late") is None
    assert shop.rows("later") == [(1,), (2,)] or shop.condition("later") == "diverged"


def test_a_state_that_is_lost_while_a_partition_is_passed_over_marks_the_tables_of_its_topic() -> None:
    """Seed 8831544: what comes of the partition later, below what the others had reached, counted as replays."""
    shop = table(topic_per_table=True)
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    hanging = shop.row("insert", (SCHEMA, "t"), {"id": "9", "v": "late"})
    shop.insert("u", id="1")
    shop.watermark("cdc_shop_u")
    shop.run()
    shop.clock.advance(3600.0)
    shop.run()
    shop.insert("u", id="2")
    shop.insert("t", id="8", v="x")
    shop.watermark("cdc_shop_u")
    shop.run()
    shop.clock.advance(3600.0)
    shop.run()
    assert shop.rows("t") == [(1, "a"), (8, "x")]
    shop.lose_state()
    shop.send_row(hanging)
    for _ in range(2):
        shop.watermark()
        shop.run()
    assert shop.rows("t") == [(1, "a"), (8, "x"), (9, "late")] or shop.condition("t") == "diverged"
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,)], "clean")
