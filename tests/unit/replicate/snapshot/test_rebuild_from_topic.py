"""A table is read again from the job's own topics, beside the old copy, while the others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from tests.memory_sink.sink import MemorySink
from tests.simulator.wire import WIRES
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.values import MessagePlace, SkipDdl
from ticdc_spark.errors import DecisionNeeded, UsageError

T = (SCHEMA, "t")
PROTOCOLS = pytest.mark.parametrize("protocol", sorted(WIRES))
WHOLE = [(1, "new"), (3, "moved"), (4, "x")]


def settle(shop: Shop) -> None:
    shop.watermark()
    shop.run()


def shop_with_history(protocol: str = "simple", **keys: object) -> Shop:
    """A table whose rows were inserted, changed, deleted, and moved to another key."""
    shop = Shop(protocol, **keys)  # type: ignore[arg-type]
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    for key in "12":
        shop.insert("t", id=key, v="old")
    settle(shop)
    shop.update("t", id="1", v="new")
    shop.delete("t", id="2")
    shop.insert("t", id="3", v="moved")
    shop.insert("t", id="4", v="x")
    settle(shop)
    return shop


def damage(shop: Shop) -> None:
    """Another writer changes rows of the table, and the job notices."""
    shop.lab.lake.insert(T, {"id": 99, "v": "alien"})
    shop.lab.lake.delete(T, 0)
    shop.update("t", id="4", v="x")
    settle(shop)
    assert shop.condition("t") == "diverged"


def rebuilt(shop: Shop) -> Shop:
    shop.rebuild_from_topic("t")
    shop.insert("other", id="7")
    settle(shop)
    return shop


def refused(shop: Shop) -> str:
    """Ask for a rebuild, which the job refuses. Returns: what `status` says"""
    before = shop.rows("t"), shop.condition("t")
    rebuilt(shop)
    assert (shop.rows("t"), shop.condition("t")) == before
    assert (7,) in (shop.rows("other") or [])
    detail = shop.status("t").detail
    assert "it could not be read from its topics" in detail
    return detail


@PROTOCOLS
def test_a_damaged_table_equals_the_source_again(protocol: str) -> None:
    shop = shop_with_history(protocol)
    damage(shop)
    rebuilt(shop)
    assert shop.rows("t") == WHOLE
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_the_feed_goes_on_after_it(protocol: str) -> None:
    shop = shop_with_history(protocol)
    damage(shop)
    shop.rebuild_from_topic("t")
    shop.update("t", id="1", v="newer")
    shop.delete("t", id="3")
    settle(shop)
    shop.insert("t", id="5", v="y")
    settle(shop)
    assert shop.rows("t") == [(1, "newer"), (4, "x"), (5, "y")]
    assert shop.condition("t") == "clean"


def test_readers_see_the_old_rows_until_one_commit_swaps_them() -> None:
    shop = shop_with_history()
    damage(shop)
    old = shop.rows("t")
    shop.rebuild_from_topic("t")
    shop.dies("finish to load")
    assert shop.rows("t") == old
    shop.run(again=True)
    settle(shop)
    assert shop.rows("t") == WHOLE


def test_a_table_that_was_dropped_in_the_lake_is_there_again() -> None:
    shop = shop_with_history("open")
    shop.lab.lake.drop(T)
    with pytest.raises(DecisionNeeded, match="--from topic"):
        shop.run(again=True)
    rebuilt(shop)
    assert shop.rows("t") == WHOLE
    assert shop.condition("t") == "clean"


def test_a_table_that_was_rolled_back_is_whole_again() -> None:
    shop = shop_with_history("canal-json")
    shop.rollback("t")
    with pytest.raises(DecisionNeeded, match="--from topic"):
        shop.run(again=True)
    rebuilt(shop)
    assert shop.rows("t") == WHOLE
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_rows_from_before_a_ddl_have_what_it_gave_them(protocol: str) -> None:
    shop = shop_with_history(protocol)
    shop.sql("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5")
    shop.insert("t", id="6", v="y", n="7")
    shop.sql("ALTER TABLE t ADD COLUMN m INT, DROP COLUMN v")
    shop.sql("CREATE INDEX i ON t (n)")
    shop.insert("t", id="8", n="9", m="1")
    settle(shop)
    expected = shop.rows("t")
    assert expected == [(1, 5, None), (3, 5, None), (4, 5, None), (6, 7, None), (8, 9, 1)]
    shop.lab.lake.delete(T, 0)
    shop.insert("t", id="10", n="1", m="1")
    settle(shop)
    assert shop.condition("t") == "diverged"
    rebuilt(shop)
    assert shop.rows("t") == sorted([*expected, (10, 1, 1)], key=repr)
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_it_begins_at_the_last_truncate(protocol: str) -> None:
    shop = shop_with_history(protocol)
    shop.sql("ALTER TABLE t MODIFY COLUMN v VARCHAR(20)")
    shop.sql("TRUNCATE TABLE t")
    shop.insert("t", id="1", v="only")
    shop.insert("t", id="4", v="x")
    settle(shop)
    damage(shop)
    rebuilt(shop)
    assert shop.rows("t") == [(1, "only"), (4, "x")]
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_a_truncate_is_enough_if_the_create_is_gone(protocol: str) -> None:
    shop = shop_with_history(protocol)
    place = ("cdc", 0)
    shop.watermark()
    before = shop.broker.end_offsets()[place] - 1
    shop.sql("TRUNCATE TABLE t")
    if protocol == "simple":
        shop.bootstrap("t")
    shop.insert("t", id="4", v="x")
    settle(shop)
    damage(shop)
    shop.broker.trim(place, before)
    rebuilt(shop)
    assert shop.rows("t") == [(4, "x")]
    assert shop.condition("t") == "clean"


def test_a_second_table_of_the_same_name_has_no_rows_of_the_first() -> None:
    shop = shop_with_history("open")
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="4", v="x")
    settle(shop)
    damage(shop)
    rebuilt(shop)
    assert shop.rows("t") == [(4, "x")]


def test_a_ddl_that_was_skipped_is_done() -> None:
    shop = shop_with_history("simple")
    change = shop.change("ALTER TABLE t ADD COLUMN n INT")
    shop.configure(skip_ddl=(SkipDdl(change.commit_ts, "*"),))
    shop.send_ddl(change)
    settle(shop)
    assert shop.condition("t") == "diverged"
    rebuilt(shop)
    assert shop.columns("t") == ("id", "v", "n")
    assert shop.condition("t") == "clean"


def test_a_quarantined_table_goes_on_if_its_message_can_be_read_by_now() -> None:
    """As after an upgrade; its rows that wait are applied once."""
    shop = Shop("simple", on_reject="quarantine")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="x")
    settle(shop)
    at = shop.broker.end_offsets()["cdc", 0]
    shop.insert("t", id="2", v="y")
    partition = shop.broker.topics["cdc"].partitions[0]
    message = partition.messages[-1]
    partition.messages[-1] = msgspec.structs.replace(message, value=b"{")
    settle(shop)
    assert shop.condition("t") == "quarantined"
    shop.rebuild_from_topic("t")
    settle(shop)
    assert shop.condition("t") == "quarantined"
    assert f"topic cdc, partition 0, offset {at}" in shop.status("t").detail
    partition.messages[at - partition.first] = message
    rebuilt(shop)
    assert shop.rows("t") == [(1, "x"), (2, "y")]
    settle(shop)
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("protocol", ["simple", "open"])
def test_a_death_at_any_action_ends_in_the_same_table(protocol: str) -> None:
    def make() -> Shop:
        shop = shop_with_history(protocol)
        shop.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 1, DROP COLUMN v")
        settle(shop)
        shop.lab.lake.delete(T, 0)
        shop.insert("t", id="6", n="6")
        settle(shop)
        assert shop.condition("t") == "diverged"
        shop.rebuild_from_topic("t")
        shop.insert("t", id="7", n="7")
        shop.insert("other", id="1")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        settle(shop)
        assert shop.rows("t") == [(1, 1), (3, 1), (4, 1), (6, 6), (7, 7)]
        assert shop.rows("other") == [(1,)]
        assert shop.condition("t") == "clean"

    assert after_every_death(make, judge) > 12


def test_messages_that_are_removed_while_the_job_is_dead_leave_the_table_as_it_was() -> None:
    shop = shop_with_history("simple")
    damage(shop)
    old = shop.rows("t")
    shop.rebuild_from_topic("t")
    shop.dies("load rows of")
    shop.broker.trim(("cdc", 0), 4)
    shop.insert("t", id="5", v="y")
    shop.run(again=True)
    settle(shop)
    assert shop.rows("t") == sorted([*(old or []), (5, "y")], key=repr)
    assert shop.condition("t") == "diverged"
    assert "begins at offset 4" in shop.status("t").detail


def test_a_table_that_cannot_be_brought_back_into_the_lake_is_marked() -> None:
    shop = shop_with_history("simple")
    shop.lab.lake.drop(T)
    shop.stop()
    shop.rebuild_from_topic("t")
    shop.dies("load rows of")
    shop.broker.trim(("cdc", 0), 4)
    settle(shop)
    assert shop.condition("t") == "diverged"
    assert "it was not in the target, and could not be read" in shop.status("t").detail


def test_a_ddl_that_waits_for_a_quarantined_table_is_done_once() -> None:
    shop = Shop("open", on_reject="quarantine")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="x")
    settle(shop)
    place = shop.broker.end_offsets()["cdc", 0]
    shop.insert("t", id="2", v="y")
    partition = shop.broker.topics["cdc"].partitions[0]
    message = partition.messages[-1]
    partition.messages[-1] = msgspec.structs.replace(message, value=b"{")
    settle(shop)
    shop.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 3")
    shop.insert("t", id="4", v="z", n="4")
    settle(shop)
    assert shop.condition("t") == "quarantined"
    assert shop.columns("t") == ("id", "v")
    partition.messages[place] = message
    shop.rebuild_from_topic("t")
    shop.insert("t", id="5", v="z", n="5")
    settle(shop)
    settle(shop)
    assert shop.rows("t") == [(1, "x", 3), (2, "y", 3), (4, "z", 4), (5, "z", 5)]
    assert shop.condition("t") == "clean"


def test_rows_that_tables_left_out_for_a_while_are_there() -> None:
    shop = shop_with_history("simple")
    shop.configure(tables=("shop.other",))
    shop.insert("t", id="5", v="y")
    settle(shop)
    with pytest.raises(UsageError, match="excludes it"):
        shop.rebuild_from_topic("t")
    shop.configure(tables=())
    settle(shop)
    shop.insert("t", id="6", v="y")
    settle(shop)
    assert shop.condition("t") == "diverged"
    rebuilt(shop)
    assert shop.rows("t") == [*WHOLE, (5, "y"), (6, "y")]
    settle(shop)
    assert shop.condition("t") == "clean"


def test_rows_that_come_late_after_it_are_no_replays() -> None:
    """The read has what was there, and not what should have been."""
    shop = shop_with_history("simple", late_rows="apply-if-newest")
    damage(shop)
    late = shop.row("insert", T, {"id": "5", "v": "late"})
    shop.watermark()
    shop.run()
    shop.rebuild_from_topic("t")
    shop.insert("t", id="6", v="y")
    settle(shop)
    shop.broker.add_partition("cdc")
    (row,) = shop.encoder.rows([late])
    shop.send(row, "cdc", 1)
    shop.watermark(partitions=2)
    shop.run()
    assert shop.rows("t") == [*WHOLE, (5, "late"), (6, "y")]
    assert shop.condition("t") == "unverified"


# ---- refusals


def test_a_schema_in_a_bootstrap_is_no_beginning() -> None:
    shop = Shop("simple")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.bootstrap("t")
    shop.insert("t", id="1", v="x")
    settle(shop)
    assert "neither its CREATE TABLE nor a TRUNCATE" in refused(shop)


def test_a_create_that_retention_has_removed_is_no_beginning() -> None:
    shop = shop_with_history("simple")
    damage(shop)
    shop.broker.trim(("cdc", 0), 2)
    assert "neither its CREATE TABLE nor a TRUNCATE. Topic cdc begins at offset 2" in refused(shop)


@pytest.mark.parametrize(("removed", "is_whole"), [(1, True), (2, False), (3, False)])
def test_a_partition_that_begins_above_the_create_may_have_had_rows(removed: int, is_whole: bool) -> None:
    """Its first message that is left must be a watermark, or a DDL, that is not above the CREATE."""
    shop = Shop("canal-json")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.watermark(partitions=2)
    shop.watermark(partitions=2)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    for key in "12":
        (row,) = shop.encoder.rows([shop.row("insert", T, {"id": key, "v": "x"})])
        shop.send(row, "cdc", 1)
    shop.insert("t", id="4", v="x")
    shop.watermark(partitions=2)
    shop.run()
    shop.lab.lake.delete(T, 0)
    shop.update("t", id="4", v="y")
    shop.watermark(partitions=2)
    shop.run()
    shop.broker.trim(("cdc", 1), removed)
    shop.rebuild_from_topic("t")
    shop.watermark(partitions=2)
    shop.run()
    if is_whole:
        assert shop.rows("t") == [(1, "x"), (2, "x"), (4, "y")]
        assert shop.condition("t") == "clean"
    else:
        assert shop.condition("t") == "diverged"
        assert f"topic cdc, partition 1 begins at offset {removed}" in shop.status("t").detail


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("ALTER TABLE t MODIFY COLUMN v VARBINARY(9)", "it changes the type of column `v`"),
        ("ALTER TABLE t RENAME COLUMN v TO w", "it renames column `v`"),
        ("ALTER TABLE t ADD COLUMN at DATETIME DEFAULT CURRENT_TIMESTAMP", "in place of its default"),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)", "it changes the key"),
        ("ALTER TABLE t ADD COLUMN g INT AS (id + 1) STORED", "NULL in place of what the server made"),
    ],
)
def test_a_ddl_that_changes_rows_is_refused_with_its_sql(ddl: str, why: str) -> None:
    shop = shop_with_history("open")
    damage(shop)
    shop.sql(ddl)
    settle(shop)
    detail = refused(shop)
    assert why in detail
    assert ddl in detail


def test_status_says_why_the_rebuild_of_a_clean_table_was_refused() -> None:
    shop = shop_with_history("open")
    ddl = "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)"
    shop.sql(ddl)
    settle(shop)
    assert shop.condition("t") == "clean"
    assert ddl in refused(shop)
    assert shop.condition("t") == "clean"


def test_a_default_that_has_changed_since_its_column_was_added_is_refused() -> None:
    shop = shop_with_history("open")
    shop.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 1")
    shop.sql("ALTER TABLE t ALTER COLUMN n SET DEFAULT 2")
    settle(shop)
    shop.lab.lake.delete(T, 0)
    shop.insert("t", id="6", v="x", n="6")
    settle(shop)
    assert "the default of column `n` has changed" in refused(shop)


def test_a_column_that_is_added_again_is_refused() -> None:
    shop = shop_with_history("open")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.sql("ALTER TABLE t ADD COLUMN v VARCHAR(9)")
    settle(shop)
    damage(shop)
    assert "it adds column `v`, which was dropped before" in refused(shop)


def test_a_table_that_was_renamed_is_refused() -> None:
    shop = shop_with_history("open")
    shop.sql("RENAME TABLE t TO u")
    shop.sql("RENAME TABLE u TO t")
    settle(shop)
    damage(shop)
    assert "a RENAME at" in refused(shop)


def test_a_table_that_was_renamed_in_a_topic_of_another_table_is_refused() -> None:
    shop = Shop("open", topic_per_table=True)
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("u", id="1", v="x")
    shop.sql("RENAME TABLE u TO t")
    shop.insert("t", id="4", v="x")
    settle(shop)
    damage(shop)
    refused(shop)


def test_a_message_that_was_left_out_is_refused() -> None:
    shop = shop_with_history("open")
    at = shop.broker.end_offsets()["cdc", 0]
    shop.configure(skip_messages=(MessagePlace("cdc", 0, at),))
    shop.update("t", id="1", v="lost")
    settle(shop)
    assert shop.condition("t") == "diverged"
    assert f"topic cdc, partition 0, offset {at}" in refused(shop)


def test_a_new_request_takes_the_refusal_away() -> None:
    shop = shop_with_history("open")
    shop.sql("RENAME TABLE t TO u")
    shop.sql("RENAME TABLE u TO t")
    settle(shop)
    damage(shop)
    refused(shop)
    shop.sql("TRUNCATE TABLE t")
    settle(shop)
    shop.insert("t", id="4", v="x")
    settle(shop)
    damage(shop)
    rebuilt(shop)
    assert (shop.rows("t"), shop.status("t").detail) == ([(4, "x")], "")


def test_a_table_that_is_gone_from_the_lake_and_from_its_topics_stops_the_job() -> None:
    shop = shop_with_history("open")
    shop.lab.lake.drop(T)
    shop.broker.trim(("cdc", 0), 2)
    shop.rebuild_from_topic("t")
    with pytest.raises(DecisionNeeded, match=r"cannot be read from its topics.*no longer in the target"):
        shop.run(again=True)


@pytest.mark.parametrize(
    ("make", "table", "why"),
    [
        (shop_with_history, "nothing", "not a table that the job replicates"),
        (Shop, "t", "no progress yet"),
    ],
)
def test_what_the_job_does_not_know_is_refused_at_once(make: Callable[[], Shop], table: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make().rebuild_from_topic(table)


def test_a_sink_that_cannot_read_in_full_refuses_it() -> None:
    shop = shop_with_history()
    damage(shop)
    assert shop.steps is not None
    sink = cast(MemorySink, shop.steps.sink)
    sink.capabilities = msgspec.structs.replace(sink.capabilities, full_reads=False)
    assert "another kind of sink" in refused(shop)


def test_arrival_mode_has_no_rebuild() -> None:
    shop = Shop("canal-json", mode="arrival")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.run()
    with pytest.raises(UsageError, match="needs watermarks"):
        shop.rebuild_from_topic("t")


@PROTOCOLS
@pytest.mark.parametrize("kind", ["ENUM('b','a')", "ENUM('new','a','b')", "SET('x','a','b')"])
def test_it_is_refused_where_a_ddl_has_changed_the_members_of_a_column(protocol: str, kind: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind[: kind.index('(')]}('a','b'))")
    shop.insert("t", id="1", v="1")
    settle(shop)
    shop.sql(f"ALTER TABLE t MODIFY v {kind}")
    settle(shop)
    before = shop.rows("t")
    rebuilt(shop)
    (refusal,) = shop.lab.state.progress.refused
    assert "it changes the members of column `v`" in refusal.why
    assert (shop.rows("t"), shop.condition("t")) == (before, "clean")


def test_it_is_refused_where_rows_have_columns_that_no_ddl_in_the_topics_has_made() -> None:
    shop = Shop("simple")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="1")
    settle(shop)
    shop.change("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 5")
    shop.bootstrap("t")
    shop.insert("t", id="2", v="2", w="2")
    settle(shop)
    assert "whose columns no DDL in the topics has made" in refused(shop)
    assert shop.rows("t") == [(1, 1, None), (2, 2, 2)]


def test_a_refused_rebuild_leaves_what_waits_for_a_quarantined_table() -> None:
    shop = Shop("simple", on_reject="quarantine")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    for key in "12":
        shop.insert("t", id=key, v="1")
    settle(shop)
    at = shop.broker.end_offsets()["cdc", 0]
    (sent,) = shop.encoder.rows([shop.row("insert", T, {"id": "6", "v": "6"})])
    assert sent.value is not None
    shop.broker.append(("cdc", 0), sent.key, sent.value.replace(b'"v":"6"', b'"v":"many"'), shop.ts >> 18)
    shop.update("t", id="1", v="2")
    shop.insert("t", id="7", v="7")
    settle(shop)
    assert "a row cannot be read" in refused(shop)
    shop.configure(skip_messages=(MessagePlace("cdc", 0, at),))
    shop.resume("t")
    shop.run()
    settle(shop)
    assert shop.rows("t") == [(1, 2), (2, 1), (7, 7)]


def test_a_table_of_a_binary_database_has_its_bytes_again() -> None:
    shop = Shop("canal-json")
    shop.sql(f"CREATE DATABASE {SCHEMA} CHARSET binary")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    shop.insert("t", id="1", v=b"\xff\xfe")
    settle(shop)
    assert rebuilt(shop).rows("t") == [(1, b"\xff\xfe")]
