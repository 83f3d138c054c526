"""Read several tables in one pass over the topics, since the messages of a range belong to many tables."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from ticdc_spark.changes.opening import Opener, Opening, of_batch, raw_rows
from ticdc_spark.changes.ranges import Picker, RowScan
from ticdc_spark.changes.spread import Part, gather, spread
from ticdc_spark.errors import MessageError
from ticdc_spark.spark.decode.raw import RawRows, RawTask, together
from ticdc_spark.spark.tasks import ArrowTask, first_cells

_FLUSH_ROWS = 20_000
"""Most raw rows of a table that a task collects before it reads them: few enough for the processor's cache."""


@dataclass(slots=True)
class Read:
    """Rows of one table that a thread waits for."""

    wanted: RowScan
    first: RawTask
    """Turns raw rows into rows with keys, where they are read."""
    keys: Sequence[str]
    then: ArrowTask
    """Gets all of these rows for some keys, and returns one column of bytes."""
    number: int
    """How many times ``then`` runs, each time with its own keys."""
    found: list[bytes] = field(default_factory=list)
    fault: BaseException | None = None
    is_done: threading.Event = field(default_factory=threading.Event)


class SharedReads:
    """Threads that work or wait for rows. When the last working thread stops, it reads for all waiting ones."""

    def __init__(self, parallel: int, read: Callable[[Sequence[Read]], None]) -> None:
        """``parallel``: how many threads work at a time, not counting threads that wait for rows. ``read``: does reads,
        and stores in each what it found."""
        self._slots = threading.Semaphore(parallel)
        self._read = read
        self._lock = threading.Lock()
        self._working = 0
        self._waiting: list[Read] = []

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Work in this thread, once a slot is free."""
        with self._lock:
            self._working += 1
        self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()
            self._step_back()

    def rows(self, read: Read) -> list[bytes]:
        """Wait for rows. Raises: what ``read`` raised"""
        self._slots.release()
        try:
            self._step_back(read)
            read.is_done.wait()
        finally:
            self._slots.acquire()
        if read.fault is not None:
            raise read.fault
        return read.found

    def _step_back(self, read: Read | None = None) -> None:
        """Stop working in this thread until ``read`` is done. The last working thread reads for all waiting ones."""
        with self._lock:
            if read is not None:
                self._waiting.append(read)
            self._working -= 1
            if self._working or not self._waiting:
                return
            reads, self._waiting = self._waiting, []
        try:
            self._read(reads)
        except BaseException as fault:
            for one in reads:
                one.fault = fault
            if read is not None or not isinstance(fault, Exception):
                raise  # otherwise this thread is done, and the waiting threads raise the fault
        finally:
            with self._lock:
                self._working += len(reads)
            for one in reads:
                one.is_done.set()


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the rows of several reads go. Each read has ``number`` consecutive slots. A Spark partition has one or more
    slots."""

    reads: tuple[tuple[RowScan, RawTask, tuple[str, ...], ArrowTask, int], ...]
    partition: tuple[int, ...]
    """The partition of each slot."""
    read_of: tuple[int, ...]
    """The number of the read of each slot."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return max(self.partition, default=0) + 1

    def partition_of(self, slot: int) -> int:
        """The partition of a slot. A negative slot is an error of the read ``-slot - 1``."""
        return self.partition[slot] if slot >= 0 else self.partition[self.read_of.index(-slot - 1)]


def slots_of(reads: Sequence[Read], most: int) -> Slots:
    """Slots for reads in at most ``most`` partitions, or in as many as the largest read has slots."""
    read_of = tuple(at for at, read in enumerate(reads) for _ in range(read.number))
    weights = [reads[at].wanted.rows / reads[at].number for at in read_of]
    partitions = min(len(read_of), max(most, max((read.number for read in reads), default=1)))
    load = [0.0] * partitions
    partition = [0] * len(read_of)
    for slot in sorted(range(len(read_of)), key=lambda slot: -weights[slot]):
        least = load.index(min(load))
        partition[slot] = least
        load[least] += weights[slot] + 1
    tasks = tuple((one.wanted, one.first, tuple(one.keys), one.then, one.number) for one in reads)
    return Slots(tasks, tuple(partition), read_of)


def cut_for(slots: Slots, opening: Opening) -> Callable[[Iterable[pa.RecordBatch]], Iterator[Part]]:
    """Return a function from messages to parts for the slots of reads. An error of a read becomes a part of its own, so
    that the other reads continue."""
    firsts = [slots.read_of.index(at) for at in range(len(slots.reads))]

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        opener, picker = Opener(opening), Picker([wanted for wanted, *_ in slots.reads])
        raw: dict[int, list[RawRows]] = {}
        sizes = [0] * len(slots.reads)
        for batch in batches:
            messages = of_batch(batch)
            opened = opener.open(messages)
            for at, numbers in picker.pick(messages, opened).items():
                ids = slots.reads[at][0].ids
                rows = raw_rows(messages, opened, numbers, verify=opening.verify_checksum, ids=ids)
                raw.setdefault(at, []).append(rows)
                sizes[at] += len(numbers)
                if sizes[at] >= _FLUSH_ROWS:
                    sizes[at] = 0
                    yield from flush(at, raw.pop(at))
            for at, marks in picker.watermarks(messages, opened).items():
                raw.setdefault(at, []).append(marks)
        for at, left in raw.items():
            yield from flush(at, left)

    def flush(at: int, rows: list[RawRows]) -> Iterator[Part]:
        _, first, keys, _, number = slots.reads[at]
        try:
            for slot, part in spread(first([together(rows)]), keys, number):
                yield firsts[at] + slot, part
        except MessageError as error:
            yield -at - 1, str(error).encode()

    return cut


def done_for(slots: Slots) -> Callable[[Iterable[Part]], Iterator[tuple[int, bool, bytes]]]:
    """Return a function from the parts of a partition to (number of a read, whether it succeeded, its result or its
    error)."""

    def done(parts: Iterable[Part]) -> Iterator[tuple[int, bool, bytes]]:
        by_slot: dict[int, list[Part]] = {}
        for slot, part in parts:
            if slot < 0:
                yield -slot - 1, False, part
            else:
                by_slot.setdefault(slot, []).append((slot, part))
        for slot, mine in by_slot.items():
            at = slots.read_of[slot]
            *_, then, _ = slots.reads[at]
            try:
                for cell in first_cells(gather(mine, then)):
                    yield at, True, cell
            except MessageError as error:
                yield at, False, str(error).encode()

    return done
