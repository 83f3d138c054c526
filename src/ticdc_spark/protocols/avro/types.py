"""How Avro with a schema registry carries each MySQL type: one table for both directions.

A schema describes a type by Avro's type and by the connect parameter ``tidb_type``. Several MySQL types share such a
pair, so a schema is read as the widest of them: ``INT`` is int, ``TEXT`` longtext, DATETIME has six fractional digits,
a DECIMAL sent as a string is DECIMAL(65,30). Values keep the digits that they were sent with.

Source: the Avro protocol document, "Column data format". The vectors differ in two points: FLOAT is Avro's float, and
defaults of bytes are base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import (
    canonical_float,
    enum_name,
    float_text,
    is_bytes,
    local_timestamp,
    parse_type,
    set_mask,
    set_names,
    utc_timestamp,
)
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.shared.avro_reads import read_digits, read_double, read_float, read_unsigned
from ticdc_spark.protocols.shared.go_text import go_float
from ticdc_spark.protocols.shared.member_names import listed, shortened
from ticdc_spark.wire.avro_binary import (
    DOUBLE,
    FLOAT,
    MASK_64,
    Reader,
    read_bytes,
    read_fixed,
    read_number,
    read_text,
    read_text_or_bytes,
    wrapped,
    write_bytes,
    write_long,
    write_text,
)

Read: TypeAlias = Reader[Value]
Write: TypeAlias = Callable[[Any], bytes]
_UNESCAPED_COMMA = re.compile(r"(?<!\\),")


class WireType(NamedTuple):
    """A column's type in a schema, without null."""

    tidb: str
    avro: str
    length: int | None = None
    """Length of a BIT."""
    allowed: str | None = None
    """Members of an ENUM or SET, joined by commas. A comma in a member has a backslash before it."""
    precision: int | None = None
    scale: int | None = None

    @property
    def elements(self) -> tuple[str, ...]:
        """Members of an ENUM or SET. A member that ends in a backslash looks like an escaped comma."""
        if self.allowed is None:
            return ()
        return tuple(member.replace("\\,", ",") for member in _UNESCAPED_COMMA.split(self.allowed))


class TypeCodec(NamedTuple):
    """How a wire type is read, written, given a default, and converted to a MySQL type."""

    column: Callable[[WireType], ColumnType]
    read: Callable[[WireType, ReadOptions], Read]
    write: Callable[[ColumnType, str], Write]
    default: Callable[[ColumnType, str | int], Any] | None
    """Column default → the schema's JSON. ``None``: the schema has no default."""
    read_default: Callable[[Any], str | int]


def _read_wide_float(data: bytes, at: int) -> tuple[Value, int]:
    number, at = read_fixed(data, at, DOUBLE)
    return float_text(number, 32), at


def _read_bit(data: bytes, at: int) -> tuple[Value, int]:
    raw, at = read_bytes(data, at)
    return str(int.from_bytes(raw, "big")), at


def _decimal_reader(wire: WireType, _: ReadOptions) -> Read:
    scale = wire.scale or 0

    def read(data: bytes, at: int) -> tuple[Value, int]:
        raw, at = read_bytes(data, at)
        if len(raw) > 32:
            raise MessageError(f"a DECIMAL of {len(raw)} bytes; 65 digits need 28")
        number = int.from_bytes(raw, "big", signed=True)
        if not scale:
            return str(number), at
        digits = str(abs(number)).rjust(scale + 1, "0")
        return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}", at

    return read


def _timestamp_reader(_: WireType, options: ReadOptions) -> Read:
    zone, ambiguous = options.source_timezone, options.ambiguous_timestamp

    def read(data: bytes, at: int) -> tuple[Value, int]:
        text, at = read_text(data, at)
        if zone is None:
            raise MessageError("TIMESTAMP without a time zone: source-timezone must name the changefeed's")
        return utc_timestamp(text, zone, len(text.partition(".")[2]), ambiguous), at

    return read


def _enum_reader(wire: WireType, _: ReadOptions) -> Read:
    indexes = {"": "0", **{name: str(at) for at, name in reversed([*enumerate(wire.elements, 1)])}}

    def read(data: bytes, at: int) -> tuple[Value, int]:
        name, at = read_text(data, at)
        index = indexes.get(name) or indexes.get(shortened(name))
        if index is None:
            raise MessageError(f"{name!r} is no member of ENUM {wire.elements}")
        return index, at

    return read


def _set_reader(wire: WireType, _: ReadOptions) -> Read:
    column_type = ColumnType(name="set", elements=wire.elements)

    def read(data: bytes, at: int) -> tuple[Value, int]:
        names, at = read_text(data, at)
        return set_mask(column_type, shortened(names)), at

    return read


def _always(reader: Read) -> Callable[[WireType, ReadOptions], Read]:
    return lambda *_: reader


def _long(column_type: ColumnType, zone: str) -> Write:
    return lambda text: write_long(wrapped(int(text)))


def _text(column_type: ColumnType, zone: str) -> Write:
    return write_text


def _packed(number: Any) -> Callable[[ColumnType, str], Write]:
    return lambda *_: lambda text: number.pack(float(text))


def _shortest(number: int) -> bytes:
    return number.to_bytes(max((number.bit_length() + 7) // 8, 1), "big")


def decimal_writer(column_type: ColumnType, _: str) -> Write:
    """A DECIMAL as the shortest two's complement of its unscaled number, big-endian."""
    scale = column_type.decimal or 0

    def write(text: str) -> bytes:
        whole, _, digits = text.partition(".")
        if len(digits) > scale:
            raise MessageError(f"DECIMAL {text} has more than {scale} digits after its point")
        number = int(whole + digits.ljust(scale, "0"))
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return write_bytes(number.to_bytes(size, "big", signed=True))

    return write


def _timestamp_writer(_: ColumnType, zone: str) -> Write:
    return lambda text: write_text(local_timestamp(text, zone))


def _enum_writer(column_type: ColumnType, _: str) -> Write:
    def write(index: str) -> bytes:
        if index == "0":
            raise MessageError("ENUM index 0 has no name to send in Avro")
        return write_text(enum_name(column_type, index))

    return write


def _set_writer(column_type: ColumnType, _: str) -> Write:
    return lambda mask: write_text(set_names(column_type, mask))


def _column(text: str) -> Callable[[WireType], ColumnType]:
    found = parse_type(text)
    return lambda _: found


def _decimal_column(wire: WireType) -> ColumnType:
    length, scale = (65, 30) if wire.precision is None else (wire.precision, wire.scale or 0)
    return ColumnType(name="decimal", length=length, decimal=scale, charset="binary", collate="binary")


def _bit_column(wire: WireType) -> ColumnType:
    return ColumnType(name="bit", length=wire.length or 64, unsigned=True, charset="binary", collate="binary")


def _members(name: str) -> Callable[[WireType], ColumnType]:
    return lambda wire: ColumnType(name=name, elements=wire.elements)


def _number_default(_: ColumnType, default: str | int) -> Any:
    return wrapped(int(default))


def _double_default(_: ColumnType, default: str | int) -> Any:
    return msgspec.Raw(go_float(canonical_float(str(default), 64)).encode())


def _float_default(_: ColumnType, default: str | int) -> Any:
    """The value of 32 bits, with all digits of its 64 bits."""
    (value,) = FLOAT.unpack(FLOAT.pack(float(default)))
    return msgspec.Raw(go_float(repr(value)).encode())


def _text_default(_: ColumnType, default: str | int) -> Any:
    return str(default)


def _read_float_default(default: Any) -> str | int:
    return canonical_float(str(default), 32)


def _bytes_default(_: ColumnType, default: str | int) -> Any:
    raw = _shortest(default) if isinstance(default, int) else default.encode()
    return base64.b64encode(raw).decode()


def _same(default: Any) -> str | int:
    return str(default)


def _unsigned_default(default: Any) -> str | int:
    return str(int(default) & MASK_64) if isinstance(default, int) else str(default)


def _unbase64(default: Any) -> bytes:
    try:
        return base64.b64decode(str(default), validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageError(f"the default {default!r} of bytes is not base64") from error


def _read_bit_default(default: Any) -> str | int:
    return int.from_bytes(_unbase64(default), "big")


def _read_bytes_default(default: Any) -> str | int:
    return _unbase64(default).decode("utf-8", "replace")


_INTEGER = (_always(read_number), _long, _number_default, _same)
_TEXT = (_always(read_text), _text, _text_default, _same)
_CODECS: Mapping[tuple[str, str], TypeCodec] = {
    ("INT", "int"): TypeCodec(_column("int"), *_INTEGER),
    ("INT UNSIGNED", "int"): TypeCodec(_column("int unsigned"), *_INTEGER),
    ("INT UNSIGNED", "long"): TypeCodec(_column("int unsigned"), *_INTEGER),
    ("BIGINT", "long"): TypeCodec(_column("bigint"), *_INTEGER),
    ("BIGINT UNSIGNED", "long"): TypeCodec(
        _column("bigint unsigned"), _always(read_unsigned), _long, _number_default, _unsigned_default
    ),
    ("BIGINT UNSIGNED", "string"): TypeCodec(
        _column("bigint unsigned"), _always(read_digits), _text, _text_default, _same
    ),
    ("YEAR", "int"): TypeCodec(_column("year"), *_INTEGER),
    ("FLOAT", "float"): TypeCodec(
        _column("float"), _always(read_float), _packed(FLOAT), _float_default, _read_float_default
    ),
    ("FLOAT", "double"): TypeCodec(
        _column("float"), _always(_read_wide_float), _packed(DOUBLE), _double_default, _same
    ),
    ("DOUBLE", "double"): TypeCodec(_column("double"), _always(read_double), _packed(DOUBLE), _double_default, _same),
    ("DECIMAL", "bytes"): TypeCodec(_decimal_column, _decimal_reader, decimal_writer, None, _same),
    ("DECIMAL", "string"): TypeCodec(_decimal_column, _always(read_text), _text, _text_default, _same),
    ("BIT", "bytes"): TypeCodec(
        _bit_column,
        _always(_read_bit),
        lambda *_: lambda text: write_bytes(_shortest(int(text))),
        _bytes_default,
        _read_bit_default,
    ),
    ("TEXT", "string"): TypeCodec(
        _column("longtext charset utf8mb4"), _always(read_text_or_bytes), _text, _text_default, _same
    ),
    ("BLOB", "bytes"): TypeCodec(
        _column("longblob"), _always(read_bytes), lambda *_: write_bytes, _bytes_default, _read_bytes_default
    ),
    ("DATE", "string"): TypeCodec(_column("date"), *_TEXT),
    ("DATETIME", "string"): TypeCodec(_column("datetime(6)"), *_TEXT),
    ("TIME", "string"): TypeCodec(_column("time(6)"), *_TEXT),
    ("TIMESTAMP", "string"): TypeCodec(
        _column("timestamp(6)"), _timestamp_reader, _timestamp_writer, _text_default, _same
    ),
    ("ENUM", "string"): TypeCodec(_members("enum"), _enum_reader, _enum_writer, _text_default, _same),
    ("SET", "string"): TypeCodec(_members("set"), _set_reader, _set_writer, _text_default, _same),
    ("JSON", "string"): TypeCodec(_column("json"), *_TEXT),
    ("TiDBVECTORFloat32", "string"): TypeCodec(_column("vector"), *_TEXT),
}
_PAIRS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int"), ("INT", "int")),
    "bigint": ("BIGINT", "long"),
    "year": ("YEAR", "int"),
    "float": ("FLOAT", "float"),
    "double": ("DOUBLE", "double"),
    "bit": ("BIT", "bytes"),
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "var_string"), ("TEXT", "string")
    ),
    **{name: (name.upper(), "string") for name in ("date", "datetime", "timestamp", "time", "enum", "set", "json")},
    "vector": ("TiDBVECTORFloat32", "string"),
}
"""MySQL type → ``tidb_type`` and Avro type. ``wire_type`` has the exceptions."""


def codec_for(wire: WireType) -> TypeCodec:
    """How values of a schema's type are read and written.

    Raises: MessageError for a type that TiCDC does not register.
    """
    found = _CODECS.get((wire.tidb, wire.avro))
    if found is None:
        raise MessageError(
            f"a schema with tidb_type {wire.tidb!r} as Avro {wire.avro!r}, which TiCDC does not register"
        )
    return found


def wire_type(column_type: ColumnType, *, decimal_string: bool, unsigned_string: bool) -> WireType:
    """The type that TiCDC registers for a column.

    Raises: MessageError for a type that rows never carry.
    """
    name = column_type.name
    if is_bytes(column_type):
        return WireType("BLOB", "bytes")
    if name == "decimal":
        if decimal_string:
            return WireType("DECIMAL", "string")
        return WireType("DECIMAL", "bytes", precision=column_type.length or 10, scale=column_type.decimal or 0)
    if name not in _PAIRS:
        raise MessageError(f"Avro carries no values of type {name!r}")
    tidb, avro = _PAIRS[name]
    if column_type.unsigned and tidb in ("INT", "BIGINT"):
        wide = "string" if tidb == "BIGINT" and unsigned_string else "long" if name in ("int", "bigint") else "int"
        return WireType(f"{tidb} UNSIGNED", wide)
    if name == "bit":
        return WireType(tidb, avro, length=column_type.length or 1)
    if name in ("enum", "set"):
        return WireType(tidb, avro, allowed=listed(column_type.elements))
    return WireType(tidb, avro)


def raw_default(value: Any) -> msgspec.Raw:
    """A default for the schema's text."""
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(value))
