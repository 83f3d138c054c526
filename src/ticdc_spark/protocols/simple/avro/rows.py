"""Reads and writes row images of Simple in Avro: maps of a column's name to its value.

Both are compiled once per table from ``simple.avro.types``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Row, Table, Value
from ticdc_spark.protocols.base import ReadOptions, RowReader
from ticdc_spark.protocols.shared.avro_images import MISSING, image_reader
from ticdc_spark.protocols.simple.avro.columns import columns_reader
from ticdc_spark.protocols.simple.avro.types import (
    BRANCHES,
    BYTES,
    DOUBLES,
    FLOATS,
    IMAGE,
    LONG,
    NULL,
    STRING,
    TIMESTAMP,
    UNSIGNED,
    branch_byte,
    codec_for,
)
from ticdc_spark.wire.avro_binary import (
    DOUBLE,
    FLOAT,
    SHORT,
    Reader,
    read_block,
    read_bytes,
    read_long,
    read_number,
    read_text,
    read_text_or_bytes,
    readable,
    skip_number,
    write_bytes,
    write_long,
    write_text,
)

_TEXT, _NUMBER = 1, 2
_SHAPES: Mapping[Reader[Any], int] = {read_text: _TEXT, read_text_or_bytes: _TEXT, read_number: _NUMBER}
_Readers: TypeAlias = dict[bytes, tuple[int, Mapping[int, Reader[Value]] | None]]
"""Column name → its place and its readers by branch; no readers: it is not wanted."""


def row_reader(table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
    """Compile a reader of images from ``simple.avro.decode.read_message``. See ``simple.rows.row_reader``."""
    readers: _Readers = {
        column.name.encode(): (
            at,
            codec_for(column.type).read(column.type, options) if only is None or column.name in only else None,
        )
        for at, column in enumerate(table.columns)
    }
    quick = _by_head(readers)
    read_other = _other_reader(table, readers, strict=only is None)
    start: Sequence[Any] = [MISSING if only is None or column.name in only else None for column in table.columns]

    def read_image(image: bytes) -> Sequence[Any]:
        cells = [*start]
        if image[0] != 2:
            raise MessageError(f"an image that begins with 0x{image[0]:02x}; Avro's begin with 0x02")
        count, at = read_block(image, 1)
        while count:
            for _ in range(count):
                value_at = at + 2 + (image[at] >> 1)
                found = quick.get(image[at:value_at])
                if found is None:
                    at = read_other(image, at, cells)
                    continue
                place, read, shape = found
                if read is None:
                    cells[place], at = None, value_at
                    continue
                # short text and numbers of one byte, the most common values, without a further call; a text beyond the
                # image's end ends beyond it too, where the next byte is missed
                head = image[value_at]
                if shape == _TEXT and not head & 0x81:
                    at = value_at + 1 + (head >> 1)
                    try:
                        cells[place] = str(image[value_at + 1 : at], "utf-8")
                    except UnicodeDecodeError:
                        cells[place], at = read(image, value_at)
                elif shape == _NUMBER and head < 0x80:
                    cells[place], at = SHORT[head], value_at + 1
                else:
                    cells[place], at = read(image, value_at)
            count, at = read_block(image, at)
        if at != len(image):
            raise MessageError(f"an image with {len(image) - at} bytes behind its end")
        return cells

    reads = [readers[column.name.encode()][1] for column in table.columns]
    return image_reader(table, read_image, columns_reader([*readers], reads, strict=only is None))


def _by_head(readers: _Readers) -> dict[bytes, tuple[int, Reader[Value] | None, int]]:
    """Readers by the bytes before a value: its name, shorter than 64 bytes, and its branch. Null has none."""
    heads: dict[bytes, tuple[int, Reader[Value] | None, int]] = {}
    for name, (place, reads) in readers.items():
        if len(name) < 64 and reads is not None:
            heads[write_bytes(name) + branch_byte(NULL)] = (place, None, 0)
            heads |= {
                write_bytes(name) + branch_byte(code): (place, read, _SHAPES.get(read, 0))
                for code, read in reads.items()
            }
    return heads


def _other_reader(table: Table, readers: _Readers, *, strict: bool) -> Callable[[bytes, int, list[Any]], int]:
    """A reader of a value that is not wanted, has a long name, or is wrong. It returns the place after the value."""

    def read_other(image: bytes, at: int, cells: list[Any]) -> int:
        name, at = read_bytes(image, at)
        place, reads = readers.get(name, (-1, None))
        if place < 0 and strict:
            raise MessageError(f"the table has no column {name!r}")
        if reads is None:
            return skip_value(image, at)
        branch = image[at]
        if branch == NULL:
            cells[place] = None
            return at + 1
        if branch not in reads:
            raise _wrong(table.columns[place], branch, reads)
        cells[place], at = reads[branch](image, at + 1)
        return at

    return read_other


def _wrong(column: Column, branch: int, reads: Mapping[int, Any]) -> MessageError:
    allowed = ", ".join(BRANCHES[code >> 1] for code in sorted({NULL, *reads}))
    sent = BRANCHES[branch >> 1] if branch in range(0, 16, 2) else f"0x{branch:02x}"
    return MessageError(f"column `{column.name}` of type {column.type.name} is sent as {sent}; allowed: {allowed}")


def skip_map(data: bytes, at: int) -> int:
    """The place after a map of values."""
    count, at = read_block(data, at)
    while count:
        for _ in range(count):
            length = data[at]
            at = _skip_bytes(data, at) if length & 0x81 else at + 1 + (length >> 1)
            # short text in place; one beyond the end ends beyond it too, where the next byte is missed
            if data[at] == STRING and not (length := data[at + 1]) & 0x81:
                at += 2 + (length >> 1)
            else:
                at = skip_value(data, at)
        count, at = read_block(data, at)
    return at


def sorted_cells(image: bytes) -> bytes:
    """The cells of an image, sorted, as TiCDC's order is random. A broken image stays unchanged."""
    cells = []
    try:
        with readable():
            count, at = read_block(image, 1)
            while count:
                for _ in range(count):
                    end = skip_value(image, _skip_bytes(image, at))
                    cells.append(image[at:end])
                    at = end
                count, at = read_block(image, at)
    except MessageError:
        return image
    return b"".join(sorted(cells))


def _skip_bytes(data: bytes, at: int) -> int:
    length, at = read_long(data, at)
    if length < 0 or at + length > len(data):
        raise MessageError(f"an Avro length of {length} where {len(data) - at} bytes are left")
    return at + length


def skip_value(data: bytes, at: int) -> int:
    """The place after a value of a map."""
    branch = data[at]
    at += 1
    if branch in (STRING, BYTES):
        return _skip_bytes(data, at)
    if branch in (LONG, UNSIGNED):
        return skip_number(data, at)
    if branch == NULL:
        return at
    if branch == TIMESTAMP:
        return _skip_bytes(data, _skip_bytes(data, at))
    if branch == FLOATS:
        return at + FLOAT.size
    if branch == DOUBLES:
        return at + DOUBLE.size
    raise MessageError(f"a value of Avro union branch byte 0x{branch:02x}; allowed: even, up to 0x0e")


def row_writer(table: Table, zone: str, only: Iterable[str] | None = None) -> Callable[[Row], msgspec.Raw]:
    """Compile a writer of images: the columns of ``table`` (or only the ones in ``only``) in the table's order.

    TiCDC's order is random. See ``simple.rows.row_writer``.
    """
    names = {column.name for column in table.columns}
    wanted = names if only is None else {*only}
    writes = [
        (column.name, name + branch_byte(NULL), codec_for(column.type).write(column.type, zone, name))
        for column in table.columns
        if column.name in wanted
        for name in (write_text(column.name),)
    ]
    starts = [IMAGE + (write_long(count) if count else b"") for count in range(len(writes) + 1)]

    def write_row(row: Row) -> msgspec.Raw:
        parts = [b""]
        for name, null, write in writes:
            value = row.get(name, MISSING)
            if value is None:
                parts.append(null)
            elif value is not MISSING:
                parts.append(write(value))
        count = len(parts) - 1
        if count != len(row) and not row.keys() <= names:
            raise MessageError(f"`{table.schema}`.`{table.name}` has no column {sorted(row.keys() - names)}")
        parts[0] = starts[count]
        parts.append(b"\0")
        return msgspec.Raw(b"".join(parts))

    return write_row
