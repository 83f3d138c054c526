"""Topics for the planner and the tasks: without Spark, and pickled for the processes that read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from ticdc_spark.datasource.options import ReadOptionsOfSource
from ticdc_spark.errors import SourceFault
from ticdc_spark.model import Offsets
from ticdc_spark.topics import json_lines, parquet
from ticdc_spark.topics.json_lines import Piece
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.manifest import ends, list_recorded, spans

_INTERNAL = "__"


@dataclass(frozen=True)
class RecordedTopic:
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


class KafkaTopics:
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


Access: TypeAlias = RecordedTopic | KafkaTopics


def access(options: ReadOptionsOfSource) -> Access:
    """The topics that the options name."""
    if options.path is not None:
        return RecordedTopic(options.path)
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
