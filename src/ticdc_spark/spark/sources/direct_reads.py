"""Reads Kafka without Spark's reader. The driver reads few messages, because a task would cost more. Many messages are
read by Python tasks, so that they do not pass through Spark's rows.

Offsets are still listed by the client in Spark's JVM. If librdkafka cannot read, for example because it does not know
an option or does not reach a broker, that is no error: Spark's reader is used.
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
"""Seconds of waiting before the messages received so far are processed."""
_PART_ROWS = 20_000
"""Messages that justify a task."""
_AHEAD = {"kafka.queued.max.messages.kbytes": "16384"}
"""How much a task's client fetches ahead, which is wasted at the end; librdkafka's default is 64 MiB."""

Range = tuple[TopicPartition, int, int]
"""Offsets [first, end) of a partition."""


class DirectReads:
    """A client that is opened at first use and stays open. After its first fault it is no longer used."""

    def __init__(self, servers: str, options: Mapping[str, str]) -> None:
        """``options``: of Spark's source; ``kafka.…`` options are for the client."""
        self._servers = servers
        client = {key: value for key, value in options.items() if key.startswith("kafka.")}
        # The default of Java's client; librdkafka's is read_committed.
        self._options = {"kafka.isolation.level": "read_uncommitted", **client}
        del self._options["kafka.bootstrap.servers"]
        self._reader: TopicReader | None = None
        self._topics: set[str] = set()
        """Topics that the client could reach."""
        self.is_of_use = True
        """Whether the client can still be used."""

    def read(self, first: Offsets, end: Offsets) -> pa.Table | None:
        """The messages [first, end) of the partitions in ``first``; ``None``: Spark must read them."""
        if not first:
            return ARROW_SCHEMA.empty_table()
        try:
            return self._read(self._open(), first, {partition: end[partition] for partition in first})
        except (SourceFault, UsageError) as error:
            self._give_up(error)
            return None

    def parts(self, first: Offsets, end: Offsets, parallelism: int) -> Parts | None:
        """The same for about ``parallelism`` tasks."""
        wanted = {topic for topic, _ in first}
        try:
            if not wanted <= self._topics:  # checked once, not for each batch
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
    """Divide [first, end) of partitions into about ``parallelism`` parts of equal size, fewer if there is little to
    read.
    """
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
