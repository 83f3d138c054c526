"""How far all tables may go: the fold of control events into the progress, rule by rule. No Spark."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.scanned import scanned
from ticdc_spark.model import Column, ColumnType, Offsets, Partitioning, SchemaChange, Table
from ticdc_spark.replicate.modes.base import Advanced, Rules, SchemaWaits
from ticdc_spark.replicate.modes.next_progress import Applied, committed
from ticdc_spark.replicate.modes.watermark import advance, due
from ticdc_spark.replicate.schemas.history import (
    ANY_VERSION,
    KEPT_OF_PARTITIONED,
    KEPT_VERSIONS,
    forget_schemas,
    without_blocks,
)
from ticdc_spark.replicate.state.conditions import Clean, Condition, Dropped
from ticdc_spark.replicate.state.progress import KnownSchema, PartitionState, Progress
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import (
    BootstrapRead,
    ControlEvent,
    DdlRead,
    MessageRejected,
    RowCounts,
    RowsRead,
    SchemaBlockRead,
    WatermarkRead,
)

NOW = 1_000_000.0
LIVE = Rules(idle_timeout=60.0, bounded=False, now=NOW)
BOUNDED = Rules(idle_timeout=60.0, bounded=True, now=NOW)


def table(name: str = "a", version: int = 1) -> Table:
    return Table(
        schema="s",
        name=name,
        version=version,
        columns=(Column(name="id", type=ColumnType(name="int"), nullable=False),),
    )


def place(partition: int = 0, offset: int = 0) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "offset": offset, "seq": 0}


def watermark(ts: int, partition: int = 0, offset: int = 0) -> ControlEvent:
    return WatermarkRead(**place(partition, offset), commit_ts=ts)


def rows(low: int, high: int, name: str = "a", key: str = "1", partition: int = 0, **counts: int) -> ControlEvent:
    summary = RowCounts(**({"rows": 2, "min_ts": low, "max_ts": high, "first": 0, "end": 9} | counts))
    about = {"schema": "s", "table": name, "schema_key": key, "sent": ("s", name)}
    return RowsRead(**place(partition, -1), **about, summary=summary)


def bootstrap(version: int = 1, name: str = "a") -> ControlEvent:
    return BootstrapRead(**place(), table=table(name, version))


def ddl(ts: int, query: str = "ALTER TABLE `a` ADD COLUMN b INT", partition: int = 0, offset: int = 0) -> ControlEvent:
    change = SchemaChange(commit_ts=ts, query=query, kind="ALTER", schema="s", name="a", table=table(version=ts))
    return DdlRead(**place(partition, offset), change=change)


def block(ts: int, key: str = "#b", name: str = "a") -> ControlEvent:
    about = {"schema": "s", "table": name, "schema_key": key, "commit_ts": ts}
    return SchemaBlockRead(**place(), **about, held=table(name, ts))


def fold(progress: Progress, *controls: ControlEvent, ends: Offsets | None = None, **more: Any) -> Advanced:
    read = ends or {("t", 0): 10}
    latest_offsets = more.pop("latest_offsets", read)
    rules = more.pop("rules", LIVE)
    return advance(progress, scanned(controls, read, latest_offsets), rules, SchemaWaits(**more))


def commit(advanced: Advanced) -> Progress:
    states = {(state.schema, state.name): state for state in advanced.progress.tables}
    progress = advanced.progress
    return committed(progress, Applied(batch=progress.batch + 1, states=states, resolved=advanced.resolved, at=NOW))


EMPTY = Progress(job="j")
TWO = {("t", 0): 10, ("t", 1): 10}


def test_a_watermark_covers_what_is_smaller_than_itself() -> None:
    assert fold(EMPTY, watermark(100)).resolved == 99


def test_a_watermark_that_goes_back_is_counted_and_changes_nothing() -> None:
    advanced = fold(EMPTY, watermark(100, offset=1), watermark(40, offset=2), watermark(90, offset=3))
    assert (advanced.resolved, advanced.progress.counters.regressions) == (99, 1)
    again = fold(commit(advanced), watermark(50))
    assert (again.resolved, again.progress.counters.regressions) == (99, 2)
    assert fold(commit(again), watermark(120)).resolved == 119


def test_the_lowest_partition_bounds_all() -> None:
    latest_offsets = {("t", 0): 10, ("t", 1): 11}
    advanced = fold(EMPTY, watermark(100), watermark(30, 1), ends=TWO, latest_offsets=latest_offsets, rules=BOUNDED)
    assert advanced.resolved == 29
    assert advanced.progress.hold.kind == "partition"
    assert "partition 1 of topic t" in advanced.progress.hold.what


def test_a_consumed_partition_without_a_newer_watermark_is_idle_at_once_in_a_bounded_run() -> None:
    advanced = fold(EMPTY, watermark(100), watermark(30, 1), ends=TWO, rules=BOUNDED)
    assert advanced.resolved == 99
    assert [state.idle for state in advanced.progress.partitions] == [False, True]


def test_a_consumed_partition_is_idle_after_the_timeout_else() -> None:
    advanced = fold(EMPTY, watermark(100), watermark(30, 1), ends=TWO)
    assert advanced.resolved == 29
    progress = commit(advanced)

    def after(seconds: float, *more: ControlEvent, latest_offsets: Offsets = TWO) -> int:
        rules = Rules(idle_timeout=60.0, bounded=False, now=NOW + seconds)
        return fold(progress, *more, ends=TWO, latest_offsets=latest_offsets, rules=rules).resolved

    assert after(59) == 29
    assert after(60) == 99
    # What was listed after the watermarks were read is not consumed yet.
    assert after(3600, latest_offsets={**TWO, ("t", 1): 11}) == 29
    # One that has just risen is not idle: the next one may be on its way.
    assert after(3600, watermark(50, 1)) == 49


def test_an_idle_partition_that_awakes_holds_nothing_back_that_was_passed() -> None:
    progress = commit(fold(EMPTY, watermark(100), watermark(30, 1), ends=TWO, rules=BOUNDED))
    advanced = fold(progress, watermark(40, 1), ends=TWO, latest_offsets={**TWO, ("t", 1): 20})
    assert advanced.resolved == 99


def test_a_new_partition_holds_back() -> None:
    progress = commit(fold(EMPTY, watermark(100)))
    advanced = fold(
        progress, watermark(200), ends={("t", 0): 20}, latest_offsets={("t", 0): 20, ("new", 0): 3}, rules=BOUNDED
    )
    assert advanced.resolved == 99
    assert "topic new" in advanced.progress.hold.what
    assert "3 messages to read" in advanced.progress.hold.what


def test_no_watermark_at_all_resolves_nothing() -> None:
    advanced = fold(EMPTY, rows(1, 5), rules=BOUNDED)
    assert advanced.resolved <= 0
    assert advanced.progress.hold.kind == "partition"


def test_rows_without_their_schema_hold_everything_before_them() -> None:
    advanced = fold(EMPTY, rows(50, 60), rows(20, 90, name="b"), bootstrap(name="b"), watermark(100))
    assert advanced.resolved == 49
    assert [waiting.name for waiting in advanced.missing] == ["a"]
    assert advanced.progress.hold.kind == "schema"
    assert "`s`.`a`" in advanced.progress.hold.what
    assert "version 1" in advanced.progress.hold.what
    assert advanced.progress.schema_wait_since == NOW
    progress = commit(advanced)
    assert fold(progress, bootstrap()).resolved == 99
    assert fold(progress, bootstrap(version=2)).resolved == 49
    assert fold(progress, skips_to_known=lambda *name: name == ("s", "a")).resolved == 99


def test_the_schema_wait_counts_from_its_beginning_and_ends_with_it() -> None:
    progress = commit(fold(EMPTY, rows(50, 60), watermark(100)))
    later = Rules(idle_timeout=60.0, bounded=False, now=NOW + 500)
    advanced = fold(progress, watermark(110), rules=later)
    assert advanced.progress.schema_wait_since == NOW
    assert fold(commit(advanced), bootstrap(), rules=later).progress.schema_wait_since == 0


def test_a_schema_of_a_file_reads_any_version() -> None:
    known = KnownSchema(schema="s", name="a", key=ANY_VERSION, table=table())
    assert fold(replace(EMPTY, schemas=(known,)), rows(50, 60), watermark(100)).resolved == 99


def test_rows_above_the_watermark_wait_for_their_schema_without_holding() -> None:
    advanced = fold(EMPTY, rows(150, 160), watermark(100))
    assert (advanced.resolved, advanced.missing) == (99, ())


def test_until_ts_is_a_bound() -> None:
    rules = Rules(idle_timeout=60.0, bounded=True, now=NOW, until_ts=70)
    assert fold(EMPTY, watermark(100), rules=rules).resolved == 70
    assert fold(EMPTY, watermark(60), rules=rules).resolved == 59


def test_resolved_never_goes_back() -> None:
    progress = replace(EMPTY, applied=500)
    assert fold(progress, watermark(100)).resolved == 500


def test_copies_of_a_ddl_are_one() -> None:
    advanced = fold(EMPTY, ddl(50, partition=0, offset=3), ddl(50, partition=1, offset=2), ddl(50, offset=9), ends=TWO)
    assert len(advanced.progress.ddls) == 1
    again = fold(commit(advanced), ddl(50, partition=1, offset=20), ends=TWO)
    assert len(again.progress.ddls) == 1


def test_a_ddl_at_or_below_applied_is_a_replay() -> None:
    begun = replace(EMPTY, tables=(TableState(schema="s", name="a"),))
    progress = commit(fold(begun, ddl(50), watermark(100)))
    assert not progress.ddls
    assert not fold(progress, ddl(50), ddl(99, "ALTER TABLE a DROP COLUMN b")).progress.ddls
    assert len(fold(progress, ddl(100)).progress.ddls) == 1


def test_a_ddl_below_applied_is_none_for_a_table_that_was_never_seen() -> None:
    progress = commit(fold(EMPTY, watermark(100)))
    advanced = fold(progress, ddl(50), latest_offsets={("t", 0): 20})
    assert len(advanced.progress.ddls) == 1
    (behind,) = advanced.progress.catching_up
    assert behind.needs == (("t", 0, 100),), "the partition had passed it: only a newer watermark bounds the table"
    assert not fold(advanced.progress, watermark(101)).progress.catching_up


def test_ddls_of_one_commit_ts_keep_their_order() -> None:
    first, second = ddl(50, "RENAME TABLE b TO c", offset=4), ddl(50, "RENAME TABLE a TO b", offset=5)
    advanced = fold(EMPTY, second, first, ddl(40, offset=9), ddl(99, offset=1), watermark(60))
    assert [one.change.commit_ts for one in due(advanced.progress.ddls, 59)] == [40, 50, 50]
    assert [one.change.query for one in due(advanced.progress.ddls, 59)][1:] == [
        "RENAME TABLE b TO c",
        "RENAME TABLE a TO b",
    ]


def test_a_ddl_at_the_watermark_waits() -> None:
    advanced = fold(EMPTY, ddl(100), watermark(100))
    assert not due(advanced.progress.ddls, advanced.resolved)
    assert due(advanced.progress.ddls, fold(commit(advanced), watermark(101)).resolved)


def test_rows_wait_until_they_are_passed() -> None:
    read = (rows(10, 20, first=3, end=7), rows(5, 90, partition=1), bootstrap(), watermark(50))
    advanced = fold(EMPTY, *read, ends={("t", 0): 9})
    first, second = advanced.progress.pending
    assert (first.rows, first.min_ts, first.max_ts, first.partition, first.first, first.end) == (2, 10, 20, 0, 3, 7)
    assert (second.rows, second.min_ts, second.max_ts, second.partition) == (2, 5, 90, 1)
    progress = commit(advanced)
    assert [(rest.min_ts, rest.max_ts) for rest in progress.pending] == [(50, 90)]
    assert commit(fold(progress, watermark(91))).pending == ()


def test_rejects_are_reported_with_their_place() -> None:
    (reject,) = fold(EMPTY, MessageRejected(**place(offset=7), reason="no JSON")).rejects
    assert (reject.topic, reject.partition, reject.offset, reject.reason) == ("t", 0, 7, "no JSON")


def test_replays_and_late_rows_are_counted() -> None:
    advanced = fold(EMPTY, rows(0, 0, rows=0, replays=3, late=2))
    assert (advanced.progress.counters.replays, advanced.late, advanced.progress.pending) == (3, 2, ())


@pytest.mark.parametrize("condition", [Clean(), Dropped()])
def test_schemas_do_not_grow_with_time(condition: Condition) -> None:
    progress = replace(EMPTY, tables=(TableState(schema="s", name="a", condition=condition),))
    for version in range(1, 200):
        progress = commit(fold(progress, ddl(version * 10), rows(version * 10 + 1, version * 10 + 2, key="7")))
    kept = [schema.key for schema in forget_schemas(progress)]
    assert len(kept) <= KEPT_VERSIONS + 1
    assert "1990" in kept


def test_older_versions_of_a_partitioned_table_are_kept_for_rows_of_its_older_partitions() -> None:
    """TiCDC 8.5.4 to 8.5.7 sends such rows with the version that the table had when it began to read the partition."""
    versions = tuple(
        KnownSchema(schema="s", name="a", key=str(version), table=table(version=version), since=version)
        for version in range(1, 201)
    )
    for partitioning, kept in ((None, KEPT_VERSIONS), (Partitioning(kind="range"), KEPT_OF_PARTITIONED)):
        now = replace(table(version=200), partitioning=partitioning)
        state = TableState(schema="s", name="a", table=now, condition=Clean())
        found = forget_schemas(replace(EMPTY, tables=(state,), schemas=versions))
        assert [schema.key for schema in found] == [str(version) for version in range(201 - kept, 201)]


def test_a_schema_that_rows_wait_for_is_kept() -> None:
    progress = commit(fold(EMPTY, bootstrap(version=1), rows(5000, 5001), ddl(10)))
    for version in range(2, 40):
        progress = commit(fold(progress, bootstrap(version=version)))
    assert "1" in {schema.key for schema in progress.schemas}


def test_a_partition_is_remembered_with_its_offset() -> None:
    progress = commit(fold(EMPTY, watermark(9), ends={("t", 0): 7, ("u", 1): 0}))
    assert {(state.topic, state.partition): state.offset for state in progress.partitions} == {
        ("t", 0): 7,
        ("u", 1): 0,
    }
    assert isinstance(progress.partitions[0], PartitionState)


def test_a_schema_block_gives_no_table_where_there_are_watermarks() -> None:
    """Rows that came before the mode was known name their blocks; DDL describes their table all the same."""
    before = fold(Progress(job="j"), rows(100, 200, key="#b"), block(100)).progress
    begun, controls = without_blocks(before, (rows(150, 200, key="#c"), block(150, key="#c"), watermark(500)))
    advanced = fold(begun, *controls)
    assert advanced.resolved == 99 and [one.schema_key for one in advanced.missing] == ["", ""]
    assert not advanced.progress.schemas
    state = TableState(schema="s", name="a", table=table())
    assert fold(msgspec.structs.replace(begun, tables=(state,)), *controls).resolved == 499


def test_the_first_row_of_a_block_counts() -> None:
    first = fold(Progress(job="j"), block(300), block(100), block(200), block(50, key="#c")).progress
    assert {known.key: known.since for known in first.schemas} == {"#b": 100, "#c": 50}
    again = fold(first, block(90), block(400)).progress
    assert {known.key: (known.since, known.table.version) for known in again.schemas}["#b"] == (90, 90)


def test_a_batch_that_is_tried_again_with_lower_watermarks_lets_no_table_go_further_than_the_first_try() -> None:
    """Seed 8760664: a partition was added between the tries; the first one's resolved ts counts, for all but a table
    that is behind."""
    both = fold(EMPTY, watermark(100), watermark(0, 1), ends=TWO).progress
    again = (watermark(10, offset=11), ddl(20, "CREATE TABLE `a` (id INT)", offset=12))
    ends = TWO | {("t", 0): 13}
    idle = replace(LIVE, now=NOW + 100)
    first = fold(both, *again, ends=ends, rules=idle)
    assert first.resolved == 99 and [one.name for one in first.progress.catching_up] == ["a"]
    ends |= {("t", 2): 0}
    second = fold(both, *again, ends=ends, rules=replace(idle, floor=99))
    assert second.resolved == 0 and [one.name for one in second.progress.catching_up] == ["a"]


def test_a_table_below_a_watermark_of_its_partition_is_behind_also_while_nothing_is_resolved() -> None:
    """Seed 1481778: a widened changefeed sent an older DROP, once an idle partition counted no more."""
    low = (watermark(100, offset=1), watermark(10, offset=2), ddl(20, "CREATE TABLE `a` (id INT)", offset=3))
    first = fold(EMPTY, *low, ends=TWO)
    assert first.resolved == 0 and [one.name for one in first.progress.catching_up] == ["a"]
    rules = replace(LIVE, now=NOW + 100)
    second = fold(first.progress, ends=TWO, rules=rules)
    assert second.resolved == 99 and [one.needs for one in second.progress.catching_up] == [
        (("t", 0, 100), ("t", 1, 0))
    ]
    third = fold(second.progress, watermark(101, offset=9), ends=TWO, rules=replace(rules, now=NOW + 200))
    assert third.resolved == 100 and not third.progress.catching_up
