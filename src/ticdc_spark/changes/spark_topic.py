"""The rows of a job's topics: scanned once when they arrive, and read again when they are applied.

The driver reads few messages itself, and keeps them in memory while rows of them wait, so that they are read once.
Spark's tasks read many messages, each time that they are needed.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.changes.held import Held, HeldMessages, events, held_rows
from ticdc_spark.changes.opening import NO_MESSAGES, Opener, Opening, of_batch, raw_rows
from ticdc_spark.changes.ranges import Picker, RowRange, RowScan, rounds, stretches
from ticdc_spark.changes.scan import EVENTS_DDL, Scanner, ScanPlan, read_events, scan
from ticdc_spark.changes.shared_reads import Read, SharedReads, cut_for, done_for, slots_of
from ticdc_spark.changes.spread import Part
from ticdc_spark.changes.topic import RowIdentity, content_of
from ticdc_spark.errors import MessageError, SourceFault
from ticdc_spark.model import Message, Offsets
from ticdc_spark.spark.decode.control import ControlEvent
from ticdc_spark.spark.decode.places import Place, Places
from ticdc_spark.spark.decode.raw import RawRows, RawTask
from ticdc_spark.spark.faults import spark_faults, task_faults
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.sources.faults import source_faults
from ticdc_spark.spark.tasks import ArrowTask, Count, Parts, chain, first_cells, in_worker, is_small, numbered

log = logging.getLogger(__name__)
Reads = Sequence[tuple[Offsets, Offsets]]
"""(start, end) of each read."""
_SLOTS_A_CORE = 4
"""Partitions per core that rows are spread over."""
_PARTS_DDL = "slot int, rows binary"


class SparkTopicRows:
    """A ``TopicRows`` over a source that Spark's tasks can read. Thread-safe for reads."""

    def __init__(self, spark: SparkSession, source: Source, opening: Opening) -> None:
        self._spark, self._source = spark, source
        self.opening = opening
        """How messages are opened now. It changes as the job learns schemas."""
        self._held = HeldMessages()
        self._held_lock = threading.RLock()
        """Keeps other threads from dropping messages while missing ones are found and read."""
        self._by_parts = True
        """Whether tasks may read the topic themselves."""
        self._shared: SharedReads | None = None

    def scan(self, plan: ScanPlan, starts: Offsets, end_offsets: Offsets, count: int) -> list[ControlEvent]:
        """The control events of the messages [starts, end_offsets), about ``count`` of them. Raises: SourceFault"""
        self.opening = plan.opening
        end = {place: last for place, last in end_offsets.items() if starts.get(place, 0) < last}
        start = {place: starts.get(place, 0) for place in end}
        held = self._read_here(start, end) if is_small(count) else None
        if held is not None:
            scanner = Scanner(plan)
            scanner.add(held.messages, held.opened(plan.opening))
            return scanner.finish()
        if not end:
            return []
        try:
            return self._scanned(plan, [(start, end)])
        except SourceFault as fault:
            if not self._by_parts or self._source.is_recorded:
                raise
            # An executor may lack the client or a login file, or may not reach a broker, although Spark's source does.
            log.warning("tasks cannot read the topic themselves; Spark's source reads it now: %s", fault)
            self._by_parts = False
            try:
                return self._scanned(plan, [(start, end)])
            except SourceFault:
                self._by_parts = True  # if both ways fail, it is an outage and not a fault of the tasks
                raise

    def _scanned(self, plan: ScanPlan, reads: Reads) -> list[ControlEvent]:
        with source_faults("the messages cannot be read"):
            rows = self._in_tasks(self._spark, reads, scan(plan), EVENTS_DDL).collect()
        return read_events(bytes(row[0]) for row in rows)

    def keep(self, needed: Iterable[RowRange]) -> None:
        """Drop messages from memory that no range needs."""
        with self._held_lock:
            self._held.keep(stretches(needed))

    def raw(self, wanted: RowScan) -> "TopicChanges":
        return TopicChanges(self, self._spark, wanted)

    def held(self, wanted: RowScan) -> tuple[Held, ...] | None:
        """The messages of a scan in memory. Missing ones are read if they are few; ``None``: they are too many.

        Raises: SourceFault
        """
        needed = stretches(wanted.ranges)
        with self._held_lock:
            missing = self._held.missing(needed)
            if not is_small(sum(end - first for _, first, end in missing)):
                return None
            if any(self._read_here(start, end) is None for start, end in rounds(missing)):
                return None
            return self._held.covering(needed)

    def rows(self, held: Iterable[Held], wanted: RowScan) -> Iterator[RawRows]:
        """The rows of a scan, from messages in memory."""
        return held_rows(held, wanted, self.opening)

    @contextmanager
    def share(self, parallel: int) -> Iterator[SharedReads]:
        self._shared = SharedReads(parallel, self._read)
        try:
            yield self._shared
        finally:
            self._shared = None

    def run(self, wanted: RowScan, first: RawTask, keys: Sequence[str], then: ArrowTask, number: int) -> list[bytes]:
        """Run ``first`` over the rows of a scan where they are read, spread its rows by ``keys``, and run ``then`` over
        them in ``number`` tasks. Returns: the cells of the first column of ``then``"""
        read = Read(wanted, first, keys, then, number)
        if self._shared is not None:
            return self._shared.rows(read)
        self._read([read])
        if read.fault is not None:
            raise read.fault
        return read.found

    def _read(self, reads: Sequence[Read]) -> None:
        """Do reads in one Spark job. A read that fails gets a MessageError as its fault."""
        slots = slots_of(reads, _SLOTS_A_CORE * self._spark.sparkContext.defaultParallelism)
        needed = rounds(stretches(one for read in reads for one in read.wanted.ranges))
        parts = self._parts_by(needed, cut_for(slots, self.opening))
        found = (
            parts.partitionBy(slots.partitions, slots.partition_of).mapPartitions(in_worker(done_for(slots))).collect()
        )
        for at, is_well, cell in found:
            if is_well:
                reads[at].found.append(cell)
            else:
                reads[at].fault = MessageError(cell.decode())

    def dataframe(self, session: SparkSession, wanted: RowScan, task: RawTask, ddl: str) -> DataFrame:
        """Run a task that returns rows of the schema ``ddl`` over the rows of a scan. Raises: SourceFault"""
        held = self.held(wanted)
        if held is not None:
            batches = list(task(self.rows(held, wanted)))
            return session.createDataFrame(pa.Table.from_batches(batches) if batches else [], ddl)
        return self._in_tasks(session, rounds(stretches(wanted.ranges)), chain(select(self.opening, wanted), task), ddl)

    @property
    def is_read_by_tasks(self) -> bool:
        """Whether tasks read the topics themselves."""
        return self._by_parts

    def has_rows(self, wanted: RowScan) -> bool:
        """Whether a scan has a row. Raises: SourceFault"""
        held = self.held(wanted)
        if held is not None:
            return any(True for _ in events(held, wanted, self.opening))
        with source_faults("the messages cannot be read"):
            return bool(self.dataframe(self._spark, wanted, _first, "found boolean").limit(1).collect())

    def identities(self, wanted: RowScan) -> list[RowIdentity]:
        held = self.held(wanted)
        if held is not None:
            batches = _identities(self.rows(held, wanted))
            return [row for batch in batches for row in _read_identities(batch.to_pylist())]
        with source_faults("the messages cannot be read"):
            found = self.dataframe(self._spark, wanted, _identities, _IDENTITIES_DDL).toArrow()
        return list(_read_identities(found.to_pylist()))

    def ranges_since(self, commit_ts: int, until: Offsets, topics: Iterable[str]) -> tuple[RowRange, ...]:
        """Where rows of a commit_ts and later can be, in topics that were read up to ``until``.

        Raises: SourceFault
        """
        wanted = set(topics)
        first = self._source.offsets_since(commit_ts)
        return tuple(
            RowRange(topic, partition, first.get((topic, partition), 0), end)
            for (topic, partition), end in sorted(until.items())
            if topic in wanted and first.get((topic, partition), 0) < end
        )

    def messages(self, places: Iterable[tuple[str, int, int]]) -> list[Message]:
        """Messages by topic, partition and offset. Raises: SourceFault"""
        at = sorted({((topic, partition), offset, offset + 1) for topic, partition, offset in places})
        found: list[Message] = []
        for start, end in rounds(at):
            held = self._read_here(start, end, keep=False)
            if held is not None:
                found += (Message(**one, timestamp=None) for one in _as_dicts(held))
                continue
            with source_faults("the messages cannot be read"):
                rows = self._source.read(start, end).select("topic", "partition", "offset", "key", "value").toArrow()
            found += (Message(**one, timestamp=None) for one in rows.to_pylist())
        return found

    def _read_here(self, start: Offsets, end: Offsets, *, keep: bool = True) -> Held | None:
        """Messages read by the driver; ``None``: it should not read them."""
        with self._held_lock:
            found = self._held.find(start, end)
            if found is not None:
                return found
            table = self._source.read_here(start, end)
            if table is None:
                return None
            whole = table.combine_chunks().to_batches()
            held = Held(start, end, of_batch(whole[0]) if whole else NO_MESSAGES)
            if keep:
                self._held.add(held)
            return held

    def _in_tasks(self, session: SparkSession, reads: Reads, task: ArrowTask, ddl: str) -> DataFrame:
        parts = self._parts(reads)
        if parts is not None:
            return session.range(0, parts.number, 1, parts.number).mapInArrow(chain(parts.read, task), ddl)
        frames = [self._source.read(start, end, session) for start, end in reads]
        messages = frames[0]
        for more in frames[1:]:
            messages = messages.unionAll(more)
        found: DataFrame = messages.mapInArrow(task, ddl)
        return found

    def _parts_by(self, reads: Reads, cut: Callable[[Iterable[pa.RecordBatch]], Iterator[Part]]) -> "RDD[Part]":
        parts = self._parts(reads)
        if parts is None:
            frame = self._in_tasks(self._spark, reads, _framed(cut), _PARTS_DDL)
            return frame.rdd.map(lambda row: (row[0], bytes(row[1])))
        read = parts.read

        def run(numbers: Iterable[int]) -> Iterator[Part]:
            yield from cut(read([numbered(numbers)]))

        return self._spark.sparkContext.parallelize(range(parts.number), parts.number).mapPartitions(in_worker(run))

    def _parts(self, reads: Reads) -> Parts | None:
        """The parts that tasks read themselves; ``None``: Spark must read the messages."""
        if not self._by_parts:
            return None
        found = [self._source.read_parts(start, end) for start, end in reads]
        several = [parts for parts in found if parts is not None]
        if len(several) < len(found):
            return None
        return several[0] if len(several) == 1 else _joined(several)


class Union(AccumulatorParam[set[Place]]):
    """The union of sets from tasks."""

    def zero(self, value: set[Place]) -> set[Place]:
        return set()

    def addInPlace(self, value1: set[Place], value2: set[Place]) -> set[Place]:  # noqa: N802
        value1 |= value2
        return value1


class TopicChanges:
    """The rows of one scan of the topics. See ``changes.raw.RawChanges``."""

    def __init__(self, topic: SparkTopicRows, spark: SparkSession, wanted: RowScan) -> None:
        self._topic, self._spark, self._wanted = topic, spark, wanted
        self._what = f"rows of {wanted.table} cannot be read or written"

    @property
    def size(self) -> int | None:
        return self._wanted.bytes if self._topic.is_read_by_tasks or self.is_here else None

    @cached_property
    def _held(self) -> tuple[Held, ...] | None:
        return self._topic.held(self._wanted)

    @property
    def is_here(self) -> bool:
        return self._held is not None

    def count(self) -> Count:
        counter: Count = self._spark.sparkContext.accumulator(0)
        return counter

    def places(self) -> Places:
        found: Places = self._spark.sparkContext.accumulator(set(), Union())
        return found

    def run(self, task: RawTask) -> list[bytes]:
        assert self._held is not None, "see is_here"
        with spark_faults(self._what), task_faults(self._what):
            return list(first_cells(task(self._topic.rows(self._held, self._wanted))))

    def run_spread(self, first: RawTask, keys: Sequence[str], then: ArrowTask, number: int) -> list[bytes]:
        with spark_faults(self._what), task_faults(self._what):
            return self._topic.run(self._wanted, first, keys, then, number)

    def collect(self, task: RawTask) -> list[bytes]:
        if self._held is not None:
            return self.run(task)
        with spark_faults(self._what), task_faults(self._what):
            return [bytes(row[0]) for row in self.map(task, "found binary").collect()]

    def map(self, task: RawTask, ddl: str, session: SparkSession | None = None) -> DataFrame:
        with task_faults(self._what):
            return self._topic.dataframe(self._spark if session is None else session, self._wanted, task, ddl)


def _joined(several: Sequence[Parts]) -> Parts:
    """Join several parts into one, with consecutive numbers."""
    firsts = [sum(parts.number for parts in several[:at]) for at in range(len(several))]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                at = max(index for index, first in enumerate(firsts) if first <= number)
                yield from several[at].read([numbered([number - firsts[at]])])

    return Parts(sum(parts.number for parts in several), read)


def select(opening: Opening, wanted: RowScan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[RawRows]]:
    """Return a task from messages to the rows of a scan."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[RawRows]:
        opener, picker = Opener(opening), Picker([wanted])
        for batch in batches:
            messages = of_batch(batch)
            opened = opener.open(messages)
            if (numbers := picker.pick(messages, opened).get(0)) is not None:
                yield raw_rows(messages, opened, numbers, verify=opening.verify_checksum, ids=wanted.ids)
            yield from picker.watermarks(messages, opened).values()

    return in_worker(run)


def _first(batches: Iterable[RawRows]) -> Iterator[pa.RecordBatch]:
    if any(batch.num_rows for batch in batches):
        yield pa.record_batch([pa.array([True])], names=["found"])


_IDENTITIES_DDL = "topic string, partition int, offset bigint, schema_key string, commit_ts bigint, content binary"


def _identities(batches: Iterable[RawRows]) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        batch = rows.about
        images = zip(batch.column("op").to_pylist(), rows.before, rows.after, strict=True)
        content = pa.array([content_of(*one) for one in images], pa.binary())
        names = ["topic", "partition", "offset", "schema_key", "commit_ts"]
        yield pa.RecordBatch.from_arrays([*batch.select(names).columns, content], names=[*names, "content"])


def _read_identities(rows: Iterable[dict[str, Any]]) -> Iterator[RowIdentity]:
    return (RowIdentity(**row) for row in rows)


def _framed(cut: Callable[[Iterable[pa.RecordBatch]], Iterator[Part]]) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for slot, rows in cut(batches):
            yield pa.record_batch([pa.array([slot], pa.int32()), pa.array([rows], pa.binary())], names=["slot", "rows"])

    return in_worker(run)


def _as_dicts(held: Held) -> Iterator[dict[str, Any]]:
    names = ("topic", "partition", "offset", "key", "value")
    for cells in zip(*held.messages, strict=True):
        yield dict(zip(names, cells, strict=True))
