"""How Simple in Avro writes and reads a value of each MySQL type.

A value is a union of null, long, float, double, string, bytes, Timestamp (location string, value string) and
UnsignedBigint (value long). Two types differ from the protocol's document, and both forms are read:

- Every BIGINT UNSIGNED is sent as an UnsignedBigint, whose long wraps above 2**63-1. Document: a long, and a string
  above it.
- TIMESTAMP is sent as a Timestamp with its time zone. Document: a string.

BIT and SET above 2**63-1 wrap too. The new architecture sends BIT as a string of digits.

Source: the Simple protocol document, table of mysqlType and Avro type; the vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import fsp, is_bytes, local_timestamp, utc_timestamp
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.shared.avro_reads import read_digits, read_double, read_float, read_unsigned
from ticdc_spark.wire.avro_binary import (
    DOUBLE,
    FLOAT,
    Reader,
    read_bytes,
    read_number,
    read_text,
    read_text_or_bytes,
    wrapped,
    write_bytes,
    write_long,
    write_text,
)

NULL, LONG, FLOATS, DOUBLES, STRING, BYTES, TIMESTAMP, UNSIGNED = range(0, 16, 2)
"""The byte before a value: its place in the union, doubled."""
IMAGE = b"\2"
"""First byte of an image: the map's place in the union of null and map."""
BRANCHES = ("null", "long", "float", "double", "string", "bytes", "Timestamp", "UnsignedBigint")
SHORT_LENGTHS = 64
"""Text shorter than this has a length of one byte."""
Write: TypeAlias = Callable[[Any], bytes]


class TypeCodec(NamedTuple):
    """How a type is sent: the union's branches that it may have, and how it is written."""

    read: Callable[[ColumnType, ReadOptions], Mapping[int, Reader[Value]]]
    write: Callable[[ColumnType, str, bytes], Write]
    """Arguments: a type, a time zone, and the bytes before the value's branch, which are written too."""


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
    """The byte before a value of a branch."""
    return code.to_bytes(1, "little")


def _long_writer(head: bytes) -> Write:
    start = head + branch_byte(LONG)
    return lambda text: start + write_long(int(text))


def _wrapped_writer(head: bytes, branch: int = LONG) -> Write:
    start = head + branch_byte(branch)
    return lambda text: start + write_long(wrapped(int(text)))


def _unsigned_writer(head: bytes) -> Write:
    return _wrapped_writer(head, UNSIGNED)


def _text_writer(head: bytes) -> Write:
    write = _after(head + branch_byte(STRING))
    return lambda text: write(text.encode() if isinstance(text, str) else text)


def _after(start: bytes) -> Callable[[bytes], bytes]:
    """A writer of ``start``, then the length of some bytes, then the bytes."""
    starts = tuple(start + write_long(length) for length in range(SHORT_LENGTHS))

    def write(raw: bytes) -> bytes:
        length = len(raw)
        return starts[length] + raw if length < SHORT_LENGTHS else start + write_bytes(raw)

    return write


def _bytes_writer(head: bytes) -> Write:
    return _after(head + branch_byte(BYTES))


def _timestamp_writer(head: bytes, zone: str) -> Write:
    write = _after(head + branch_byte(TIMESTAMP) + write_text(zone))
    return lambda text: write(local_timestamp(text, zone).encode())


def _fixed_writer(branch: int, packed: Struct) -> Callable[[bytes], Write]:
    def writer(head: bytes) -> Write:
        start, pack = head + branch_byte(branch), packed.pack
        return lambda text: start + pack(float(text))

    return writer


def _codec(readers: Mapping[int, Reader[Any]], writer: Callable[[bytes], Write]) -> TypeCodec:
    return TypeCodec(lambda *_: readers, lambda _, _zone, head: writer(head))


_UNSIGNED_BIGINT = _codec({UNSIGNED: read_unsigned, LONG: read_unsigned, STRING: read_digits}, _unsigned_writer)
_SIGNED_NUMBER = _codec({LONG: read_number}, _long_writer)
_BIT = _codec({LONG: read_unsigned, STRING: read_digits}, _wrapped_writer)
_INDEX = _codec({LONG: read_unsigned}, _wrapped_writer)
_PLAIN = _codec({STRING: read_text}, _text_writer)
_TEXT = _codec({STRING: read_text_or_bytes}, _text_writer)
_RAW = _codec({BYTES: read_bytes}, _bytes_writer)
_CODECS: Mapping[str, TypeCodec] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), _SIGNED_NUMBER),
    "bit": _BIT,
    **dict.fromkeys(("enum", "set"), _INDEX),
    **dict.fromkeys(("decimal", "date", "datetime", "time", "json", "vector"), _PLAIN),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "var_string"), _TEXT),
    "float": _codec({FLOATS: read_float}, _fixed_writer(FLOATS, FLOAT)),
    "double": _codec({DOUBLES: read_double}, _fixed_writer(DOUBLES, DOUBLE)),
    "timestamp": TypeCodec(_timestamp_readers, lambda _, zone, head: _timestamp_writer(head, zone)),
}


def codec_for(column_type: ColumnType) -> TypeCodec:
    """How values of a type are sent.

    Raises: MessageError for a type that rows never carry.
    """
    if is_bytes(column_type):
        return _RAW
    if column_type.name == "bigint" and column_type.unsigned:
        return _UNSIGNED_BIGINT
    found = _CODECS.get(column_type.name)
    if found is None:
        raise MessageError(f"Simple carries no values of type {column_type.name!r}")
    return found
