"""Spread typed rows over tasks by their keys: all events of a key go to the same task."""

from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ticdc_spark.spark.tasks import ArrowTask

Part = tuple[int, bytes]
"""The number of a task, and rows for it as an Arrow stream."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


def can_spread(keys: Sequence[pa.DataType]) -> bool:
    """Whether equal keys of these types have equal bytes. Floats do not."""
    types = pa.types
    return not any(types.is_floating(kind) or types.is_nested(kind) for kind in keys)


def spread(batches: Iterable[pa.RecordBatch], keys: Sequence[str], number: int) -> Iterator[Part]:
    """Split batches by the keys of their rows, for ``number`` tasks."""
    if number == 1:
        yield from ((0, _stream(batch)) for batch in batches if len(batch))
        return
    for batch in batches:
        tasks = _tasks_of([batch.column(name) for name in keys], number)
        for task in range(number):
            rows = batch.filter(pa.array(tasks == task))
            if len(rows):
                yield task, _stream(rows)


def _stream(rows: pa.RecordBatch) -> bytes:
    whole = pa.BufferOutputStream()
    with pa.ipc.new_stream(whole, rows.schema) as stream:
        stream.write_batch(rows)
    held: bytes = whole.getvalue().to_pybytes()
    return held


def gather(parts: Iterable[Part], task: ArrowTask) -> Iterator[pa.RecordBatch]:
    """Run a task over the rows that were sent to it."""
    return task(batch for _, held in parts for batch in pa.ipc.open_stream(held))


def _tasks_of(columns: Sequence[pa.Array], number: int) -> npt.NDArray[np.uint64]:
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = (mixed ^ _numbers(column)) * _MIX
        mixed ^= mixed >> np.uint64(32)
    return mixed % np.uint64(number)


def _numbers(column: pa.Array) -> npt.NDArray[np.uint64]:
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind)):
        return np.asarray(column.cast(pa.int64()).fill_null(0)).astype(np.uint64)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    values = column.cast(pa.binary()).fill_null(b"").to_pylist()
    return np.fromiter(map(crc32, values), np.uint64, len(values))


def task_of(number: int) -> int:
    """The task that gets the rows of ``Part``."""
    return number
