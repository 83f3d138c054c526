"""Row images of Simple in Avro: maps of a column's name to its value, both ways.

A value is a union of null, long, float, double, string, bytes, Timestamp (location string, value string) and
UnsignedBigint (value long). Two things are not as the protocol's document has them, and both forms are read: every
BIGINT UNSIGNED is sent as an UnsignedBigint, whose long wraps above 2**63-1 (document: a long, and a string above it);
TIMESTAMP is sent as a Timestamp with its time zone (document: a string). BIT and SET above 2**63-1 wrap too; the new
architecture sends BIT as a string of digits.
Source: the Simple protocol document, table of mysqlType and Avro type; the vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Row, Table, Value
from ticdc_spark.mysql import canonical_float, canonical_integer, fsp, is_bytes, local_timestamp, utc_timestamp
from ticdc_spark.protocols.avro_images import MISSING, image_reader
from ticdc_spark.protocols.base import ReadOptions, RowReader
from ticdc_spark.wire.avro_binary import (
    DOUBLE,
    FLOAT,
    MASK_64,
    Reader,
    read_block,
    read_bytes,
    read_fixed,
    read_long,
    read_text,
    read_text_or_bytes,
    wrapped,
    write_bytes,
    write_long,
    write_text,
)

IMAGE = b"\2"
"""How an image begins: the map's place in the union of null and map."""
_NULL, _LONG, _FLOAT, _DOUBLE, _STRING, _BYTES, _TIMESTAMP, _UNSIGNED = range(0, 16, 2)
_BRANCHES = ("null", "long", "float", "double", "string", "bytes", "Timestamp", "UnsignedBigint")
Write: TypeAlias = Callable[[Any], bytes]


class Form(NamedTuple):
    """How a type is sent: the union's branches that it may come in, and how it is written."""

    read: Callable[[ColumnType, ReadOptions], Mapping[int, Reader[Value]]]
    write: Callable[[ColumnType, str], Write]


def _read_signed(data: bytes, at: int) -> tuple[Value, int]:
    number, at = read_long(data, at)
    return str(number), at


def _read_unsigned(data: bytes, at: int) -> tuple[Value, int]:
    number, at = read_long(data, at)
    return str(number & MASK_64), at


def _read_digits(data: bytes, at: int) -> tuple[Value, int]:
    text, at = read_text(data, at)
    return canonical_integer(text), at


def _read_float(data: bytes, at: int) -> tuple[Value, int]:
    number, at = read_fixed(data, at, FLOAT)
    return canonical_float(repr(number), 32), at


def _read_double(data: bytes, at: int) -> tuple[Value, int]:
    number, at = read_fixed(data, at, DOUBLE)
    return canonical_float(repr(number), 64), at


def _timestamp_readers(column_type: ColumnType, options: ReadOptions) -> Mapping[int, Reader[Value]]:
    digits, ambiguous = fsp(column_type), options.ambiguous_timestamp

    def read(data: bytes, at: int) -> tuple[Value, int]:
        zone, at = read_text(data, at)
        text, at = read_text(data, at)
        return utc_timestamp(text, zone, digits, ambiguous), at

    def read_local(data: bytes, at: int) -> tuple[Value, int]:
        text, at = read_text(data, at)
        if options.source_timezone is None:
            raise MessageError("TIMESTAMP without its time zone; source-timezone is not set")
        return utc_timestamp(text, options.source_timezone, digits, ambiguous), at

    return {_TIMESTAMP: read, _STRING: read_local}


def _branch(code: int) -> bytes:
    return code.to_bytes(1, "little")


def _write_long(text: str) -> bytes:
    return _branch(_LONG) + write_long(wrapped(int(text)))


def _write_unsigned(text: str) -> bytes:
    return _branch(_UNSIGNED) + write_long(wrapped(int(text)))


def _write_text(text: str | bytes) -> bytes:
    return _branch(_STRING) + write_text(text)


def _write_bytes(raw: bytes) -> bytes:
    return _branch(_BYTES) + write_bytes(raw)


def _timestamp_writer(zone: str) -> Write:
    head = _branch(_TIMESTAMP) + write_text(zone)
    return lambda text: head + write_text(local_timestamp(text, zone))


def _form(readers: Mapping[int, Reader[Any]], write: Write) -> Form:
    return Form(lambda *_: readers, lambda *_: write)


_UNSIGNED_BIGINT = _form({_UNSIGNED: _read_unsigned, _LONG: _read_unsigned, _STRING: _read_digits}, _write_unsigned)
_SIGNED_NUMBER = _form({_LONG: _read_signed}, _write_long)
_BIT = _form({_LONG: _read_unsigned, _STRING: _read_digits}, _write_long)
_INDEX = _form({_LONG: _read_unsigned}, _write_long)
_PLAIN = _form({_STRING: read_text}, _write_text)
_TEXT = _form({_STRING: read_text_or_bytes}, _write_text)
_RAW = _form({_BYTES: read_bytes}, _write_bytes)
_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), _SIGNED_NUMBER),
    "bit": _BIT,
    **dict.fromkeys(("enum", "set"), _INDEX),
    **dict.fromkeys(("decimal", "date", "datetime", "time", "json", "vector"), _PLAIN),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "var_string"), _TEXT),
    "float": _form({_FLOAT: _read_float}, lambda text: _branch(_FLOAT) + FLOAT.pack(float(text))),
    "double": _form({_DOUBLE: _read_double}, lambda text: _branch(_DOUBLE) + DOUBLE.pack(float(text))),
    "timestamp": Form(_timestamp_readers, lambda _, zone: _timestamp_writer(zone)),
}


def form(column_type: ColumnType) -> Form:
    """How values of a type are sent.

    Raises: MessageError for a type that rows never carry.
    """
    if is_bytes(column_type):
        return _RAW
    if column_type.name == "bigint" and column_type.unsigned:
        return _UNSIGNED_BIGINT
    found = _FORMS.get(column_type.name)
    if found is None:
        raise MessageError(f"Simple carries no values of type {column_type.name!r}")
    return found


def row_reader(table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
    """Compile a reader of images as ``simple_avro.read_message`` gives them. See ``simple_rows.row_reader``."""
    readers: dict[bytes, tuple[int, Mapping[int, Reader[Value]] | None]] = {
        column.name.encode(): (
            at,
            form(column.type).read(column.type, options) if only is None or column.name in only else None,
        )
        for at, column in enumerate(table.columns)
    }
    start: Sequence[Any] = [MISSING if only is None or column.name in only else None for column in table.columns]

    def read_image(image: bytes) -> Sequence[Any]:
        cells = [*start]
        count, at = read_block(image, 1)
        while count:
            for _ in range(count):
                name, at = read_bytes(image, at)
                found = readers.get(name)
                if found is None:
                    if only is None:
                        raise MessageError(f"the table has no column {name!r}")
                    at = skip_value(image, at)
                    continue
                place, reads = found
                branch = image[at]
                if branch == _NULL:
                    at += 1
                    cells[place] = None
                elif reads is None:
                    at = skip_value(image, at)
                else:
                    read = reads.get(branch)
                    if read is None:
                        raise _wrong(table.columns[place], branch, reads)
                    cells[place], at = read(image, at + 1)
            count, at = read_block(image, at)
        if at != len(image):
            raise MessageError(f"an image with {len(image) - at} bytes behind its end")
        return cells

    return image_reader(table, read_image)


def _wrong(column: Column, branch: int, reads: Mapping[int, Any]) -> MessageError:
    allowed = ", ".join(_BRANCHES[code >> 1] for code in sorted({_NULL, *reads}))
    sent = _BRANCHES[branch >> 1] if branch in range(0, 16, 2) else f"0x{branch:02x}"
    return MessageError(f"column `{column.name}` of type {column.type.name} is sent as {sent}; allowed: {allowed}")


def skip_map(data: bytes, at: int) -> int:
    """The place behind a map of values."""
    count, at = read_block(data, at)
    while count:
        for _ in range(count):
            at = skip_value(data, _skip_bytes(data, at))
        count, at = read_block(data, at)
    return at


def _skip_bytes(data: bytes, at: int) -> int:
    length, at = read_long(data, at)
    if length < 0 or at + length > len(data):
        raise MessageError(f"an Avro length of {length} where {len(data) - at} bytes are left")
    return at + length


def skip_value(data: bytes, at: int) -> int:
    """The place behind a value of a map."""
    branch = data[at]
    at += 1
    if branch in (_STRING, _BYTES):
        return _skip_bytes(data, at)
    if branch in (_LONG, _UNSIGNED):
        return read_long(data, at)[1]
    if branch == _NULL:
        return at
    if branch == _TIMESTAMP:
        return _skip_bytes(data, _skip_bytes(data, at))
    if branch == _FLOAT:
        return at + FLOAT.size
    if branch == _DOUBLE:
        return at + DOUBLE.size
    raise MessageError(f"a value of Avro union branch byte 0x{branch:02x}; allowed: even, up to 0x0e")


def row_writer(table: Table, zone: str, only: Iterable[str] | None = None) -> Callable[[Row], msgspec.Raw]:
    """Compile a writer of images: the columns of ``table`` (or of ``only`` these) in the table's order.

    TiCDC's order is random. See ``simple_rows.row_writer``.
    """
    names = {column.name for column in table.columns}
    wanted = names if only is None else {*only}
    writes = [
        (column.name, write_text(column.name), form(column.type).write(column.type, zone))
        for column in table.columns
        if column.name in wanted
    ]

    def write_row(row: Row) -> msgspec.Raw:
        if not row.keys() <= names:
            raise MessageError(f"`{table.schema}`.`{table.name}` has no column {sorted(row.keys() - names)}")
        parts = []
        for name, head, write in writes:
            if name in row:
                value = row[name]
                parts.append(head + b"\0" if value is None else head + write(value))
        return msgspec.Raw(IMAGE + (write_long(len(parts)) if parts else b"") + b"".join(parts) + b"\0")

    return write_row
