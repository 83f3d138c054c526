"""How Simple in Avro writes a value of each MySQL type, both ways.

A value is a union of null, long, float, double, string, bytes, Timestamp (location string, value string) and
UnsignedBigint (value long). Two things are not as the protocol's document has them, and both forms are read: every
BIGINT UNSIGNED is sent as an UnsignedBigint, whose long wraps above 2**63-1 (document: a long, and a string above it);
TIMESTAMP is sent as a Timestamp with its time zone (document: a string). BIT and SET above 2**63-1 wrap too; the new
architecture sends BIT as a string of digits.
Source: the Simple protocol document, table of mysqlType and Avro type; the vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import canonical_float, canonical_integer, fsp, is_bytes, local_timestamp, utc_timestamp
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.wire.avro_binary import (
    DOUBLE,
    FLOAT,
    MASK_64,
    Reader,
    read_bytes,
    read_fixed,
    read_long,
    read_number,
    read_text,
    read_text_or_bytes,
    wrapped,
    write_bytes,
    write_long,
    write_text,
)

NULL, LONG, FLOATS, DOUBLES, STRING, BYTES, TIMESTAMP, UNSIGNED = range(0, 16, 2)
"""What stands before a value: its place in the union, doubled."""
BRANCHES = ("null", "long", "float", "double", "string", "bytes", "Timestamp", "UnsignedBigint")
Write: TypeAlias = Callable[[Any], bytes]


class Form(NamedTuple):
    """How a type is sent: the union's branches that it may come in, and how it is written."""

    read: Callable[[ColumnType, ReadOptions], Mapping[int, Reader[Value]]]
    write: Callable[[ColumnType, str], Write]


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

    return {TIMESTAMP: read, STRING: read_local}


def branch_byte(code: int) -> bytes:
    """What stands before a value of a branch."""
    return code.to_bytes(1, "little")


def _write_long(text: str) -> bytes:
    return branch_byte(LONG) + write_long(wrapped(int(text)))


def _write_unsigned(text: str) -> bytes:
    return branch_byte(UNSIGNED) + write_long(wrapped(int(text)))


def _write_text(text: str | bytes) -> bytes:
    return branch_byte(STRING) + write_text(text)


def _write_bytes(raw: bytes) -> bytes:
    return branch_byte(BYTES) + write_bytes(raw)


def _timestamp_writer(zone: str) -> Write:
    head = branch_byte(TIMESTAMP) + write_text(zone)
    return lambda text: head + write_text(local_timestamp(text, zone))


def _form(readers: Mapping[int, Reader[Any]], write: Write) -> Form:
    return Form(lambda *_: readers, lambda *_: write)


_UNSIGNED_BIGINT = _form({UNSIGNED: _read_unsigned, LONG: _read_unsigned, STRING: _read_digits}, _write_unsigned)
_SIGNED_NUMBER = _form({LONG: read_number}, _write_long)
_BIT = _form({LONG: _read_unsigned, STRING: _read_digits}, _write_long)
_INDEX = _form({LONG: _read_unsigned}, _write_long)
_PLAIN = _form({STRING: read_text}, _write_text)
_TEXT = _form({STRING: read_text_or_bytes}, _write_text)
_RAW = _form({BYTES: read_bytes}, _write_bytes)
_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), _SIGNED_NUMBER),
    "bit": _BIT,
    **dict.fromkeys(("enum", "set"), _INDEX),
    **dict.fromkeys(("decimal", "date", "datetime", "time", "json", "vector"), _PLAIN),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "var_string"), _TEXT),
    "float": _form({FLOATS: _read_float}, lambda text: branch_byte(FLOATS) + FLOAT.pack(float(text))),
    "double": _form({DOUBLES: _read_double}, lambda text: branch_byte(DOUBLES) + DOUBLE.pack(float(text))),
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
