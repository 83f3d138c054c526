"""Every change of a table's rows, each once, for a history table. See ``net`` for the net change.

TiCDC sends changes again after a restart, so one change may be at two offsets. Changes of one key at one commit_ts are
one change, except for a delete and the insert that follows it. If wanted, the row that an update replaces comes before
the update.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, SEQ, TS, UNKEPT, as_deletes
from ticdc_spark.spark.tasks import ArrowTask

HISTORY = H_OP, H_TS, H_TIME = "_tidb_op", "_tidb_commit_ts", "_tidb_commit_time"
"""The columns of a history table in addition to its table's, with the names in TiCDC's own change logs."""
INSERT, UPDATE, DELETE, BEFORE = "I", "U", "D", "B"
ENDED = "T"
"""All rows ended: TRUNCATE or DROP."""
MOVED_OUT = "P"
"""A row that was removed with its partition."""
REPLACED = "R"
"""All rows were replaced, or are from before the history began. Those that the table has now follow."""
SNAPSHOT = "S"
"""A row that a table had after a full read, or when its history began."""
_LOGICAL_BITS = 18
_FIRST = 1000
"""Milliseconds of the first time that every target can store."""
_BATCH = 20_000
_AT, _RANK = "_ticdc_at", "_ticdc_rank"


def every_change(keys: Sequence[str], above: int) -> ArrowTask:
    """Return a function from typed rows (``rows.rows_ddl``) to those above a commit_ts, each change once. It may get
    only a part of the events of its keys. All unreadable rows stay."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = [batch for batch in batches if len(batch)]
        if some:
            rows = pa.Table.from_batches(some)
            bad = rows.column(BAD).is_valid()
            unread, read = rows.filter(bad), rows.filter(pc.and_not(pc.greater(rows.column(TS), above), bad))
            whole = pa.concat_tables([unread, _once(read.combine_chunks(), keys)])
            yield from whole.combine_chunks().to_batches(_BATCH)

    return run


def history_rows(keys: Sequence[str], columns: Sequence[str], above: int) -> ArrowTask:
    """Return a function from typed rows with all events of their keys to rows of a history table: ``HISTORY`` and
    ``columns``, in the order of events. Unreadable rows, and inserts that the target does not keep, are dropped."""
    once = every_change(keys, above)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [pa.Table.from_batches([batch]) for batch in once(batches)]
        if not tables:
            return
        rows = pa.concat_tables(tables)
        rows = rows.filter(pc.and_(rows.column(BAD).is_null(), pc.not_equal(rows.column(OP), UNKEPT[0])))
        cells = [pc.utf8_upper(as_deletes(rows.column(OP))), rows.column(TS), commit_times(rows.column(TS))]
        found = pa.table([*cells, *(rows.column(name) for name in columns)], [*HISTORY, *columns])
        yield from found.combine_chunks().to_batches(_BATCH)

    return run


def commit_times(stamps: pa.Array) -> pa.Array:
    """The physical parts of timestamps; NULL if that is not a time, as for 0."""
    millis = pc.shift_right(stamps, pa.scalar(_LOGICAL_BITS, pa.int64()))
    millis = pc.if_else(pc.less(millis, _FIRST), pa.scalar(None, pa.int64()), millis)
    return millis.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def marker(op: str, commit_ts: int) -> pa.RecordBatch:
    """A row of a history table that applies to all rows."""
    stamps = pa.array([commit_ts], pa.int64())
    return pa.record_batch([pa.array([op], pa.string()), stamps, commit_times(stamps)], list(HISTORY))


def _once(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last event of each change, in the order of events."""
    if not len(rows):
        return rows
    order = pa.table([rows.column(TS), _rank(rows), rows.column(ORDER), rows.column(SEQ)], [TS, _RANK, ORDER, SEQ])
    sorted_rows = rows.take(pc.sort_indices(order, [(name, "ascending") for name in order.column_names]))
    same = [*(sorted_rows.column(name) for name in keys), sorted_rows.column(TS)]
    same.append(_rank(sorted_rows))
    numbered = pa.table([*same, pa.array(range(len(rows)), pa.int64())], [*map(str, range(len(same))), _AT])
    last = numbered.group_by(list(map(str, range(len(same)))), use_threads=False).aggregate([(_AT, "max")])
    chosen = last.column(f"{_AT}_max")
    return sorted_rows if len(chosen) == len(rows) else sorted_rows.take(pc.take(chosen, pc.sort_indices(chosen)))


def _rank(rows: pa.Table) -> pa.ChunkedArray:
    """The order of a key's changes at one commit_ts: a delete, the row that an update replaces, the new row."""
    op = rows.column(OP)
    return pc.if_else(pc.equal(op, "d"), 0, pc.if_else(pc.equal(op, "b"), 1, 2))
