"""The value of a column's default: what ADD COLUMN gives to existing rows.

A default is the text that TiDB stores for it. It only has a value here if TiDB, MySQL and MariaDB read it in the same
way; ``tests/integration/test_defaults.py`` compares with a server. TiDB's rules: ``pkg/ddl/add_column.go``
(``getDefaultValue``), ``pkg/types/datum.go``.
"""

from __future__ import annotations

import enum
import re
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Value
from ticdc_spark.mysql.times import canonical_datetime
from ticdc_spark.mysql.types import INTEGER_BITS, TIME_TYPES, fsp, integer_range, is_bytes, is_text
from ticdc_spark.mysql.values import canonical_decimal, canonical_float, canonical_integer, enum_index, set_mask


class NoConstant(enum.Enum):
    """A default without a known value: CURRENT_TIMESTAMP, an expression, one that the message lost, or one that servers
    read differently."""

    NO_CONSTANT = "no constant"


NO_CONSTANT: Final = NoConstant.NO_CONSTANT
Default: TypeAlias = Value | NoConstant

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:[eE][+-]?\d{1,3})?", re.ASCII)
_YEAR = re.compile(r"\d{1,2}|\d{4}", re.ASCII)
_CLOCK = re.compile(r"(-?)(\d{1,3}):([0-5]\d):([0-5]\d)(\.\d{1,6})?", re.ASCII)
_WRITTEN = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d{1,6})?)?)?", re.ASCII)
_WRITTEN_TOGETHER = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)(\.\d{1,6})?)?", re.ASCII)
_TIMESTAMPS = ("1970-01-02", "2038-01-18")
"""On these days and between them, no time zone moves a TIMESTAMP out of its range."""
_MOST_HOURS = 838
_ROUNDING = Context(prec=100, rounding=ROUND_HALF_UP)
_EXACT_DIGITS = 15
_LOST = "\ufffd"
"""Replaces bytes in a text that cannot be decoded."""
_ZERO_TIMES = {
    "date": "0000-00-00",
    "datetime": "0000-00-00 00:00:00",
    "timestamp": "0000-00-00 00:00:00",
    "time": "00:00:00",
}


def default_value(column: Column, *, literal: bool = False) -> Default:
    """The canonical value that ADD COLUMN gives to existing rows.

    ``NO_CONSTANT`` means that the value is unknown: for CURRENT_TIMESTAMP, for an expression (a text that is not a
    value of the type), and for a default that JSON has spoilt (U+FFFD). It also means a default that a server refuses,
    or that servers read differently. Some round a time with more digits than its column has, and some truncate it.
    A TIMESTAMP default is read as UTC, as Simple sends it. NOT NULL without a default gives MySQL's implicit value.

    ``literal``: the default comes from a registered schema or from Debezium's schema blocks. There a TEXT or BLOB has a
    constant default, while SQL only allows an expression. These schemas have one type for all texts and one for all
    bytes, which are read as TEXT and BLOB.
    """
    if column.default is None:
        return None if column.nullable else implicit_value(column.type)
    try:
        return _constant(column.type, column.default, literal)
    except MessageError:
        return NO_CONSTANT


def implicit_value(column_type: ColumnType) -> Value:
    """MySQL's value for a NOT NULL column without a default: 0, ``''``, the first ENUM member, the zero date."""
    name = column_type.name
    if is_bytes(column_type):
        return bytes(column_type.length or 0) if name == "binary" else b""
    if name == "decimal":
        return canonical_decimal("0", column_type.decimal or 0)
    if name in INTEGER_BITS or name in ("year", "bit", "set", "float", "double"):
        return "0"
    if name in _ZERO_TIMES:
        return canonical_datetime(_ZERO_TIMES[name], fsp(column_type)) if name in TIME_TYPES else _ZERO_TIMES[name]
    return {"enum": "1", "json": "null", "vector": "[]"}.get(name, "")


def _constant(column_type: ColumnType, default: str | bytes | int, literal: bool) -> Default:
    if isinstance(default, bytes):
        return default if is_bytes(column_type) else default.decode("utf-8", "replace")
    name, text = column_type.name, str(default)
    if (name.endswith(("text", "blob")) and not literal) or name in ("json", "vector") or _LOST in text:
        return NO_CONSTANT  # a TEXT or BLOB can only have an expression
    if is_bytes(column_type):
        return _bytes(column_type, text, literal)
    if is_text(column_type):
        return _text(column_type, text, literal)
    if name == "time":
        return _clock(text, fsp(column_type))
    if name in _ZERO_TIMES:
        return _day(column_type, text)
    if name == "year":
        return _year(text, literal)
    return _number(column_type, text)


def _bytes(column_type: ColumnType, text: str, literal: bool) -> Default:
    size, value = column_type.length, text.encode()
    if size is not None and len(value) > size and not literal:  # blocks and schemas have no lengths
        return NO_CONSTANT
    return value.ljust(size or 0, b"\0") if column_type.name == "binary" else value


def _text(column_type: ColumnType, text: str, literal: bool) -> Default:
    name, size = column_type.name, column_type.length
    if name in ("char", "varchar") and size is not None and len(text) > size and not literal:
        return NO_CONSTANT
    if name not in ("char", "varchar") and text.endswith(" "):
        return NO_CONSTANT  # one type for all texts, but a CHAR loses its trailing spaces
    return text.rstrip(" ") if name == "char" else text


def _clock(text: str, digits: int) -> Default:
    found = _CLOCK.fullmatch(text)
    if found is None or int(found[2]) > _MOST_HOURS:
        return NO_CONSTANT
    sign, hours, minutes, seconds, fraction = found.groups()
    value = _fraction(f"{int(hours):02}:{minutes}:{seconds}{fraction or ''}", digits)
    return value if value is NO_CONSTANT or not value.strip("0:.") else sign + value


def _day(column_type: ColumnType, text: str) -> Default:
    """A date, or a date and time, in the forms that SQL allows."""
    found = _WRITTEN.fullmatch(text) or _WRITTEN_TOGETHER.fullmatch(text)
    if found is None:
        return NO_CONSTANT
    year, month, day, hour, minute, second, fraction = found.groups()
    at = f"{year}-{month:0>2}-{day:0>2}"
    zero = at == _ZERO_TIMES["date"]
    if not (zero or _is_day(at)) or (zero and any((hour or "").strip("0") for hour in (hour, minute, second))):
        return NO_CONSTANT
    if column_type.name == "date":
        return at if hour is None else NO_CONSTANT
    if column_type.name == "timestamp" and not (zero or _TIMESTAMPS[0] <= at <= _TIMESTAMPS[1]):
        return NO_CONSTANT
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        return NO_CONSTANT
    clock = f"{hour or '':0>2}:{minute or '':0>2}:{second or '':0>2}{fraction or ''}"
    return _fraction(f"{at} {clock}", fsp(column_type))


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _fraction(text: str, digits: int) -> str | NoConstant:
    """A time with as many fractional digits as its column. For more digits, MySQL and TiDB round, MariaDB truncates."""
    value = canonical_datetime(text, digits)
    return value if len(value.partition(".")[2]) == digits else NO_CONSTANT


def _year(text: str, literal: bool) -> Default:
    """One or two digits are a year of this century or the last, and 0 is 2000, unless it has four digits."""
    if not _YEAR.fullmatch(text):
        return NO_CONSTANT
    number = int(text)
    if number == 0 and literal:
        return NO_CONSTANT  # both '0', which is 2000, and '0000' arrive as this number
    if len(text) < 4:
        number += 2000 if number < 70 else 1900
    return str(number) if number == 0 or 1901 <= number <= 2155 else NO_CONSTANT


def _number(column_type: ColumnType, text: str) -> Default:
    match column_type.name:
        case "decimal":
            return _decimal(column_type, text)
        case "float" | "double":
            return _float(column_type, text)
        case "enum":
            return enum_index(column_type, text)
        case "set":
            return set_mask(column_type, text)
    value = canonical_integer(text)
    low, high = integer_range(column_type) or (0, -1)
    return value if low <= int(value) <= high else NO_CONSTANT


def _decimal(column_type: ColumnType, text: str) -> Default:
    """Rounded to the column's digits, half away from zero."""
    if not _NUMBER.fullmatch(text):
        return NO_CONSTANT
    scale = column_type.decimal or 0
    whole = (column_type.length or 10) - scale
    number = Decimal(text)
    if "e" in text.lower() and len(number.as_tuple().digits) > _EXACT_DIGITS:
        return NO_CONSTANT  # with an exponent it is a double
    if number and number.adjusted() >= whole:
        return NO_CONSTANT
    number = number.quantize(Decimal(1).scaleb(-scale), context=_ROUNDING)
    if number and (number.adjusted() >= whole or (number < 0 and column_type.unsigned)):
        return NO_CONSTANT
    return canonical_decimal(format(number, "f"), scale)


def _float(column_type: ColumnType, text: str) -> Default:
    """With at most the digits of FLOAT(M,D); for more digits, servers give different numbers."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return NO_CONSTANT
    number, scale = Decimal(text), column_type.decimal
    if number.is_signed() and (column_type.unsigned or not number):
        return NO_CONSTANT
    if scale is not None and scale >= 0:
        if number and number.adjusted() >= (column_type.length or 0) - scale:
            return NO_CONSTANT
        if number != number.quantize(Decimal(1).scaleb(-scale), context=_ROUNDING):
            return NO_CONSTANT
    return canonical_float(text, 32 if column_type.name == "float" else 64)
