"""Files between the tasks of a stretch: rows with open envelopes, and messages ready to send."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Self, TypeAlias

import msgspec

from ticdc_spark.errors import EnvironmentFault, os_reason
from ticdc_spark.model import Checksum, Envelope, Message, Op

CHUNK_ROWS = 2000
CHUNK_BYTES = 4 << 20
Name: TypeAlias = tuple[str, str, str]
"""Schema, table and schema key."""


class OpenRow(msgspec.Struct, array_like=True, gc=False):
    """A row change with its place, as the files keep it."""

    ts: int
    partition: int
    """Number of the source's partition in the stretch."""
    offset: int
    seq: int
    op: Op
    schema: str
    table: str
    before: bytes | None
    after: bytes | None
    table_id: int | None
    schema_key: str
    partial: bool
    key: bytes | None
    checksum: Checksum | None
    claim_check: str | None
    message_key: bytes | None
    message_value: bytes | None

    @property
    def event(self) -> Envelope:
        """The row change."""
        return Envelope(
            self.op,
            self.schema,
            self.table,
            self.ts,
            self.before,
            self.after,
            self.table_id,
            self.schema_key,
            self.partial,
            self.key,
            self.checksum,
            self.claim_check,
        )

    @property
    def order(self) -> tuple[int, int, int, int]:
        """The sort key of rows."""
        return self.ts, self.partition, self.offset, self.seq

    def message(self, topic: str, partition: int) -> Message:
        """The message of the row, with the parts that are kept."""
        return Message(
            topic=topic, partition=partition, offset=self.offset, key=self.message_key, value=self.message_value
        )


def open_row(partition: int, message: Message, seq: int, event: Envelope, *, whole: bool) -> OpenRow:
    """A row for the files. ``whole``: keep its message too, as its schema may have to be read from it."""
    return OpenRow(
        event.commit_ts,
        partition,
        message.offset,
        seq,
        event.op,
        event.schema,
        event.table,
        event.before,
        event.after,
        event.table_id,
        event.schema_key,
        event.partial,
        event.key,
        event.checksum,
        event.claim_check,
        message.key if whole else None,
        message.value if whole else None,
    )


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """The place of some rows in a file."""

    file: str
    at: int
    size: int
    low: int
    """The smallest commit_ts."""
    high: int
    rows: int
    names: tuple[Name, ...]


class Messages(msgspec.Struct, frozen=True, array_like=True):
    """The place of some messages in a file. They are for one partition and in order."""

    topic: str
    partition: int
    file: str
    at: int
    size: int
    count: int


class BlockFile:
    """A new file of blocks; a context manager. Errors of the operating system become EnvironmentFault."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._encode: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
        self.size = 0

    def __enter__(self) -> Self:
        try:
            self._file: IO[bytes] = self.path.open("wb")
        except OSError as error:
            raise EnvironmentFault(f"{self.path}: {os_reason(error)}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, block: object) -> tuple[int, int]:
        """Write a block. Returns: its offset and size."""
        data, at = self._encode(block), self.size
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise EnvironmentFault(f"{self.path}: {os_reason(error)}") from error
        self.size += len(data)
        return at, len(data)


class RowFile:
    """A new file of rows, in chunks."""

    def __init__(self, file: BlockFile) -> None:
        self._file = file
        self._rows: list[OpenRow] = []
        self._bytes = 0
        self.chunks: list[Chunk] = []

    def add(self, row: OpenRow) -> None:
        """Write a row."""
        self._rows.append(row)
        self._bytes += len(row.after or b"") + len(row.before or b"") + len(row.message_value or b"")
        if len(self._rows) >= CHUNK_ROWS or self._bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        rows = self._rows
        if not rows:
            return
        names = {(row.schema, row.table, row.schema_key): None for row in rows}
        stamps = [row.ts for row in rows]
        at, size = self._file.write(rows)
        self.chunks.append(Chunk(str(self._file.path), at, size, min(stamps), max(stamps), len(rows), tuple(names)))
        self._rows, self._bytes = [], 0


_ROWS = msgspec.msgpack.Decoder(list[OpenRow])
_MESSAGES = msgspec.msgpack.Decoder(list[tuple[bytes | None, bytes | None]])


def read_rows_of(chunks: Sequence[Chunk], above: int, upto: int) -> list[OpenRow]:
    """The rows of chunks with a commit_ts in (above, upto], in their order. Raises: EnvironmentFault"""
    rows = []
    for chunk in chunks:
        found = _ROWS.decode(_block(chunk.file, chunk.at, chunk.size))
        if chunk.low > above and chunk.high <= upto:
            rows += found
        else:
            rows += [row for row in found if above < row.ts <= upto]
    rows.sort(key=lambda row: row.order)
    return rows


def read_messages_of(of: Messages) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values. Raises: EnvironmentFault"""
    yield from _MESSAGES.decode(_block(of.file, of.at, of.size))


def _block(path: str, at: int, size: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            file.seek(at)
            return file.read(size)
    except OSError as error:
        raise EnvironmentFault(f"{path}: {os_reason(error)}") from error
