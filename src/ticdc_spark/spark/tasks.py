"""What our functions for ``mapInArrow`` share."""

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeVar
from zipimport import zipimporter

import pyarrow as pa

from ticdc_spark.errors import SinkFault, os_reason

Taken = TypeVar("Taken")
Passed = TypeVar("Passed")
Given = TypeVar("Given")
ArrowTask: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

SMALL_ROWS = 20_000
"""Up to this many rows, the driver reads, decodes and applies them itself, without a task."""
SMALL_BYTES = 32 << 20
"""Up to this many bytes, ``SMALL_ROWS`` rows still count as small."""
MOVED = "ticdc-source-moved"
"""Prefix of a MessageError's text if a table is no longer what a task was to read."""
UNREADABLE = "ticdc-unreadable-row"
"""Prefix of its text if a task met an unreadable row that must not be skipped."""


def in_worker(task: Callable[[Iterable[Taken]], Iterator[Given]]) -> Callable[[Iterable[Taken]], Iterator[Given]]:
    """Prepare a task for a Python worker: without the collector of cycles, and with a fast start.

    Our tasks make millions of small objects but no cycles, and the search for cycles took a tenth of the time.
    """

    def run(batches: Iterable[Taken]) -> Iterator[Given]:
        _keep_zip_directories()
        _keep_modules()
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield from task(batches)
        finally:
            if was_on:
                gc.enable()

    return run


@contextmanager
def files_at(path: object) -> Iterator[None]:
    """Turn errors of the operating system at a path of the lake into a fault that names the path. Raises: SinkFault"""
    try:
        yield
    except OSError as error:
        # pyarrow's errors do not name the path, and their strerror is not just the reason.
        message = f"{path}: {os_reason(error)}"
        raise SinkFault(message) from error


def _keep_zip_directories() -> None:
    """Keep the cached directories of Spark's zip files. Spark calls ``importlib.invalidate_caches`` before each task,
    and then they are read again for every package: 0.15 s of CPU per task. They do not change while a worker lives."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]


def _nothing() -> None:
    return


@cache
def _keep_modules() -> None:
    """Exclude modules from garbage collection. Spark collects cycles after each task and then visits everything that
    modules hold: at least 0.02 s of CPU. Modules stay as long as the worker, so they need not be visited again."""
    if "pyspark.worker" in sys.modules:  # not the driver
        gc.freeze()


def is_small(rows: int, size: int = 0) -> bool:
    """Whether the driver handles this many rows and bytes itself."""
    return rows <= SMALL_ROWS and size <= SMALL_BYTES


@dataclass(frozen=True)
class Parts:
    """A reading task, and its number of parts. The task turns part numbers into batches."""

    number: int
    read: ArrowTask


class Counter(Protocol):
    """A counter in tasks, for example Spark's accumulator."""

    def add(self, number: Any, /) -> Any:
        """Add to the count."""


class Count(Counter, Protocol):
    """A counter that the driver reads."""

    @property
    def value(self) -> int:
        """The total, once the tasks are done."""


ReadParts: TypeAlias = Callable[[Counter], ArrowTask]
"""Makes a reading task: from batches with a column of part numbers to batches of the lake's columns, in their order.
It counts the zero and impossible dates that became NULL."""


class SourceMoved(Exception):
    """A table was altered or dropped since its read began. Only used internally."""


class Misplaced(Exception):
    """Rows of one physical id are in two partitions, so nothing was applied. Only used internally."""


class UnreadableRows(Exception):
    """Rows that cannot be read, so nothing was applied. Only used internally: ``on-reject`` decides."""


class Sized(Protocol):
    """Rows of any form."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""


Some = TypeVar("Some", bound=Sized)


def counted(rows: Counter) -> Callable[[Iterable[Some]], Iterator[Some]]:
    """A task that only counts rows."""

    def run(batches: Iterable[Some]) -> Iterator[Some]:
        for batch in batches:
            rows.add(batch.num_rows)
            yield batch

    return run


def chain(
    first: Callable[[Iterable[Taken]], Iterable[Passed]], second: Callable[[Iterable[Passed]], Iterator[Given]]
) -> Callable[[Iterable[Taken]], Iterator[Given]]:
    """Run one task after the other."""

    def run(batches: Iterable[Taken]) -> Iterator[Given]:
        return second(first(batches))

    return run


def numbered(numbers: Iterable[int]) -> pa.RecordBatch:
    """A batch of part numbers, as input of a reading task."""
    return pa.record_batch([pa.array(list(numbers), pa.int64())], names=["number"])


def first_cells(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The first column of a task's result."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
