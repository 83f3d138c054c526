"""JSON lines of a recorded topic: scanned for the manifest on the driver, and read in tasks."""

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import msgspec
import pyarrow as pa

from ticdc_spark.errors import SourceFault
from ticdc_spark.model import Message
from ticdc_spark.topics.chunk import Chunk, Span

T = TypeVar("T")

CHUNK_BYTES = 8 << 20
_FORM = '{"topic": name, "partition": number, "offset": number, "key": base64 or null, "value": base64 or null}'

ARROW_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""``sources.MESSAGES`` in Arrow's types."""


def to_table(messages: Sequence[Message]) -> pa.Table:
    """Messages in ``ARROW_SCHEMA``."""
    columns = [pa.array([getattr(message, field.name) for message in messages], field.type) for field in ARROW_SCHEMA]
    return pa.table(columns, schema=ARROW_SCHEMA)


class _Head(msgspec.Struct, gc=False):
    topic: str
    partition: int
    offset: int | None = None


class _Line(msgspec.Struct, gc=False):
    topic: str
    partition: int
    offset: int | None = None
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None


_HEADS = msgspec.json.Decoder(_Head)
_LINES = msgspec.json.Decoder(_Line)


class Piece(msgspec.Struct, frozen=True):
    """Chunks of one file to read, in order, and the wanted offsets of each partition: [first, end)."""

    path: str
    chunks: tuple[Chunk, ...]
    wanted: Mapping[tuple[str, int], tuple[int, int]]


def scan(path: str) -> Iterator[Chunk]:
    """Read a whole file once, and give the content of each chunk.

    Raises: SourceFault, with file and line, for a line that is no JSON object with ``topic`` and ``partition``.
    """
    start = line = 0
    with _open(path) as file:
        for data in _blocks(path, file):
            heads, lines = _decode(_HEADS, path, data, line)
            yield Chunk(start, len(data), line, _spans(heads, _numbers(data, line, len(heads), lines), len(data)))
            start += len(data)
            line += lines


def offsets(path: str, partition: tuple[str, int]) -> Iterator[int]:
    """Every offset of one partition, in the file's order."""
    line = 0
    with _open(path) as file:
        for data in _blocks(path, file):
            heads, lines = _decode(_HEADS, path, data, line)
            for head in heads:
                if head.offset is not None and (head.topic, head.partition) == partition:
                    yield head.offset
            line += lines


def read(pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
    """Read pieces of files in ``ARROW_SCHEMA``. Runs in a task.

    Raises: SourceFault, with file and line, for a line that cannot be read.
    """
    for piece in pieces:
        with _open(piece.path) as file:
            for chunk in piece.chunks:
                try:
                    file.seek(chunk.start)
                    data = file.read(chunk.length)
                except (OSError, EOFError, zlib.error) as error:
                    raise SourceFault(f"{piece.path}: {error}") from error
                if len(data) != chunk.length:
                    raise SourceFault(f"{piece.path}: became shorter while it was read")
                yield from _batches(piece, chunk, data)


def _batches(piece: Piece, chunk: Chunk, data: bytes) -> Iterator[pa.RecordBatch]:
    lines, count = _decode(_LINES, piece.path, data, chunk.line)
    if any(span.implicit for span in chunk.spans):
        for number, line in zip(_numbers(data, chunk.line, len(lines), count), lines, strict=True):
            if line.offset is None:
                line.offset = number
    if not all(inside(span, piece.wanted) for span in chunk.spans):
        nothing = (0, 0)
        wanted = piece.wanted
        lines = [
            line
            for line in lines
            for first, end in (wanted.get((line.topic, line.partition), nothing),)
            if first <= cast(int, line.offset) < end
        ]
    yield pa.record_batch(
        [
            pa.array([line.topic for line in lines], pa.string()),
            pa.array([line.partition for line in lines], pa.int32()),
            pa.array([line.offset for line in lines], pa.int64()),
            pa.array([line.timestamp for line in lines], pa.int64()),
            pa.array([line.key for line in lines], pa.binary()),
            pa.array([line.value for line in lines], pa.binary()),
        ],
        schema=ARROW_SCHEMA,
    )


def inside(span: Span, wanted: Mapping[tuple[str, int], tuple[int, int]]) -> bool:
    """Whether every offset of a span is wanted."""
    first, end = wanted.get((span.topic, span.partition), (0, 0))
    return first <= span.first and span.last < end


def _spans(heads: Sequence[_Head], numbers: Sequence[int], size: int) -> tuple[Span, ...]:
    held: dict[tuple[str, int], list[int]] = {}
    implicit: set[tuple[str, int]] = set()
    for head, number in zip(heads, numbers, strict=True):
        partition = (head.topic, head.partition)
        offset = head.offset
        if offset is None:
            offset = number
            implicit.add(partition)
        at = held.get(partition)
        if at is None:
            held[partition] = [offset]
        else:
            at.append(offset)
    # Base64 makes four bytes of three.
    share = size * 3 / 4 / max(1, len(heads))
    return tuple(
        Span(
            topic=topic,
            partition=partition,
            first=min(at),
            last=max(at),
            count=len(at),
            bytes=round(share * len(at)),
            ordered=len(set(at)) == len(at),
            implicit=(topic, partition) in implicit,
        )
        for (topic, partition), at in held.items()
    )


def _numbers(data: bytes, first: int, messages: int, lines: int) -> Sequence[int]:
    """Line number of each message; blank lines count as lines."""
    if messages == lines:
        return range(first, first + lines)
    return [number for number, text in enumerate(data.split(b"\n"), start=first) if text.strip()]


def _decode(decoder: "msgspec.json.Decoder[T]", path: str, data: bytes, line: int) -> tuple[list[T], int]:
    """Decode lines. Also returns their number, with blank ones."""
    try:
        return decoder.decode_lines(data), data.count(b"\n") + (not data.endswith(b"\n"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # The error is of the whole block: find the line.
        for number, text in enumerate(data.split(b"\n"), start=line + 1):
            try:
                if text.strip():
                    decoder.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError) as reason:
                raise SourceFault(f"{path}, line {number}: {reason}; a line is one message: {_FORM}") from reason
        raise SourceFault(f"{path}: {error}") from error


def _open(path: str) -> BinaryIO:
    try:
        return cast(BinaryIO, gzip.open(path)) if path.endswith(".gz") else Path(path).open("rb")
    except OSError as error:
        raise SourceFault(f"{path}: {error.strerror or error}") from error


def _blocks(path: str, file: BinaryIO) -> Iterator[bytes]:
    try:
        while data := file.read(CHUNK_BYTES):
            yield data if data.endswith(b"\n") else data + file.readline()
    except (OSError, EOFError, zlib.error) as error:
        raise SourceFault(f"{path}: {error}") from error
