"""How Debezium's JSON is written: the text of each value, and its Kafka Connect type in the schema block.

Every value is written as text, as a row is a template with places for its values. Source: ``debezium`` in the vectors'
notes, and the vectors.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeAlias

from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType
from ticdc_spark.protocols.shared.go_text import decimal_float, integer
from ticdc_spark.protocols.shared.member_names import listed
from ticdc_spark.wire.avro_binary import wrapped

Write: TypeAlias = Callable[[Any], str]
"""Canonical value (never ``None``) → JSON."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  DATETIME has no zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
EPOCH = '"1970-01-01T00:00:00Z"'
"""TiCDC writes it for a zero TIMESTAMP, and as the default of one that is not known."""
_MILLI, _MICRO = timedelta(milliseconds=1), timedelta(microseconds=1)
_MILLIS_FSP = 3
"""DATETIME with up to this many fractional digits is in milliseconds, with more in microseconds."""
_FLOAT_DIGITS = 15
"""A decimal of up to this many digits is its double's shortest text."""
_PLAIN_SCALE = 6
"""With more digits after the point, a double may have an exponent."""
_SETS_KEPT = 4096
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_LONG = {r"\b": r"\u0008", r"\f": r"\u000c"}
_BAD_BYTE = re.compile("[\udc80-\udcff]")


def quote(text: str) -> str:
    """A JSON string as TiCDC writes it: without HTML escapes, and without the short forms of two control characters."""
    json = encode_basestring(text)
    return _without_short(json) if "\\" in json else json


def _without_short(json: str) -> str:
    return _ESCAPE.sub(_long, json) if "\\b" in json or "\\f" in json else json


def _long(found: re.Match[str]) -> str:
    return _LONG.get(found[0], found[0])


def base64(value: bytes) -> str:
    """Bytes as a JSON string."""
    return f'"{b64encode(value).decode()}"'


class Connect(NamedTuple):
    """A Kafka Connect type."""

    type: str
    name: str = ""
    version: int | None = 1
    """Only a type with a name has one."""
    parameter: tuple[str, str] | None = None


Connects: TypeAlias = Callable[[ColumnType], Connect]


def plain(kind: str, name: str = "", *, unsigned: str = "", version: int | None = 1) -> Connects:
    """The same type for every column of a MySQL type, except unsigned ones."""
    of_type = Connect(kind, name, version)
    of_unsigned = Connect(unsigned or kind, name, version)
    return lambda column_type: of_unsigned if column_type.unsigned else of_type


def connect_float(column_type: ColumnType) -> Connect:
    """FLOAT(M,D) is a double."""
    return Connect("float" if column_type.decimal is None else "double")


def connect_bit(column_type: ColumnType) -> Connect:
    """BIT(1) is a boolean, the others are bits."""
    length = column_type.length or 1
    return Connect("boolean") if length == 1 else _with("bytes", "io.debezium.data.Bits", "length", str(length))


def connect_datetime(column_type: ColumnType) -> Connect:
    """Milliseconds or microseconds."""
    millis = mysql.fsp(column_type) <= _MILLIS_FSP
    return Connect("int64", f"io.debezium.time.{'Timestamp' if millis else 'MicroTimestamp'}")


def connect_enum(column_type: ColumnType) -> Connect:
    """Its members."""
    return _with("string", "io.debezium.data.Enum", "allowed", listed(column_type.elements))


def connect_set(column_type: ColumnType) -> Connect:
    """Members, which have no commas."""
    return _with("string", "io.debezium.data.EnumSet", "allowed", ",".join(column_type.elements))


def _with(kind: str, name: str, parameter: str, value: str) -> Connect:
    return Connect(kind, name, 1, (parameter, value))


def write_integer(column_type: ColumnType, nullable: bool) -> Write:
    """The number. A BIGINT UNSIGNED from 2^63 on becomes negative, as the type is int64."""
    if column_type.name == "bigint" and column_type.unsigned:
        return _wrapped
    return integer


def _wrapped(text: str) -> str:
    return str(wrapped(int(integer(text))))


def double(text: str) -> str:
    """A double as TiCDC writes it: with an exponent of two digits or more below 1e-6 and from 1e21 on."""
    short = repr(float(text))
    if "e" in short and 1e-6 <= abs(float(text)) < 1e21:
        return format(Decimal(short), "f")
    return short.removesuffix(".0")


def write_float(column_type: ColumnType, nullable: bool) -> Write:
    """A float: the shortest text of its 32 bits, or of its 64."""
    return lambda text: decimal_float(text) or double(mysql.canonical_float(text, 64))


def write_decimal(column_type: ColumnType, nullable: bool) -> Write:
    """A double."""
    if (column_type.decimal or 0) > _PLAIN_SCALE:
        return double

    def write(text: str) -> str:
        if len(text) > _FLOAT_DIGITS:
            return double(text)
        return text.rstrip("0").rstrip(".") if "." in text else text

    return write


def write_bit(column_type: ColumnType, nullable: bool) -> Write:
    """A boolean, or base64 of little-endian bytes."""
    length = column_type.length or 1
    size = (length + 7) // 8

    def write(text: str) -> str:
        number = int(integer(text))
        if number >> length:
            # a message without a schema does not have the length
            raise MessageError(f"{text} has more than {length} bits")
        return base64(number.to_bytes(size, "little")) if length > 1 else "true" if number else "false"

    return write


def _years(text: str) -> str:
    """Years below 70 become 20xx, those below 100 19xx."""
    return text if text >= "0100" else ("20" if text < "0070" else "19") + text[2:]


def write_date(column_type: ColumnType, nullable: bool) -> Write:
    """Days since the epoch. An invalid date is null, or 0 in a NOT NULL column."""

    def write(text: str) -> str:
        try:
            return str(date.fromisoformat(_years(text)).toordinal() - _EPOCH_DAY)
        except ValueError:
            return "null" if nullable else "0"

    return write


def write_datetime(column_type: ColumnType, nullable: bool) -> Write:
    """Milliseconds or microseconds since the epoch. The zero date is null, or 0 in a NOT NULL column."""
    millis = mysql.fsp(column_type) <= _MILLIS_FSP
    unit, longest = (_MILLI, 23) if millis else (_MICRO, 26)
    parse = datetime.fromisoformat

    def write(text: str) -> str:
        if len(text) > longest:
            raise MessageError(f"{text!r} has more digits than its type")
        try:
            return str((parse(text if text >= "0100" else _years(text)) - _EPOCH) // unit)
        except ValueError as error:
            if text.startswith("0000-00-00"):
                return "null" if nullable else "0"
            raise MessageError(f"{text!r} is no date, and a DATETIME in Debezium must be one") from error

    return write


def write_timestamp(column_type: ColumnType, nullable: bool) -> Write:
    """RFC 3339 in UTC; the zero timestamp is the epoch, without digits."""

    def write(text: str) -> str:
        return EPOCH if text.startswith("0000-00-00") else f'"{text[:10]}T{text[11:]}Z"'

    return write


def write_time(column_type: ColumnType, nullable: bool) -> Write:
    """Microseconds."""

    def write(text: str) -> str:
        clock, _, digits = text.removeprefix("-").partition(".")
        hours, minutes, seconds = clock.split(":")
        micros = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int(digits.ljust(6, "0"))
        return str(-micros if text[0] == "-" else micros)

    return write


def write_enum(column_type: ColumnType, nullable: bool) -> Write:
    """The name; index 0 is ``''``."""
    names = {str(at): quote(name) for at, name in enumerate(("", *column_type.elements))}

    def write(index: str) -> str:
        name = names.get(index)
        return quote(mysql.enum_name(column_type, index)) if name is None else name

    return write


def write_set(column_type: ColumnType, nullable: bool) -> Write:
    """The names, joined by commas."""
    return lru_cache(_SETS_KEPT)(lambda mask: quote(mysql.set_names(column_type, mask)))


def write_text(column_type: ColumnType, nullable: bool) -> Write:
    """Text, or bytes in base64. In text that is not UTF-8, each bad byte is U+FFFD (TiCDC's message is no JSON)."""
    if mysql.is_bytes(column_type):
        return base64
    return _text


def _text(value: str | bytes) -> str:
    if isinstance(value, bytes):
        value = _BAD_BYTE.sub("\ufffd", value.decode("utf-8", "surrogateescape"))
    json = encode_basestring(value)
    return _without_short(json) if "\\" in json else json


def write_year(column_type: ColumnType, nullable: bool) -> Write:
    """The number."""
    return integer


def write_document(column_type: ColumnType, nullable: bool) -> Write:
    """JSON and VECTOR: a string."""
    return quote
