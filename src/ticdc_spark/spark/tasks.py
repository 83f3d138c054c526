"""What our functions for ``mapInArrow`` have in common."""

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
"""Rows that are not worth a task: the driver reads, opens and applies them itself."""
SMALL_BYTES = 32 << 20
"""Bytes up to which so many rows are small."""
MOVED = "ticdc-source-moved"
"""How the text of a MessageError begins where a table is not any more what a task was to read."""
UNREADABLE = "ticdc-unreadable-row"
"""How it begins where a task met a row that cannot be read, and that is not to be left out."""


def in_worker(task: Callable[[Iterable[Taken]], Iterator[Given]]) -> Callable[[Iterable[Taken]], Iterator[Given]]:
    """Let a task run as is best in a Python worker: without the collector of cycles, and quick to start.

    Ours make millions of small objects and no cycle, and looking for them took a tenth of the time.
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
    """Turn what the operating system refuses at a path of the lake into a fault that names it. Raises: SinkFault"""
    try:
        yield
    except OSError as error:
        # pyarrow's say neither the path nor, in strerror, the reason alone.
        message = f"{path}: {os_reason(error)}"
        raise SinkFault(message) from error


def _keep_zip_directories() -> None:
    """Spark calls ``importlib.invalidate_caches`` before each task, and its own zip files are read again for every
    package in them: 0.15 s of a processor a task. They do not change while a worker lives."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]


def _nothing() -> None:
    return


@cache
def _keep_modules() -> None:
    """Spark collects cycles after each task, and looks at everything that modules hold: 0.02 s of a processor and more.
    That stays as long as a worker does, so it is not looked at again."""
    if "pyspark.worker" in sys.modules:  # not the driver
        gc.freeze()


def is_small(rows: int, size: int = 0) -> bool:
    """Whether so many rows, of so many bytes, are done by the driver."""
    return rows <= SMALL_ROWS and size <= SMALL_BYTES


@dataclass(frozen=True)
class Parts:
    """What tasks read by themselves: how many parts there are, and what makes batches of their numbers."""

    number: int
    read: ArrowTask


class Counter(Protocol):
    """What counts in tasks: Spark's accumulator, for one."""

    def add(self, number: Any, /) -> Any:
        """Count."""


class Count(Counter, Protocol):
    """A counter that the driver reads."""

    @property
    def value(self) -> int:
        """What was counted, once the tasks are done."""


ReadParts: TypeAlias = Callable[[Counter], ArrowTask]
"""Makes a task that reads: batches with one column of part numbers to batches of the lake's columns, in their order.
It counts the zero and impossible dates that became NULL."""


class SourceMoved(Exception):
    """A table is not what it was when its read began: it was altered, or is gone. Not an error of its own."""


class Misplaced(Exception):
    """Rows of one physical id lie in two partitions; nothing was applied. Not an error of its own."""


class UnreadableRows(Exception):
    """Rows that cannot be read; nothing was applied. Not an error of its own: ``on-reject`` decides."""


class Sized(Protocol):
    """Rows of any form."""

    @property
    def num_rows(self) -> int:
        """How many there are."""


Some = TypeVar("Some", bound=Sized)


def counted(rows: Counter) -> Callable[[Iterable[Some]], Iterator[Some]]:
    """A task that changes nothing and counts rows."""

    def run(batches: Iterable[Some]) -> Iterator[Some]:
        for batch in batches:
            rows.add(batch.num_rows)
            yield batch

    return run


def chain(
    first: Callable[[Iterable[Taken]], Iterable[Passed]], second: Callable[[Iterable[Passed]], Iterator[Given]]
) -> Callable[[Iterable[Taken]], Iterator[Given]]:
    """One task after the other."""

    def run(batches: Iterable[Taken]) -> Iterator[Given]:
        return second(first(batches))

    return run


def numbered(numbers: Iterable[int]) -> pa.RecordBatch:
    """Numbers of parts, as a task that reads gets them."""
    return pa.record_batch([pa.array(list(numbers), pa.int64())], names=["number"])


def first_cells(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """What a task gave in its first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
