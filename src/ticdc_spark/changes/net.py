"""The net change of each key, computed in a task with Arrow: the last event of a key, and the op of its first one.

``combine`` works on a part of a key's events, before rows leave their task, so most rows that a batch changes twice are
never sent. Dropping an event that another event of the key follows does not change the net change. ``net_of_keys`` gets
all events of its keys. ``changes.windows`` computes the same net change with Spark.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.changes.columns import FIRST, OP
from ticdc_spark.spark.decode.rows import BAD, ORDER, SEQ, TS, as_deletes
from ticdc_spark.spark.tasks import ArrowTask

_BATCH = 20_000
_AT = "_ticdc_at"
_LATER = "_ticdc_later"


def combine(keys: Sequence[str], *, keep_first: bool) -> ArrowTask:
    """Return a function from typed rows (``rows.rows_ddl``) to the last event of each key, and with ``keep_first`` also
    the first.

    Order: commit_ts, deletes before other events, offset, place in the message. All unreadable rows stay.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = [batch for batch in batches if len(batch)]
        if not some:
            return
        whole = _combined(pa.Table.from_batches(some).combine_chunks(), keys, keep_first=keep_first)
        yield from whole.combine_chunks().to_batches(_BATCH)

    return run


def net_of_keys(keys: Sequence[str], columns: Sequence[str], *, keep_first: bool) -> ArrowTask:
    """Return a function from typed rows with all events of their keys to one net change per key, as ``OP``, ``FIRST``
    and the columns. ``OP`` is ``d`` if the key is gone.

    Unreadable rows are dropped. ``keep_first``: as in the ``combine`` that came before. Without it, ``FIRST`` is the
    op of any event.
    """
    one_a_key = combine(keys, keep_first=keep_first)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [pa.Table.from_batches([batch]) for batch in one_a_key(batches)]
        if not tables:
            return
        rows = pa.concat_tables(tables)
        if rows.column(BAD).null_count < len(rows):
            rows = rows.filter(rows.column(BAD).is_null())
        last, first_ops = net(rows, keys)
        cells = [as_deletes(last.column(OP)), pc.utf8_lower(first_ops), *(last.column(name) for name in columns)]
        yield from pa.table(cells, [OP, FIRST, *columns]).to_batches()

    return run


def rows_left(columns: Sequence[str]) -> ArrowTask:
    """Return a function from net changes of a table that began empty to its final rows, in these columns."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pc.not_equal(batch.column(OP), "d")).select(columns)

    return run


def net(rows: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, pa.Array]:
    """The last event of each key, and the op of its first event. Every row must be readable."""
    ends = _ends(rows, keys)
    return rows.take(ends.column("last")), pc.take(rows.column(OP), ends.column("first"))


def _combined(rows: pa.Table, keys: Sequence[str], *, keep_first: bool) -> pa.Table:
    bad = rows.column(BAD)
    unread = None
    if bad.null_count < len(rows):
        unread, rows = rows.filter(bad.is_valid()), rows.filter(bad.is_null())
        if not len(rows):
            return unread
    ends = _ends(rows, keys)
    chosen = ends.column("last")
    if keep_first:
        chosen = pc.unique(pa.chunked_array([*chosen.chunks, *ends.column("first").chunks]))
    if len(chosen) < len(rows):
        rows = rows.take(chosen)
    return rows if unread is None else pa.concat_tables([unread, rows])


def _ends(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """For each key, the numbers of its ``first`` and ``last`` row in the order of events."""
    later = pc.not_equal(rows.column(OP), "d")
    order = pa.table([rows.column(TS), later, rows.column(ORDER), rows.column(SEQ)], [TS, _LATER, ORDER, SEQ])
    sequence = pc.sort_indices(order, [(name, "ascending") for name in order.column_names])
    sorted_keys = [pc.take(rows.column(name), sequence) for name in keys]
    numbered = pa.table([*sorted_keys, sequence], [*map(str, range(len(keys))), _AT])
    # One thread, to keep the order.
    grouped = numbered.group_by([str(at) for at in range(len(keys))], use_threads=False)
    found = grouped.aggregate([(_AT, "first"), (_AT, "last")])
    return pa.table([found.column(f"{_AT}_first"), found.column(f"{_AT}_last")], ["first", "last"])
