"""How Debezium's JSON is read: converts each cell to the canonical value.

A reader is made once for a column and called for every value, so it decides as much as possible in advance. Values that
the protocol loses stay lost: see ``docs/reference/protocol-limits.md``. Source: ``debezium`` in the vectors' notes.
"""

from __future__ import annotations

import re
import struct
from binascii import Error as BadBase64
from binascii import a2b_base64
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from functools import lru_cache

import msgspec

from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.protocols.shared.json_rows import Cell
from ticdc_spark.protocols.shared.member_names import shortened

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  DATETIME has no zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_URL_SAFE = str.maketrans("-_", "+/")
_TWO_DIGITS = tuple(f"{number:02}" for number in range(60))
_MILLIS_FSP = 3
"""DATETIME with up to this many fractional digits is in milliseconds, with more in microseconds."""
_FLOAT_DIGITS = 15
"""A decimal of up to this many digits is the shortest text of its double, maybe with zeros added."""
_MAX_HOURS = 838
_DECIMAL_BYTES = 28
"""Bytes for 65 digits and a sign, the most that a DECIMAL has."""
_WIDE = Context(prec=100)
"""More digits than any DECIMAL has."""
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d{1,9})?)Z", re.ASCII)
_DIGITS = re.compile(r"(?:\d{4})+", re.ASCII)
_MEMBERS_KEPT = 4096
_POINT = struct.Struct("<IBIdd")
"""SRID; WKB's byte order (little endian) and type (point); x and y."""


def read_integer(column_type: ColumnType) -> Cell:
    """A number; BIGINT UNSIGNED from 2^63 on is sent as a negative one."""
    if column_type.name != "bigint" or not column_type.unsigned:
        return Cell(int | None, str)
    return Cell(int | None, lambda number: str(number + (1 << 64) if number < 0 else number))


def read_float(column_type: ColumnType) -> Cell:
    """A number. In JSON it may have the digits of a double."""
    bits = 32 if column_type.name == "float" else 64
    short = 7 if bits == 32 else 20

    def read(number: float) -> Value:
        text = repr(number)
        if len(text) > short or "e" in text or "n" in text:
            return mysql.canonical_float(text, bits)
        return text[:-2] if text[-2:] == ".0" else text

    return Cell(float | None, read)


def read_decimal(column_type: ColumnType) -> Cell:
    """A double, or text in other configurations: a number, or base64 of an unscaled one."""
    from_number = decimal_of_number(column_type)
    scale = column_type.decimal or 0

    def read(cell: float | str) -> Value:
        return from_number(cell) if isinstance(cell, float) else _told_or_unscaled(cell, scale)

    return Cell(float | str | None, read)


def decimal_of_number(column_type: ColumnType) -> Callable[[float], Value]:
    """Converts a double to a decimal with the column's scale. It adds no digits to the double's shortest text."""
    scale = column_type.decimal or 0
    template = f"%.{scale}f"
    zero = template % 0

    def exact(number: float) -> Value:
        return mysql.canonical_decimal(format(Decimal(repr(number)), "f"), scale)

    if column_type.length is None or column_type.length > _FLOAT_DIGITS:
        return exact

    def short(number: float) -> Value:
        if not number:
            return zero
        text = template % number
        return text if float(text) == number else exact(number)  # more digits than the scale

    return short


def _told_or_unscaled(text: str, scale: int) -> str:
    if scale == 0 and _DIGITS.fullmatch(text):
        raise MessageError(f"{text!r} may be a number or base64: decimal.handling.mode is not given")
    try:
        return mysql.canonical_decimal(text, scale)
    except MessageError:
        return unscaled_decimal(text, scale, scale)


def unscaled_decimal(text: str, sent_scale: int, scale: int) -> str:
    """``unscaled`` of base64."""
    return unscaled(unbase64(text), sent_scale, scale)


def unscaled(raw: bytes, sent_scale: int, scale: int) -> str:
    """The text of a big-endian number, divided by 10 to the power of ``sent_scale``."""
    if len(raw) > _DECIMAL_BYTES:
        raise MessageError(f"a decimal of {len(raw)} bytes")
    number = Decimal(int.from_bytes(raw, signed=True))
    return mysql.canonical_decimal(format(number.scaleb(-sent_scale, _WIDE), "f"), scale)


def unbase64(text: str) -> bytes:
    """Bytes of base64, also in the alphabet for URLs.

    Raises: MessageError if it is none.
    """
    try:
        return a2b_base64(text, strict_mode=True)
    except (BadBase64, ValueError):
        pass  # the other alphabet
    try:
        return a2b_base64(text.translate(_URL_SAFE), strict_mode=True)
    except (BadBase64, ValueError) as error:
        raise MessageError(f"{text[:40]!r} is no base64") from error


def read_bit(column_type: ColumnType) -> Cell:
    """A boolean, or base64 of little-endian bytes."""
    length = column_type.length or 1

    def read(bits: bool | str) -> Value:
        number = int(bits) if isinstance(bits, bool) else int.from_bytes(unbase64(bits), "little")
        if number >> length:
            raise MessageError(f"{bits!r} has more than {length} bits")
        return str(number)

    return Cell(bool | str | None, read)


@lru_cache(_MEMBERS_KEPT)
def _day(days: int) -> str:
    try:
        return date.fromordinal(_EPOCH_DAY + days).isoformat()
    except (ValueError, OverflowError) as error:
        raise MessageError(f"{days} days since the epoch is no date") from error


def read_date(_: ColumnType) -> Cell:
    """Days since the epoch."""
    return Cell(int | None, _day)


# Rows of one transaction share their minutes.
@lru_cache(1 << 16)
def _minute(minute: int) -> str:
    try:
        return (_EPOCH + timedelta(minutes=minute)).isoformat(" ")[:17]
    except OverflowError as error:
        raise MessageError(f"{minute} minutes since the epoch is no DATETIME") from error


def read_datetime(column_type: ColumnType) -> Cell:
    """Milliseconds or microseconds since the epoch."""
    return datetime_of(column_type, 3 if mysql.fsp(column_type) <= _MILLIS_FSP else 6)


def datetime_of(column_type: ColumnType, digits: int) -> Cell:
    """Ticks since the epoch. A second has 10 to the power of ``digits``."""
    second = 10**digits
    minute = 60 * second
    behind = _fractions(mysql.fsp(column_type), digits)

    def read(ticks: int) -> Value:
        minutes, rest = divmod(ticks, minute)
        seconds, fraction = divmod(rest, second)
        return behind(_minute(minutes) + _TWO_DIGITS[seconds], fraction)

    return Cell(int | None, read)


def _fractions(fsp: int, digits: int) -> Callable[[str, int], str]:
    """A function that appends a fraction to a time. It shows ``fsp`` of the ``digits``, or more if they are not 0."""
    unit: int = 10 ** max(digits - fsp, 0)
    known: list[str] = []
    if 0 < fsp <= min(digits, _MILLIS_FSP):
        known = [f".{number:0{fsp}}" for number in range(10**fsp)]

    def behind(text: str, fraction: int) -> str:
        if known and not fraction % unit:
            return text + known[fraction // unit]
        return mysql.canonical_datetime(f"{text}.{fraction:0{digits}}", fsp) if fsp or fraction else text

    return behind


def read_timestamp(column_type: ColumnType) -> Cell:
    """RFC 3339 in UTC."""
    fsp = mysql.fsp(column_type)

    # rows of one transaction share their timestamps, too
    @lru_cache(1 << 12)
    def read(text: str) -> Value:
        found = _RFC3339.fullmatch(text)
        if not found:
            raise MessageError(f"{text!r} is no time of the form YYYY-MM-DDTHH:MM:SSZ")
        return mysql.canonical_datetime(f"{found[1]} {found[2]}", fsp)

    return Cell(str | None, read)


def read_time(column_type: ColumnType) -> Cell:
    """Microseconds."""
    return time_of(column_type, 6)


def time_of(column_type: ColumnType, digits: int) -> Cell:
    """Ticks. A second has 10 to the power of ``digits``."""
    second = 10**digits
    behind = _fractions(mysql.fsp(column_type), digits)

    def read(ticks: int) -> Value:
        whole, fraction = divmod(abs(ticks), second)
        minutes, seconds = divmod(whole, 60)
        text = _clock_minute(minutes) + _TWO_DIGITS[seconds]
        return behind("-" + text if ticks < 0 else text, fraction)

    return Cell(int | None, read)


@lru_cache(1 << 16)
def _clock_minute(minutes: int) -> str:
    hours, minutes = divmod(minutes, 60)
    if hours > _MAX_HOURS:
        raise MessageError(f"{hours} hours are beyond a TIME")
    return f"{hours:02}:{minutes:02}:"


def read_year(_: ColumnType) -> Cell:
    """A number, or text if TiCDC writes a default instead of NULL."""
    return Cell(int | str | None, lambda year: mysql.canonical_integer(str(year)))


def read_enum(column_type: ColumnType) -> Cell:
    """The name."""
    # the first of equal members counts; '' that is no member is index 0
    indexes = {"": "0"} | {name: str(at) for at, name in reversed([*enumerate(column_type.elements, 1)])}

    def read(name: str) -> Value:
        index = indexes.get(name) or indexes.get(shortened(name))
        return mysql.enum_index(column_type, name) if index is None else index

    return Cell(str | None, read)


def read_set(column_type: ColumnType) -> Cell:
    """The names, joined by commas."""
    return Cell(str | None, lru_cache(_MEMBERS_KEPT)(lambda names: mysql.set_mask(column_type, names)))


def read_text(column_type: ColumnType) -> Cell:
    """Text, or bytes in base64."""
    return Cell(str | None, unbase64 if mysql.is_bytes(column_type) else None)


class WireGeometry(msgspec.Struct, gc=False):
    """``io.debezium.data.geometry.Geometry`` and ``Point``."""

    wkb: str | None = None
    srid: int | None = None
    x: float | None = None
    """A point's; older connectors send it without ``wkb``."""
    y: float | None = None


def read_geometry(_: ColumnType) -> Cell:
    """A struct. The result is MySQL's format of a geometry: four bytes of SRID, little endian, then WKB."""

    def read(sent: WireGeometry) -> Value:
        srid = sent.srid or 0
        if not 0 <= srid < 1 << 32:
            raise MessageError(f"field `srid` is {srid}; allowed: 0 … 2^32 - 1")
        if sent.wkb is not None:
            return srid.to_bytes(4, "little") + unbase64(sent.wkb)
        if sent.x is None or sent.y is None:
            raise MessageError("a geometry without field `wkb`")
        return _POINT.pack(srid, 1, 1, sent.x, sent.y)

    return Cell(WireGeometry | None, read)


def read_plain(_: ColumnType) -> Cell:
    """Text that is the canonical value."""
    return Cell(str | None)
