"""The second task of a stretch: read the rows of a range of commit_ts, filter, dispatch and encode them.

Rules, encoders and limits are the same as in one process. The messages go into a file, grouped by target partition and
in their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from ticdc_spark.capture.base import Transaction
from ticdc_spark.capture.stream import Stream, StreamCapture
from ticdc_spark.capture.transactions import read_rows
from ticdc_spark.changefeed.actions import Place, SendRows
from ticdc_spark.changefeed.backlog.files import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    BlockFile,
    Chunk,
    Messages,
    OpenRow,
    read_rows_of,
)
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.encoders import encoder
from ticdc_spark.changefeed.outbox import Outbox
from ticdc_spark.changefeed.route import Placer
from ticdc_spark.changefeed.sent import TableRows
from ticdc_spark.changefeed.topics import TopicFacts
from ticdc_spark.errors import SinkFault, TicdcSparkError
from ticdc_spark.model import Envelope, Message, RowChange, Table, TopicPartition
from ticdc_spark.protocols import protocol
from ticdc_spark.streams.reader import EventReader
from ticdc_spark.streams.registering import KnownIds
from ticdc_spark.streams.target_tables import TargetTables


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """A range of commit_ts, (above, upto], for one task."""

    above: int
    upto: int
    chunks: tuple[Chunk, ...]
    rows: int = 0
    """About how many rows."""


@dataclass(frozen=True, kw_only=True)
class EncodeJob:
    """The job of tasks: consecutive ranges without a DDL between them."""

    changefeed: Changefeed
    rules: Router
    stream: Stream
    source_protocol: str
    ranges: tuple[Range, ...]
    source: tuple[TopicPartition, ...]
    """The partitions of the source, by number."""
    tables: tuple[Table, ...]
    """The tables with which rows are read."""
    target: TargetTables
    facts: Mapping[str, TopicFacts]
    """Facts of the target topics."""
    ids: Mapping[tuple[str, str], int]
    """Ids of registered schemas."""
    ddl_ts: int
    """commit_ts of the DDL that follows; 0: none does."""
    folder: Path

    def partitions(self, topic: str) -> int:
        """How many partitions of a topic are used. Raises: SinkFault for one that was not looked up"""
        return self._facts(topic).partitions

    def limit(self, topic: str) -> int:
        """How many bytes a message of a topic may take. Raises: SinkFault"""
        return self._facts(topic).max_message_bytes

    def _facts(self, topic: str) -> TopicFacts:
        found = self.facts.get(topic)
        if found is None:
            raise SinkFault(f"topic {topic!r} was not looked up")
        return found


class Met(msgspec.Struct, frozen=True):
    """A table that has rows for a topic."""

    topic: str
    table: Table
    """The table as the rows have it."""
    first_ts: int
    rows: int


class Encoded(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a range."""

    rows: int = 0
    messages: int = 0
    bytes: int = 0
    """Of the messages: keys and values."""
    counted: tuple[TableRows, ...] = ()
    """The rows by table and operation."""
    blocks: tuple[Messages, ...] = ()
    """Messages of one place are in their order."""
    met: tuple[Met, ...] = ()
    read: tuple[Table, ...] = ()
    """Tables with which the rows were read, also of rows that are excluded."""
    odd: str = ""
    """Why tasks cannot send the range; ``""``: they can."""


class _At(NamedTuple):
    message: Message
    seq: int
    event: Envelope


def encode_range(job: EncodeJob, number: int) -> Encoded:
    """Encode a range. Errors are in the result."""
    try:
        with StreamCapture(job.stream).reader(job.source_protocol) as (_, reader):
            reader.go_on_from(job.tables)
            return _encoded(job, number, reader)
    except TicdcSparkError as error:
        return Encoded(odd=f"{type(error).__name__}: {error}")


def _encoded(job: EncodeJob, number: int, reader: EventReader) -> Encoded:
    of = job.ranges[number]
    placer = Placer(job.changefeed, job, job.rules)
    met: dict[tuple[str, int], _Counted] = {}
    read: dict[int, Table] = {}
    by_place: dict[Place, list[RowChange]] = {}
    for transaction in transactions(job.source, reader, read_rows_of(of.chunks, of.above, of.upto), job.ddl_ts, read):
        for place, change in placer.route(transaction).rows:
            by_place.setdefault(place, []).append(change)
            counted = met.get((place[0], id(change.table)))
            if counted is None:
                counted = met[place[0], id(change.table)] = _Counted(change.table, change.commit_ts)
            counted.rows += 1
    changefeed = job.changefeed
    registry = KnownIds(job.ids) if protocol(changefeed.protocol).traits.registry else None
    with BlockFile(job.folder / f"messages-{number}") as file:
        kept = _Kept(file)
        outbox = Outbox(
            changefeed.protocol, partial(encoder, changefeed, registry, job.rules.topic), job.limit, kept, job.target
        )
        for place, changes in by_place.items():
            outbox.do(SendRows(0, place, changes))
            kept.flush()
        found = [Met(topic, one.table, one.first_ts, one.rows) for (topic, _), one in met.items()]
        return Encoded(
            rows=outbox.rows,
            messages=outbox.messages,
            bytes=outbox.counts.bytes,
            counted=outbox.counts.rows,
            blocks=tuple(kept.blocks),
            met=tuple(found),
            read=tuple(read.values()),
        )


class _Counted:
    """A table, and how many of its rows go to a topic."""

    __slots__ = ("first_ts", "rows", "table")

    def __init__(self, table: Table, first_ts: int) -> None:
        self.table, self.first_ts, self.rows = table, first_ts, 0


def transactions(
    source: tuple[TopicPartition, ...],
    reader: EventReader,
    rows: Iterable[OpenRow],
    ddl_ts: int,
    read: dict[int, Table],
) -> Iterator[Transaction]:
    """Sorted rows as transactions. ``read`` collects their tables. Raises: RejectedMessage"""
    for ts, group in groupby(rows, lambda row: row.ts):
        entries = [_At(row.message(*source[row.partition]), row.seq, row.event) for row in group]
        changes, _ = read_rows(reader, entries)
        for change in changes:
            read[id(change.table)] = change.table
        # a transaction with the commit_ts of the DDL gets a lower one, as a source's commit_ts must rise
        yield Transaction(commit_ts=ts - 1 if ts == ddl_ts else ts, changes=tuple(changes), position="")


class _Kept:
    """Takes messages like a producer, and stores them in a file."""

    def __init__(self, file: BlockFile) -> None:
        self._file = file
        self.blocks: list[Messages] = []
        self._waiting: defaultdict[Place, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
        self._bytes = 0

    def receipt(self, ticket: int, messages: int, into: list[int]) -> None:
        """See ``KafkaProducer``; nothing is acknowledged."""

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, receipt: None) -> None:
        waiting = self._waiting[topic, partition]
        waiting.append((key, value))
        self._bytes += len(value or b"")
        if len(waiting) >= CHUNK_ROWS or self._bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered messages."""
        for (topic, partition), messages in self._waiting.items():
            at, size = self._file.write(messages)
            self.blocks.append(Messages(topic, partition, str(self._file.path), at, size, len(messages)))
        self._waiting.clear()
        self._bytes = 0
