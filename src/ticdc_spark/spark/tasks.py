"""What our functions for ``mapInArrow`` have in common."""

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

ArrowTask: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def without_gc(task: ArrowTask) -> ArrowTask:
    """Let a task run without the collector of cycles.

    Ours make millions of small objects and no cycle, and looking for them took a tenth of the time.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield from task(batches)
        finally:
            if was_on:
                gc.enable()

    return run
