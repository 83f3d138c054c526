"""Parquet files of a recorded topic: reads their footers, and writes such files."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ticdc_spark.errors import SourceFault
from ticdc_spark.topics.chunk import Chunk, Span
from ticdc_spark.topics.json_lines import ARROW_SCHEMA, Piece, inside

_PLACE = ["topic", "partition", "offset"]
_BATCH_ROWS = 10_000


def scan(path: str) -> Iterator[Chunk]:
    """The content of each row group: from the footer if a group has one partition, else from three columns.

    Raises: SourceFault for a file that is no Parquet, or whose columns have other names or types.
    """
    with _open(path) as file:
        _check_columns(path, file.schema_arrow)
        columns = [file.metadata.schema.column(i).path for i in range(file.metadata.num_columns)]
        for group in range(file.metadata.num_row_groups):
            footer = file.metadata.row_group(group)
            if footer.num_rows == 0:
                continue
            stored = {name: footer.column(i) for i, name in enumerate(columns)}
            size = stored["key"].total_uncompressed_size + stored["value"].total_uncompressed_size
            spans = _from_footer(stored, footer.num_rows, size) or _from_columns(path, file, group, size)
            yield Chunk(group, footer.total_byte_size, 0, spans)


def offsets(path: str, partition: tuple[str, int]) -> Iterator[int]:
    """Every offset of one partition, in the file's order."""
    with _open(path) as file:
        for group in range(file.metadata.num_row_groups):
            table = file.read_row_group(group, columns=_PLACE)
            rows = zip(*(table.column(name).to_pylist() for name in _PLACE), strict=True)
            yield from (offset for topic, number, offset in rows if (topic, number) == partition)


def read(piece: Piece, batch_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Read chunks of a file as ``ARROW_SCHEMA``. Raises: SourceFault"""
    with _open(piece.path) as file:
        for chunk in piece.chunks:
            whole = all(inside(span, piece.wanted) for span in chunk.spans)
            try:
                for batch in file.iter_batches(batch_rows, [chunk.start], ARROW_SCHEMA.names, use_threads=False):
                    # Metadata of pandas in the file does not matter here.
                    rows = pa.RecordBatch.from_arrays(batch.columns, schema=ARROW_SCHEMA)
                    yield rows if whole else rows.filter(_wanted(rows, piece))
            except (pa.ArrowException, OSError) as error:
                raise SourceFault(f"{piece.path}: {error}") from error


def _wanted(rows: pa.RecordBatch, piece: Piece) -> pa.Array:
    topics, partitions, offsets = (rows.column(name) for name in _PLACE)
    masks = (
        reduce(
            pc.and_,
            (
                pc.equal(topics, topic),
                pc.equal(partitions, partition),
                pc.greater_equal(offsets, first),
                pc.less(offsets, end),
            ),
        )
        for (topic, partition), (first, end) in piece.wanted.items()
    )
    return reduce(pc.or_, masks)


def _from_footer(stored: dict[str, Any], rows: int, size: int) -> tuple[Span, ...] | None:
    """The only span of a row group, if its statistics show that it has one partition."""
    limits = {}
    for name in _PLACE:
        statistics = stored[name].statistics
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return None
        limits[name] = (statistics.min, statistics.max)
    (topic, last_topic), (partition, last_partition), (first, last) = (limits[name] for name in _PLACE)
    if topic != last_topic or partition != last_partition:
        return None
    # More rows than offsets: one occurs twice. Fewer: gaps are allowed, so the footer does not prove that none does.
    return (Span(topic, partition, first, last, rows, size, ordered=rows <= last - first + 1),)


def _from_columns(path: str, file: pq.ParquetFile, group: int, size: int) -> tuple[Span, ...]:
    table = file.read_row_group(group, columns=_PLACE)
    for name in _PLACE:
        if table.column(name).null_count:
            raise SourceFault(f"{path}: column {name!r} has nulls")
    found = table.group_by(["topic", "partition"]).aggregate(
        [("offset", "min"), ("offset", "max"), ("offset", "count"), ("offset", "count_distinct")]
    )
    return tuple(
        Span(
            topic=row["topic"],
            partition=row["partition"],
            first=row["offset_min"],
            last=row["offset_max"],
            count=row["offset_count"],
            bytes=size * row["offset_count"] // table.num_rows,
            ordered=row["offset_count"] == row["offset_count_distinct"],
        )
        for row in found.to_pylist()
    )


def _check_columns(path: str, schema: pa.Schema) -> None:
    for field in ARROW_SCHEMA:
        index = schema.get_field_index(field.name)
        found = schema.field(index).type if index >= 0 else None
        if found != field.type:
            raise SourceFault(
                f"{path}: column {field.name!r} is {found or 'missing'}; a recorded topic has {field.type}"
            )


def _open(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise SourceFault(f"{path}: {error}") from error
