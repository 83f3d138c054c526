"""The messages of a recorded topic, one at a time and without Spark."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from ticdc_spark.model import Message, TopicPartition
from ticdc_spark.topics import json_lines as recorded_json
from ticdc_spark.topics import parquet as recorded_parquet
from ticdc_spark.topics.chunk import Chunk
from ticdc_spark.topics.json_lines import Piece
from ticdc_spark.topics.manifest import RecordedFile, list_recorded, spans
from ticdc_spark.topics.manifest import ends as ends_of

_BATCH_ROWS = 1024
_LOOK_AGAIN_SECONDS = 0.5


def recorded_messages(
    path: Path, *, follow: bool = False, start: Mapping[TopicPartition, int] | None = None
) -> Iterator[Message]:
    """Every message of a recorded topic (a folder or file). ``follow``: also of files that are added.

    ``start``: the first offset of each partition, if not its beginning.

    Order: each file from its start. Files of one partition are read in the order of offsets. Files of different
    partitions are merged by their messages' times. A chunk of each such group is in memory.

    Raises: SourceFault, with file and line, for a message that cannot be read.
    """
    read = dict(start or {})
    while True:
        files = list_recorded(path)
        ends = ends_of(spans(files))
        wanted = {partition: (read.get(partition, 0), end) for partition, end in ends.items()}
        groups = _groups([file for file in files if _holds(file, wanted)])
        streams = [_chain(group, wanted) for group in groups]
        yield from streams[0] if len(streams) == 1 else heapq.merge(*streams, key=_time)
        if not follow:
            return
        read = ends
        time.sleep(_LOOK_AGAIN_SECONDS)


def count_recorded(path: Path) -> int:
    """How many messages a recorded topic has."""
    return sum(span.count for file in list_recorded(path) for chunk in file.chunks for span in chunk.spans)


def _time(message: Message) -> int:
    return message.timestamp or 0


def _holds(file: RecordedFile, wanted: dict[TopicPartition, tuple[int, int]]) -> bool:
    return any(_overlaps(chunk, wanted) for chunk in file.chunks)


def _overlaps(chunk: Chunk, wanted: dict[TopicPartition, tuple[int, int]]) -> bool:
    return any(span.last >= wanted.get((span.topic, span.partition), (0, 0))[0] for span in chunk.spans)


def _groups(files: Sequence[RecordedFile]) -> list[list[RecordedFile]]:
    """Groups of files that share partitions, in the order of their first offsets."""
    groups: list[tuple[set[TopicPartition], list[RecordedFile]]] = []
    for file in files:
        partitions = {(span.topic, span.partition) for chunk in file.chunks for span in chunk.spans}
        shared = [group for group in groups if group[0] & partitions]
        groups = [group for group in groups if group not in shared]
        together = [file for _, held in shared for file in held] + [file]
        groups.append((partitions.union(*(held for held, _ in shared)), together))
    return [sorted(held, key=_first) for _, held in groups]


def _first(file: RecordedFile) -> tuple[int, str]:
    return min(span.first for chunk in file.chunks for span in chunk.spans), file.path


def _chain(files: Sequence[RecordedFile], wanted: dict[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
    for file in files:
        chunks = tuple(chunk for chunk in file.chunks if _overlaps(chunk, wanted))
        piece = Piece(file.path, chunks, wanted)
        batches = recorded_parquet.read(piece, _BATCH_ROWS) if file.kind == "parquet" else recorded_json.read([piece])
        for batch in batches:
            yield from _messages(batch, wanted)


def _messages(batch: pa.RecordBatch, wanted: dict[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
    columns = [batch.column(name).to_pylist() for name in recorded_json.ARROW_SCHEMA.names]
    for topic, partition, offset, timestamp, key, value in zip(*columns, strict=True):
        first, end = wanted.get((topic, partition), (0, 0))
        if first <= offset < end:
            yield Message(topic=topic, partition=partition, offset=offset, timestamp=timestamp, key=key, value=value)
