"""The source of a recorded topic: a folder or file of JSON lines or Parquet."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.model import Offsets, TopicPartition
from ticdc_spark.spark.sources.base import MESSAGES, KeyValue, OffsetRange, Stretch, check_start, fair_cut
from ticdc_spark.spark.sources.faults import keys_and_values
from ticdc_spark.spark.tasks import Parts, is_small
from ticdc_spark.topics import json_lines as recorded_json
from ticdc_spark.topics import parquet as recorded_parquet
from ticdc_spark.topics.chunk import Chunk, Span
from ticdc_spark.topics.json_lines import ARROW_SCHEMA, Piece
from ticdc_spark.topics.manifest import RecordedFile, list_recorded, spans
from ticdc_spark.topics.manifest import ends as ends_of

_TASK_BYTES = 32 << 20


class RecordedTopicSource:
    """Reads a recorded topic. Files may be added while a job runs, but the content of a file must not change."""

    has_more = False
    is_recorded = True

    def __init__(self, spark: SparkSession, path: str | Path) -> None:
        self._spark = spark
        self._path = Path(path)

    def starting(self) -> Offsets:
        return self.beginning_offsets()

    def first_messages(self, start: Offsets, end: Offsets, limit: int) -> list[KeyValue]:
        return keys_and_values(self.read(start, end), limit)

    def beginning_offsets(self) -> Offsets:
        """First offset of each partition."""
        return {partition: held[0].first for partition, held in spans(self._files()).items()}

    def end_offsets(self) -> Offsets:
        """The offset after the last message of each partition."""
        return ends_of(spans(self._files()))

    def notes(self, read: Offsets) -> dict[tuple[str, str], str]:
        """See ``Source``. The number of messages reveals a file that fills a gap in what was read."""
        held = spans(self._files())
        return {
            (topic, f"the number of messages below offset {offset} of topic {topic}, partition {partition}"): str(
                sum(_below(span, offset) for span in held.get((topic, partition), ()))
            )
            for (topic, partition), offset in read.items()
        }

    def recall(self, memory: str) -> None:
        """See ``Source``. Nothing to do: the offsets are in the files."""

    def memory(self, offsets: Offsets, needed: Iterable[Stretch]) -> str:
        return ""

    def retention(self) -> dict[str, float]:
        return {}

    @property
    def unread(self) -> str:
        return ""

    def publish(self, offsets: Offsets) -> None:
        return None

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        """Cut a backlog by the sizes of chunks in the manifest."""
        held = spans(self._files())
        backlog = {
            partition: [
                clipped
                for span in held.get(partition, ())
                if (
                    clipped := OffsetRange(span.first, span.last + 1, span.count, span.bytes).clip(
                        start.get(partition, 0), last
                    )
                )
            ]
            for partition, last in end.items()
        }
        return fair_cut(backlog, end, max_rows, max_bytes)

    def offsets_since(self, commit_ts: int) -> Offsets:
        return self.beginning_offsets()  # a recording may have been converted at any time

    def read(self, start: Offsets, end: Offsets, session: SparkSession | None = None) -> DataFrame:
        """Read the files that overlap. Several tasks read a large file; one task reads a ``.gz`` file from its
        start."""
        parts = self.read_parts(start, end)
        if parts is None:
            return (session or self._spark).createDataFrame([], MESSAGES)
        # Python tasks read them: Spark's readers do not give line numbers.
        return (session or self._spark).range(0, parts.number, 1, parts.number).mapInArrow(parts.read, MESSAGES)

    def read_parts(self, start: Offsets, end: Offsets) -> Parts | None:
        pieces = self._pieces(start, end)
        if not pieces:
            return None
        tasks = _share_out(pieces, self._spark.sparkContext.defaultParallelism)
        return Parts(len(tasks), _reader(tasks))

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table | None:
        pieces = self._pieces(start, end)
        # A chunk that is read in part, and a gzip file that is read from its start, must be opened completely.
        chunks = [chunk for piece in pieces for chunk in piece.chunks]
        if not is_small(sum(span.count for chunk in chunks for span in chunk.spans), sum(c.length for c in chunks)):
            return None
        return pa.Table.from_batches([batch for piece in pieces for batch in _read(piece)], ARROW_SCHEMA)

    def _pieces(self, start: Offsets, end: Offsets) -> list[Piece]:
        files = self._files()
        held = spans(files)
        beginning = {partition: at[0].first for partition, at in held.items()}
        ends = ends_of(held)
        # A recorded topic loses no messages over time, so offsets before its first one are not lost.
        first = check_start({p: max(o, beginning.get(p, o)) for p, o in start.items()}, end, beginning, ends)
        wanted = {partition: (offset, end[partition]) for partition, offset in first.items()}
        return list(_pieces(files, wanted))

    def close(self) -> None:
        """See ``Source``: nothing stays open."""

    def _files(self) -> tuple[RecordedFile, ...]:
        return list_recorded(self._path)


def _below(span: Span, offset: int) -> int:
    """The number of messages of a span below an offset; 0 if the span has gaps and extends beyond it."""
    if span.last < offset:
        return span.count
    dense = span.count == span.last - span.first + 1
    return max(0, offset - span.first) if dense else 0


Wanted = dict[TopicPartition, tuple[int, int]]
"""[first, end) of each partition to read."""


def _overlapping(file: RecordedFile, wanted: Wanted) -> tuple[Chunk, ...]:
    return tuple(chunk for chunk in file.chunks if any(_overlaps(span, wanted) for span in chunk.spans))


def _overlaps(span: Span, wanted: Wanted) -> bool:
    first, end = wanted.get((span.topic, span.partition), (0, 0))
    return span.first < end and span.last >= first


def _pieces(files: Iterable[RecordedFile], wanted: Wanted) -> Iterator[Piece]:
    for file in files:
        chunks = _overlapping(file, wanted)
        if file.kind == "gzip" and chunks:
            yield Piece(file.path, chunks, wanted)
        else:
            yield from (Piece(file.path, (chunk,), wanted) for chunk in chunks)


def _share_out(pieces: Sequence[Piece], parallelism: int) -> list[list[Piece]]:
    """Group neighbouring pieces into tasks of about ``_TASK_BYTES``, or less if cores would be idle."""
    sizes = [sum(chunk.length for chunk in piece.chunks) for piece in pieces]
    limit = min(_TASK_BYTES, max(1, sum(sizes) // parallelism))
    tasks: list[list[Piece]] = [[]]
    filled = 0
    for piece, size in zip(pieces, sizes, strict=True):
        if filled and filled + size > limit:
            tasks.append([])
            filled = 0
        tasks[-1].append(piece)
        filled += size
    return tasks


def _reader(tasks: list[list[Piece]]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for piece in tasks[task]:
                    yield from _read(piece)

    return read


def _read(piece: Piece) -> Iterator[pa.RecordBatch]:
    is_parquet = piece.path.endswith(".parquet")
    return recorded_parquet.read(piece) if is_parquet else recorded_json.read([piece])
