"""How the Open protocol writes and reads a value of each MySQL type.

A column of an image is ``{"t": type code, "h": handle key, "f": flags, "v": value}``. Numbers are JSON numbers (BIT,
ENUM and SET too), DECIMAL, times and JSON are text, CHAR and VARCHAR text, BINARY and VARBINARY text quoted as Go
quotes it, TEXT and BLOB base64. Source: the Open protocol document, "Column", and ``open`` in the vectors' notes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import canonical_float, is_bytes, local_timestamp, utc_timestamp
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.shared.go_text import go_float, go_quote, go_unquote, integer, quote
from ticdc_spark.protocols.shared.json_rows import Cell
from ticdc_spark.protocols.shared.json_writer import Write

Read: TypeAlias = Callable[[Any], Value]

BINARY, HANDLE, GENERATED, PRIMARY, UNIQUE, MULTIPLE, NULLABLE, UNSIGNED = (1 << bit for bit in range(8))
"""Flags of a column; the document's "Flag"."""
NULL_CODE = 6
"""The type code of a bare NULL, which any column may have."""


class IntCell(msgspec.Struct, gc=False):
    """A column whose value is an integer."""

    t: int
    v: int | None
    f: int = -1


class FloatCell(msgspec.Struct, gc=False):
    """A column whose value is a FLOAT or DOUBLE. It is kept as text, as ``-0`` is no integer."""

    t: int
    v: msgspec.Raw
    f: int = -1


class TextCell(msgspec.Struct, gc=False):
    """A column whose value is plain or quoted text."""

    t: int
    v: str | None
    f: int = -1


class BytesCell(msgspec.Struct, gc=False):
    """A column whose value is base64."""

    t: int
    v: bytes | None
    f: int = -1


class TypeCodec(NamedTuple):
    """A MySQL type on the wire."""

    code: int
    """The type code that is written."""
    codes: frozenset[int]
    """The type codes that are read: of all types with the same codec."""
    wire: type[msgspec.Struct]
    read: Callable[[ColumnType, ReadOptions, frozenset[int]], Read]
    write: Callable[[ColumnType, str], Write]
    """Arguments: the column's type and the time zone."""


def _checked(codes: frozenset[int], column_type: ColumnType, cell: Any) -> None:
    if cell.t not in codes:
        raise MessageError(f"type code {cell.t} is not one of {column_type.name}: the schema is another version's")


def _read_int(column_type: ColumnType, _: ReadOptions, codes: frozenset[int]) -> Read:
    def read(cell: IntCell) -> Value:
        if cell.t not in codes:
            _checked(codes, column_type, cell)
        return None if cell.v is None else str(cell.v)

    return read


def _read_float(column_type: ColumnType, _: ReadOptions, codes: frozenset[int]) -> Read:
    bits = 32 if column_type.name == "float" else 64

    def read(cell: FloatCell) -> Value:
        if cell.t not in codes:
            _checked(codes, column_type, cell)
        text = bytes(cell.v).decode()
        return None if text == "null" else canonical_float(text, bits)

    return read


def _read_plain(column_type: ColumnType, _: ReadOptions, codes: frozenset[int]) -> Read:
    def read(cell: TextCell) -> Value:
        if cell.t not in codes:
            _checked(codes, column_type, cell)
        return cell.v

    return read


def _read_json(column_type: ColumnType, options: ReadOptions, codes: frozenset[int]) -> Read:
    plain = _read_plain(column_type, options, codes)

    def read(cell: TextCell) -> Value:
        if cell.t == _LARGE["longtext"]:  # MariaDB's, which calls it JSON only in DDL
            return None if cell.v is None else _text_or_bytes(_base64(cell.v), False)
        return plain(cell)

    return read


def _read_timestamp(column_type: ColumnType, options: ReadOptions, codes: frozenset[int]) -> Read:
    zone, ambiguous = options.source_timezone, options.ambiguous_timestamp

    def read(cell: TextCell) -> Value:
        if cell.t not in codes:
            _checked(codes, column_type, cell)
        if cell.v is None:
            return None
        if zone is None:
            raise MessageError("TIMESTAMP without a time zone: source-timezone must name the changefeed's")
        # the text itself has as many digits as the column
        return utc_timestamp(cell.v, zone, max(len(cell.v) - 20, 0), ambiguous)

    return read


def _text_or_bytes(raw: bytes, binary: bool) -> Value:
    if binary:
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _read_string(column_type: ColumnType, _: ReadOptions, codes: frozenset[int]) -> Read:
    binary = is_bytes(column_type)

    def read(cell: TextCell) -> Value:
        if cell.t not in codes:
            _checked(codes, column_type, cell)
        text = cell.v
        if text is None:
            return None
        if cell.f < 0:  # TiCDC before flags (4.0) sent these in base64, as the document's examples do
            return _text_or_bytes(_base64(text), binary)
        # the new architecture sends stale flags: their binary bit may be missing, but is never there for text
        if binary or cell.f & BINARY:
            return _text_or_bytes(go_unquote(text), binary)
        return text

    return read


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageError(f"text without flags is not base64: {text[:40]!r}") from error


def _read_large(column_type: ColumnType, _: ReadOptions, codes: frozenset[int]) -> Read:
    binary = is_bytes(column_type)

    def read(cell: BytesCell) -> Value:
        if cell.t not in codes:
            _checked(codes, column_type, cell)
        return None if cell.v is None else _text_or_bytes(cell.v, binary)

    return read


def _write_plain(*_: object) -> Write:
    return encode_basestring


def _write_int(*_: object) -> Write:
    return integer


def _write_float(*_: object) -> Write:
    return go_float


def _write_timestamp(_: ColumnType, zone: str) -> Write:
    return lambda text: encode_basestring(local_timestamp(text, zone))


def _write_string(column_type: ColumnType, _: str) -> Write:
    return (lambda value: encode_basestring(go_quote(value))) if is_bytes(column_type) else quote


def _write_large(*_: object) -> Write:
    return lambda value: f'"{base64.b64encode(value.encode() if isinstance(value, str) else value).decode()}"'


def _codecs(
    wire: type[msgspec.Struct],
    read: Callable[[ColumnType, ReadOptions, frozenset[int]], Read],
    write: Callable[[ColumnType, str], Write],
    codes: Mapping[str, int],
    *more: int,
) -> dict[str, TypeCodec]:
    readable = frozenset((*codes.values(), *more, NULL_CODE))
    return {name: TypeCodec(code, readable, wire, read, write) for name, code in codes.items()}


_INTEGERS = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 8, "mediumint": 9}
_STRINGS = {"varchar": 15, "varbinary": 15, "char": 254, "binary": 254, "var_string": 253}
_LARGE = {"tinytext": 249, "tinyblob": 249, "mediumtext": 250, "mediumblob": 250}
_LARGE |= {"longtext": 251, "longblob": 251, "text": 252, "blob": 252}

CODECS: Mapping[str, TypeCodec] = {
    **_codecs(IntCell, _read_int, _write_int, _INTEGERS),
    **_codecs(IntCell, _read_int, _write_int, {"year": 13}),
    **_codecs(IntCell, _read_int, _write_int, {"bit": 16}),
    **_codecs(IntCell, _read_int, _write_int, {"enum": 247}),
    **_codecs(IntCell, _read_int, _write_int, {"set": 248}),
    **_codecs(FloatCell, _read_float, _write_float, {"float": 4}),
    **_codecs(FloatCell, _read_float, _write_float, {"double": 5}),
    **_codecs(TextCell, _read_plain, _write_plain, {"decimal": 246}, 0),
    **_codecs(TextCell, _read_plain, _write_plain, {"date": 10}, 14),
    **_codecs(TextCell, _read_plain, _write_plain, {"time": 11}),
    **_codecs(TextCell, _read_plain, _write_plain, {"datetime": 12}),
    **_codecs(TextCell, _read_timestamp, _write_timestamp, {"timestamp": 7}),
    **_codecs(TextCell, _read_json, _write_plain, {"json": 245}),
    **_codecs(TextCell, _read_plain, _write_plain, {"vector": 225}),
    **_codecs(TextCell, _read_string, _write_string, _STRINGS),
    **_codecs(BytesCell, _read_large, _write_large, _LARGE),
}
"""MySQL type → codec. GEOMETRY (255) is not sent."""


def codec_for(column_type: ColumnType) -> TypeCodec:
    """How values of a type are sent.

    Raises: MessageError for a type that rows never carry.
    """
    found = CODECS.get(column_type.name)
    if found is None:
        raise MessageError(f"the Open protocol carries no values of type {column_type.name!r}")
    return found


def cell(column_type: ColumnType, options: ReadOptions) -> Cell:
    """The content of such a column in an image, and how it is read."""
    found = codec_for(column_type)
    return Cell(found.wire, found.read(column_type, options, found.codes))
