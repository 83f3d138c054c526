"""Reading Kafka without Spark's reader: few messages by the driver, as a task costs more than they do; many by tasks in
Python, so that they do not go through Spark's rows.

Offsets are still listed by the client in Spark's JVM. What librdkafka cannot do, Spark's reader does: an option that it
does not know is no error here, and neither is a broker that it does not reach.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.model import Message, Offsets, TopicPartition
from ticdc_spark.spark.tasks import ArrowTask, Parts, is_small
from ticdc_spark.topics.json_lines import ARROW_SCHEMA, to_table
from ticdc_spark.topics.kafka_reader import TopicReader

log = logging.getLogger(__name__)
_WAIT = 0.2
"""Seconds after which what has come is looked at."""
_PART_ROWS = 20_000
"""Messages that are worth a task."""
_AHEAD = {"kafka.queued.max.messages.kbytes": "16384"}
"""What a task's client fetches beyond what it has read, and for nothing at the end; librdkafka's default is 64 MiB."""

Range = tuple[TopicPartition, int, int]
"""Offsets [first, end) of a partition."""


class DirectReads:
    """A client that is opened when it is needed, and stays open; after its first fault it is not used any more."""

    def __init__(self, servers: str, options: Mapping[str, str]) -> None:
        """``options``: as of Spark's source; ``kafka.…`` are the client's."""
        self._servers = servers
        client = {key: value for key, value in options.items() if key.startswith("kafka.")}
        # As Java's client has it; librdkafka's default is read_committed.
        self._options = {"kafka.isolation.level": "read_uncommitted", **client}
        del self._options["kafka.bootstrap.servers"]
        self._reader: TopicReader | None = None
        self._topics: set[str] = set()
        """Those that the client was seen to reach."""
        self.is_of_use = True
        """Whether it is worth asking."""

    def read(self, first: Offsets, end: Offsets) -> pa.Table | None:
        """The messages [first, end) of the partitions of ``first``; ``None`` where Spark must read them."""
        if not first:
            return ARROW_SCHEMA.empty_table()
        try:
            return self._read(self._open(), first, {partition: end[partition] for partition in first})
        except (SourceFault, UsageError) as error:
            self._give_up(error)
            return None

    def parts(self, first: Offsets, end: Offsets, parallelism: int) -> Parts | None:
        """The same for tasks, about ``parallelism`` of them."""
        wanted = {topic for topic, _ in first}
        try:
            if not wanted <= self._topics:  # asked once, and not for each batch
                self._topics = {*self._open().topics()}
        except (SourceFault, UsageError) as error:
            self._give_up(error)
            return None
        shares = share_out({partition: (offset, end[partition]) for partition, offset in first.items()}, parallelism)
        if not shares or not wanted <= self._topics:
            return None
        return Parts(len(shares), _read_shares(self._servers, {**_AHEAD, **self._options}, shares))

    def _open(self) -> TopicReader:
        if self._reader is None:
            self._reader = TopicReader(self._servers, self._options)
        return self._reader

    def _give_up(self, error: Exception) -> None:
        log.info("all batches are read by Spark: %s", error)
        self.close()
        self.is_of_use = False

    def _read(self, reader: TopicReader, first: Offsets, end: Offsets) -> pa.Table | None:
        found: list[Message] = []
        size = 0
        try:
            for messages in reader.batches(first, end, [], patient=False, wait=_WAIT):
                found += messages
                size += sum(len(message.key or b"") + len(message.value or b"") for message in messages)
                if not is_small(len(found), size):
                    return None
        finally:
            reader.rest()
        return to_table(found)

    def close(self) -> None:
        """Close the client."""
        if self._reader is not None:
            self._reader.__exit__()
            self._reader = None


def share_out(backlog: Mapping[TopicPartition, tuple[int, int]], parallelism: int) -> list[list[Range]]:
    """[first, end) of partitions as about ``parallelism`` parts of equal size, fewer where there is little to read."""
    total = sum(end - first for first, end in backlog.values())
    size = max(_PART_ROWS, -(-total // parallelism))
    parts: list[list[Range]] = []
    room = 0
    for place, (first, end) in sorted(backlog.items()):
        while first < end:
            if not room:
                parts.append([])
                room = size
            taken = min(room, end - first)
            parts[-1].append((place, first, first + taken))
            first, room = first + taken, room - taken
    return parts


def _read_shares(servers: str, options: Mapping[str, str], shares: Sequence[Sequence[Range]]) -> ArrowTask:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            opened = TopicReader(servers, options)
        except UsageError as error:
            raise SourceFault(f"on an executor: {error}") from error
        with opened as reader:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    first = {place: begins for place, begins, _ in shares[number]}
                    end = {place: ends for place, _, ends in shares[number]}
                    yield from reader.tables(first, end)

    return read
