"""One event a key inside a task, before rows go back to Spark: most of what a batch changes twice never crosses.

The exact net change is taken by Spark across tasks (``replicate.apply_rows``); leaving out, inside one task, what
another event of the same key follows changes nothing there.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.spark.rows import BAD, OP, ORDER, SEQ, TS
from ticdc_spark.spark.tasks import ArrowTask

_BATCH = 20_000
_AT = "_ticdc_at"
_LATER = "_ticdc_later"


def combine(keys: Sequence[str], *, keep_first: bool) -> ArrowTask:
    """Return a function over typed rows (``rows.rows_ddl``): of each key its last event, and its first one if asked.

    Order: commit_ts, a delete before what is no delete, offset, place in the message. Rows that could not be read
    all stay.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = (pa.Table.from_batches([batch]) for batch in batches if len(batch))
        kept = [_combined(table, keys, keep_first=keep_first) for table in tables]
        if not kept:
            return
        whole = kept[0] if len(kept) == 1 else _combined(pa.concat_tables(kept), keys, keep_first=keep_first)
        yield from whole.combine_chunks().to_batches(_BATCH)

    return run


def _combined(rows: pa.Table, keys: Sequence[str], *, keep_first: bool) -> pa.Table:
    bad = rows.column(BAD)
    unread = None
    if bad.null_count < len(rows):
        unread, rows = rows.filter(bad.is_valid()), rows.filter(bad.is_null())
    later = pc.not_equal(rows.column(OP), "d")
    order = pa.table([rows.column(TS), later, rows.column(ORDER), rows.column(SEQ)], [TS, _LATER, ORDER, SEQ])
    sequence = pc.sort_indices(order, [(name, "ascending") for name in order.column_names])
    numbered = rows.select(list(keys)).take(sequence).append_column(_AT, sequence)
    wanted = [(_AT, "last"), (_AT, "first")] if keep_first else [(_AT, "last")]
    # In order, so by one thread.
    found = numbered.group_by(list(keys), use_threads=False).aggregate(wanted)
    chosen = found.column(f"{_AT}_last")
    if keep_first:
        both = pa.chunked_array([*chosen.chunks, *found.column(f"{_AT}_first").chunks])
        chosen = pc.unique(both)
    if len(chosen) < len(rows):
        rows = rows.take(chosen)
    return rows if unread is None else pa.concat_tables([unread, rows])


__all__ = ["combine"]
