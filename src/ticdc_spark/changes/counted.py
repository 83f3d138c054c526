"""The net change of a table without a key: for each distinct row, how many copies are added or removed.

An insert adds a copy, a delete removes one, and an update does both. If a change was sent in several tries
(``changes.tries``), the try with most copies of it counts. Each try has a whole transaction, or the part that came
before the try ended.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.changes.columns import COUNT, OP
from ticdc_spark.changes.tries import Begin, Tries
from ticdc_spark.spark.decode.rows import BAD, ORDER, TS
from ticdc_spark.spark.tasks import ArrowTask
from ticdc_spark.spark.types import LakeColumn

_BATCH = 20_000
_AT, _SIGN, _PARTITION = "at", "sign", "partition"


def readable(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Typed rows, without unreadable ones."""
    for batch in batches:
        yield batch if batch.column(BAD).null_count == len(batch) else batch.filter(batch.column(BAD).is_null())


def counts(columns: Sequence[str], begins: Sequence[Begin]) -> ArrowTask:
    """Return a function from typed rows with all events of their distinct rows to ``COUNT`` and the columns.

    ``begins``: of the tries, whose numbers are in ``ORDER``. Unreadable rows are dropped.
    """
    partitions = pa.array(Tries(tuple(begins)).partitions, pa.int64())

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = [batch for batch in readable(batches) if len(batch)]
        if some:
            rows = pa.Table.from_batches(some)
            found = _counted(rows, columns, partitions)
            whole = rows.select(columns).take(found.column(_AT))
            yield from whole.add_column(0, COUNT, found.column(_SIGN)).combine_chunks().to_batches(_BATCH)

    return run


def copies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Repeat each row with a positive count as often as its count says."""
    for batch in batches:
        times = np.maximum(np.asarray(batch.column(COUNT)), 1)
        more = batch if times.max(initial=1) == 1 else batch.take(pa.array(np.repeat(np.arange(len(batch)), times)))
        for first in range(0, len(more), _BATCH):
            yield more.slice(first, _BATCH)


def counts_ddl(columns: Sequence[LakeColumn]) -> str:
    """The Spark schema of the result of ``counts``."""
    quoted = (f"`{column.name.replace('`', '``')}` {column.type.spark}" for column in columns)
    return ", ".join([f"`{COUNT}` bigint", *quoted])


def _counted(rows: pa.Table, columns: Sequence[str], partitions: pa.Array) -> pa.Table:
    """For each distinct row: the number of an equal row in ``_AT``, and how many copies are added in ``_SIGN``."""
    cells = {f"cell{at}": _comparable(rows.column(name)) for at, name in enumerate(columns)}
    sign = pc.if_else(pc.equal(rows.column(OP), "d"), pa.scalar(-1, pa.int64()), pa.scalar(1, pa.int64()))
    numbered = pa.table(
        {
            **cells,
            _SIGN: sign,
            TS: rows.column(TS),
            ORDER: rows.column(ORDER),
            _AT: pa.array(range(len(rows)), pa.int64()),
        }
    )
    same = [*cells, _SIGN, TS]
    tries = numbered.group_by([*same, ORDER], use_threads=False).aggregate([(_AT, "count"), (_AT, "min")])
    tries = tries.append_column(_PARTITION, pc.take(partitions, tries.column(ORDER).combine_chunks()))
    sent = tries.group_by([*same, _PARTITION], use_threads=False).aggregate(
        [(f"{_AT}_count", "max"), (f"{_AT}_min", "min")]
    )
    signed = pc.multiply(sent.column(f"{_AT}_count_max"), sent.column(_SIGN))
    sent = sent.set_column(sent.column_names.index(_SIGN), _SIGN, signed)
    net = sent.group_by(list(cells), use_threads=False).aggregate([(_SIGN, "sum"), (f"{_AT}_min_min", "min")])
    found = pa.table([net.column(f"{_AT}_min_min_min"), net.column(f"{_SIGN}_sum")], [_AT, _SIGN])
    return found.filter(pc.not_equal(found.column(_SIGN), 0))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column to group by: equal values have equal bytes."""
    if not pa.types.is_list(column.type):
        return column
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
