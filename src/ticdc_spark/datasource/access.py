"""Topics for the planner and the tasks: without Spark, and pickled for the processes that read them.

A storage sink is one partition of a topic ``storage``, as for a job. Only what the source remembers says which file has
an offset, so this **memory** is part of each offset of a stream, and each task gets its own piece of it.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from ticdc_spark.config.load_storage import CSV, STORED
from ticdc_spark.datasource.options import ReadOptionsOfSource
from ticdc_spark.errors import SourceFault
from ticdc_spark.model import Offsets
from ticdc_spark.spark.sources.stored_files import open_files, open_storage
from ticdc_spark.streams.storage_messages import CSV as EXTENSION
from ticdc_spark.topics import json_lines, parquet
from ticdc_spark.topics.json_lines import Piece, to_table
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.manifest import ends, list_recorded, spans
from ticdc_spark.topics.storage.layout import walk
from ticdc_spark.topics.storage.ledger import PLACE, Ledger, needed

_INTERNAL = "__"
_BATCH_ROWS = 10_000


class _Remembered:
    """A source whose offsets mean the same to everyone: it has nothing to remember."""

    def take_all(self) -> None:
        """See ``StorageFolder``, as below."""

    def take_schemas(self) -> None: ...

    def look(self, done: Offsets, read: Offsets) -> None: ...

    def recall(self, memory: str) -> None: ...

    def memory(self) -> str:
        return ""

    def excerpt(self, first: int, end: int) -> str:
        return ""


@dataclass(frozen=True)
class RecordedTopic(_Remembered):
    """A recorded topic."""

    path: Path

    def limits(self) -> tuple[Offsets, Offsets]:
        """The first offset of each partition, and the offset after its last message. Raises: SourceFault"""
        held = spans(list_recorded(self.path))
        # A recorded topic loses no messages over time: before its first offset there never were any.
        return dict.fromkeys(held, 0), ends(held)

    def batches(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        """The messages [start, end) of the partitions of ``end``, each partition in order. Raises: SourceFault"""
        wanted = {partition: (start.get(partition, 0), last) for partition, last in end.items()}
        pieces = []
        for file in list_recorded(self.path):
            chunks = []
            first = None
            for chunk in file.chunks:
                met = [
                    span.first
                    for span in chunk.spans
                    if _overlaps((span.first, span.last), wanted.get((span.topic, span.partition)))
                ]
                if met:
                    chunks.append(chunk)
                    first = min(met) if first is None else min(first, *met)
            if first is not None:
                pieces.append((first, file.path, Piece(file.path, tuple(chunks), wanted)))
        for _, path, piece in sorted(pieces, key=lambda one: one[:2]):
            yield from parquet.read(piece) if path.endswith(".parquet") else json_lines.read([piece])

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return nothing: a recorded topic has no ids."""
        return {}

    def close(self) -> None:
        """Do nothing: nothing is open."""


class KafkaTopics(_Remembered):
    """Topics of a Kafka cluster, by name or by a regular expression that must match the whole name.

    The client stays open, and is not pickled.
    """

    def __init__(self, servers: str, options: Mapping[str, str], topics: tuple[str, ...], pattern: str | None) -> None:
        self._servers = servers
        # The default of Java's client; librdkafka's is read_committed.
        self._options = {"kafka.isolation.level": "read_uncommitted", **options}
        self._topics = topics
        self._pattern = None if pattern is None else re.compile(pattern)
        self._opened: TopicReader | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def limits(self) -> tuple[Offsets, Offsets]:
        """As for a recorded topic. Raises: SourceFault naming a topic that does not exist"""
        reader, names, pattern = self._reader(), self._topics, self._pattern
        if pattern is not None:
            names = tuple(name for name in reader.topics() if pattern.fullmatch(name) and name[:2] != _INTERNAL)
        return reader.limits(reader.partitions(names))

    def batches(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        """As for a recorded topic. Raises: SourceFault, also if offsets are gone"""
        reader = self._reader()
        yield from reader.tables({partition: start.get(partition, 0) for partition in end}, end)
        reader.rest()

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics, which change when one is deleted and created again. Raises: SourceFault"""
        return self._reader().ids(sorted(topics))

    def close(self) -> None:
        """Close the client. It is opened again when needed."""
        if self._opened is not None:
            self._opened.__exit__()
            self._opened = None

    def _reader(self) -> TopicReader:
        if self._opened is None:
            self._opened = TopicReader(self._servers, self._options)
        return self._opened


class StorageFolder:
    """The files of a storage sink, as one partition."""

    def __init__(self, options: ReadOptionsOfSource, memory: str) -> None:
        """``options``: as from ``settled``."""
        self._options = options
        self._topic = open_storage(options.storage)
        self._told = ""
        """The memory that was last returned or recalled."""
        self.recall(memory)

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_told": self._told}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_told"])  # type: ignore[misc]

    def take_all(self) -> None:
        """Take all present files. Raises: SourceFault, UsageError"""
        self._topic.take_all()

    def take_schemas(self) -> None:
        """Take all present schema files, and no rows: some may be gone since they were read. Raises: as ``take_all``"""
        self._topic.take_schemas()

    def look(self, done: Offsets, read: Offsets) -> None:
        """Take new files, up to as many as one batch should have. Raises: as ``take_all``

        ``done``: offsets below will not be read again. ``read``: where the next batch begins.
        """
        at = read.get(PLACE, 0)
        self._topic.ledger = needed(self._topic.ledger, at, [(done.get(PLACE, 0), at)])
        self._told = ""  # what was told may have entries that are dropped here
        self._topic.look()

    def recall(self, memory: str) -> None:
        """Continue from what ``memory`` or ``excerpt`` has returned."""
        if memory != self._told:
            self._topic.recall(zlib.decompress(base64.b64decode(memory)).decode())
            self._told = memory

    def memory(self) -> str:
        """What is needed to read all offsets that are not done, and to go on after them."""
        self._told = _packed(self._topic.ledger)
        return self._told

    def excerpt(self, first: int, end: int) -> str:
        """What a task needs to read [first, end). Raises: SourceFault if the files of some are not remembered"""
        entries = self._topic.entries(first, end)
        if sum(min(one.end, end) - max(one.first, first) for one in entries) != end - first:
            raise SourceFault(
                f"{self._topic.files.where}: the checkpoint does not say which files have {first} to {end}"
            )
        return _packed(Ledger(end=end, entries=tuple(entries)))

    def limits(self) -> tuple[Offsets, Offsets]:
        """As for a recorded topic, without a look at the folder."""
        return {PLACE: 0}, {PLACE: self._topic.ledger.end}

    def batches(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        """As for a recorded topic. Raises: SourceFault; SourceChanged if a file is gone"""
        if PLACE in end:
            messages = self._topic.messages(start.get(PLACE, 0), end[PLACE])
            while some := list(islice(messages, _BATCH_ROWS)):
                yield from to_table(some).to_batches()

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return nothing: another folder is recognised by its files."""
        return {}

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _packed(ledger: Ledger) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(ledger), 9)).decode()


Access: TypeAlias = RecordedTopic | KafkaTopics | StorageFolder


def settled(options: ReadOptionsOfSource) -> ReadOptionsOfSource:
    """The options with the protocol of a storage sink, if it was to be found out. Raises: SourceFault, UsageError"""
    if options.protocol is not None or not options.is_stored:
        return options
    source = options.storage
    found = walk(open_files(source.path, source.options), "").data
    is_csv = any(one.extension == EXTENSION for one in found)
    return msgspec.structs.replace(options, protocol=CSV if is_csv else STORED[0])


def access(options: ReadOptionsOfSource, memory: str = "") -> Access:
    """The topics that options name. ``memory``: from ``excerpt``, for a task."""
    if options.path is not None:
        if memory or options.is_stored:
            return StorageFolder(options, memory)
        return RecordedTopic(Path(options.path))
    assert options.bootstrap_servers is not None
    return KafkaTopics(options.bootstrap_servers, options.kafka, options.topics or (), options.topic_pattern)


def check_range(start: Offsets, end: Offsets, limits: tuple[Offsets, Offsets]) -> None:
    """Raises: SourceFault if messages of [start, end) are gone, or the topic is shorter than before"""
    beginning, ends_ = limits
    for partition, last in end.items():
        first = start.get(partition, 0)
        name = f"topic {partition[0]!r}, partition {partition[1]}"
        if first > last:
            raise SourceFault(f"{name}: reading begins at offset {first}, which is after its end at {last}")
        if last > ends_.get(partition, last):
            raise SourceFault(
                f"{name}: offsets up to {last} are to be read, but it ends at {ends_[partition]}. Was the topic "
                "deleted and created again? Read it with a new checkpoint"
            )
        if first == last:
            continue
        if partition not in ends_:
            raise SourceFault(f"{name}: does not exist any more; offsets {first} to {last} are to be read")
        if first < beginning[partition]:
            raise SourceFault(
                f"{name}: offset {first} is to be read, but the first one still there is {beginning[partition]}. Kafka "
                'removed the messages between: read from startingOffsets = "earliest" with a new checkpoint'
            )


def _overlaps(span: tuple[int, int], wanted: tuple[int, int] | None) -> bool:
    return wanted is not None and span[0] < wanted[1] and span[1] >= wanted[0]
