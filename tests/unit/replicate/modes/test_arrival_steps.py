"""Arrival mode without Spark: when a DDL is due, what is a replay, marks that only rise, and which mode a job has."""

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from tests.support.scanned import scanned
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.model import SchemaChange, Table
from ticdc_spark.replicate.modes.arrival import (
    EVERYTHING,
    ArrivalMode,
    advance_arrived,
    assign_marks,
    committed_arrived,
    replay_below_last_ddl,
)
from ticdc_spark.replicate.modes.base import Rules, SchemaWaits
from ticdc_spark.replicate.modes.choose import as_read, hides, of_job, refuse_hidden
from ticdc_spark.replicate.modes.next_progress import Applied
from ticdc_spark.replicate.plan.timeline import Ddl, Rows, timelines
from ticdc_spark.replicate.state.progress import PartitionState, PendingRows, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import (
    ControlEvent,
    DdlRead,
    RowCounts,
    RowsRead,
    SchemaBlockRead,
    WatermarkRead,
)

RULES = Rules(idle_timeout=60.0, bounded=False, now=1000.0)
EMPTY = Progress(job="job")
CREATE = SchemaChange(commit_ts=50, query="CREATE TABLE t (id INT PRIMARY KEY)", kind="CREATE", schema="s", name="t")


def place(partition: int = 0, offset: int = 0) -> dict[str, Any]:
    return {"topic": "a", "partition": partition, "offset": offset, "seq": 0}


def copy(partition: int) -> ControlEvent:
    return DdlRead(**place(partition, 3), change=CREATE)


def counted(counts: RowCounts, key: str = "") -> ControlEvent:
    return RowsRead(**place(), schema="s", table="t", schema_key=key, sent=("s", "t"), summary=counts)


def rows(first: int, last: int) -> ControlEvent:
    return counted(RowCounts(rows=2, min_ts=first, max_ts=last, first=0, end=9))


def step(progress: Progress, controls: list[ControlEvent], ends: dict[int, int], latest_offsets: dict[int, int]) -> Any:
    places = ({("a", partition): end for partition, end in offsets.items()} for offsets in (ends, latest_offsets))
    named = frozenset({("s", "t")})
    return advance_arrived(progress, scanned(controls, *places), RULES, SchemaWaits(named_after=lambda _: named))


def test_nothing_but_a_ddl_bounds_a_batch() -> None:
    assert step(EMPTY, [rows(10, 90)], {0: 5}, {0: 9}).resolved == EVERYTHING


def test_a_ddl_waits_until_each_partition_gave_its_copy() -> None:
    first = step(EMPTY, [copy(0), rows(10, 90)], {0: 5, 1: 0}, {0: 5, 1: 7})
    assert first.resolved == 49
    assert first.progress.hold.kind == "ddl"
    second = step(first.progress, [copy(1)], {0: 5, 1: 4}, {0: 5, 1: 7})
    assert second.resolved == EVERYTHING


def test_or_until_a_partition_was_read_to_the_end_that_it_had() -> None:
    first = step(EMPTY, [copy(0)], {0: 5, 1: 0}, {0: 5, 1: 7})
    early = step(first.progress, [], {0: 5, 1: 6}, {0: 5, 1: 99})
    assert early.resolved == 49
    assert step(early.progress, [], {0: 5, 1: 7}, {0: 5, 1: 99}).resolved == EVERYTHING


def test_what_precedes_an_applied_ddl_is_a_replay() -> None:
    read = step(EMPTY, [copy(0), rows(10, 90)], {0: 5}, {0: 5})
    states = {("s", "t"): TableState(schema="s", name="t", applied=0)}
    applied = Applied(batch=1, states=states, resolved=read.resolved, ddls=read.progress.ddls, at=0.0)
    done = committed_arrived(read.progress, applied)
    assert (done.applied, done.tables[0].applied, done.pending, done.ddls) == (90, 50, (), ())
    assert replay_below_last_ddl(done)["s", "t"] == 49
    again = step(done, [copy(0)], {0: 9}, {0: 9})
    assert (again.progress.ddls, again.progress.counters.replays) == ((), 1)


def test_marks_rise_within_a_batch() -> None:
    read = step(EMPTY, [copy(0), rows(10, 90)], {0: 5}, {0: 5}).progress
    lines = assign_marks(timelines({}, read.pending, read.ddls, EVERYTHING), 7)
    steps = [one for line in lines for one in line]
    of_table = [one for one in steps if isinstance(one, Rows)]
    assert [(one.above, one.upto) for one in of_table][-1][1] == EVERYTHING
    marks = [one.mark for line in lines for one in line]
    assert all(mark is not None and mark[0] == 7 for mark in marks)
    assert [mark for line in lines for mark in sorted(one.mark for one in line)] == marks
    assert any(isinstance(one, Ddl) for one in steps)


@pytest.mark.parametrize(
    ("wanted", "protocol", "begun", "mode"),
    [
        (None, "simple", "", "watermark"),
        (None, "debezium-avro", "", "arrival"),
        (None, "avro", "", None),
        ("watermark", "avro", "", "watermark"),
        (None, "debezium", "", None),
        ("arrival", "debezium", "", "arrival"),
        (None, "canal-json", "arrival", "arrival"),
    ],
)
def test_the_mode_of_a_job(wanted: Any, protocol: str, begun: Any, mode: str | None) -> None:
    assert of_job(wanted, protocol, msgspec.structs.replace(EMPTY, mode=begun)) == mode


@pytest.mark.parametrize(
    ("wanted", "protocol", "begun"),
    [("arrival", "open", ""), ("watermark", "debezium-avro", ""), ("watermark", "debezium", "arrival")],
)
def test_a_mode_that_cannot_be(wanted: Any, protocol: str, begun: Any) -> None:
    with pytest.raises(UsageError, match="mode: found"):
        of_job(wanted, protocol, msgspec.structs.replace(EMPTY, mode=begun))


def test_the_mode_by_messages() -> None:
    pending = PendingRows(
        first=0, end=9, schema="s", name="t", schema_key="", rows=5, min_ts=1, max_ts=2, topic="a", partition=0
    )
    some = msgspec.structs.replace(EMPTY, pending=(pending,))
    marked = msgspec.structs.replace(some, partitions=(PartitionState(topic="a", partition=0, offset=9, watermark=7),))
    assert as_read(EMPTY, at_end=True, waited=True) is None
    assert as_read(some, at_end=False, waited=False) is None
    assert as_read(some, at_end=True, waited=False) == as_read(some, at_end=False, waited=True) == "arrival"
    assert as_read(marked, at_end=True, waited=True) == "watermark"
    assert as_read(marked, at_end=False, waited=False, hidden=True) == "arrival"


def test_deletes_without_commit_ts_leave_no_place_for_ddl(caplog: pytest.LogCaptureFixture) -> None:
    controls = [copy(0), WatermarkRead(**place(0, 9), commit_ts=60)]
    assert ArrivalMode().understood(EMPTY, controls, "debezium") == (EMPTY, controls)
    assert "DDL is skipped" not in caplog.text
    queued = QueuedDdl(change=CREATE, topic="a", partition=0, offset=3)
    waiting = msgspec.structs.replace(EMPTY, ddls=(queued,))
    assert ArrivalMode().understood(waiting, controls, "avro") == (EMPTY, controls[1:])
    assert "DDL is skipped" in caplog.text


@pytest.mark.parametrize(("hidden", "mode", "refused"), [(True, "watermark", True), (True, None, False)])
def test_rows_without_commit_ts_have_no_place_among_watermarks(hidden: bool, mode: Any, refused: bool) -> None:
    summaries = [counted(RowCounts(rows=1, hidden=value)) for value in (False, hidden)]
    assert hides(summaries) and not hides(summaries[:1])
    refuse_hidden(summaries[:1], "watermark")
    with pytest.raises(DecisionNeeded, match="without commitTs") if refused else nullcontext():
        refuse_hidden(summaries, mode)


def test_a_schema_block_gives_a_table_without_ddl() -> None:
    table = Table(schema="s", name="t", columns=(), version=60)
    about = {"schema": "s", "table": "t", "schema_key": "#b", "commit_ts": 60}
    block = SchemaBlockRead(**place(), **about, held=table)  # type: ignore[arg-type]
    rows = counted(RowCounts(rows=1, min_ts=60, max_ts=60, first=0, end=1), "#b")
    ends = {("a", 0): 5}
    waiting = advance_arrived(EMPTY, scanned([rows], ends, ends), RULES, SchemaWaits())
    assert waiting.resolved == 59 and [one.schema_key for one in waiting.missing] == ["#b"]
    reported = advance_arrived(EMPTY, scanned([rows, block], ends, ends), RULES, SchemaWaits())
    assert reported.resolved == EVERYTHING and not reported.missing
