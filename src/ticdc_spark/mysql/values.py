"""The one normal form of a value of each MySQL type, ENUM and SET names, and column defaults.

Canonical values: integers, decimals, times and JSON are text; ENUM is its index, SET and BIT their number, as
text; bytes are ``bytes``.
"""

from __future__ import annotations

import enum
import re
import struct
from typing import Final, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Value
from ticdc_spark.mysql.times import canonical_datetime
from ticdc_spark.mysql.types import INTEGER_BITS, TIME_TYPES, fsp, is_bytes, is_text

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?", re.ASCII)
_FLOAT32 = struct.Struct("<f")
_SMALLEST_NORMAL_32 = 2.0**-126


class NoConstant(enum.Enum):
    """Marks a default that has no constant value: CURRENT_TIMESTAMP, an expression, or one that the wire lost."""

    NO_CONSTANT = "no constant"


NO_CONSTANT: Final = NoConstant.NO_CONSTANT
Default: TypeAlias = Value | NoConstant

_TIMES = {
    "date": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    "datetime": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII),
    "timestamp": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII),
    "time": re.compile(r"-?\d{1,3}:\d\d:\d\d(\.\d{1,6})?", re.ASCII),
}
_WRITTEN = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d{1,6})?)?)?", re.ASCII)
_WRITTEN_TOGETHER = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)(\.\d{1,6})?)?", re.ASCII)
_ZERO_TIMES = {
    "date": "0000-00-00",
    "datetime": "0000-00-00 00:00:00",
    "timestamp": "0000-00-00 00:00:00",
    "time": "00:00:00",
}


def canonical_integer(text: str) -> str:
    """A decimal integer without plus sign or leading zeros (YEAR ``0000`` is ``0``).

    Raises: MessageError when the text is no integer.
    """
    if not _INTEGER.fullmatch(text):
        raise MessageError(f"{text!r} is no integer")
    return str(int(text))


def canonical_float(text: str, bits: int) -> str:
    """The shortest text that reads back to the same float of 32 or 64 ``bits``: ``0.1``, ``-0``, ``1e308``.

    Raises: MessageError when the text is no finite number of that width.
    """
    try:
        number = float(text)
    except ValueError as error:
        raise MessageError(f"{text!r} is no number") from error
    return float_text(number, bits)


def float_text(number: float, bits: int) -> str:
    """The same of a number.

    Raises: MessageError when it is no finite number of that width.
    """
    short = repr(number)
    # six digits survive 32 bits unchanged, so a short text within their range needs no search for the shortest
    if bits == 32 and (len(short) > 7 or "e" in short):
        short = repr(_shortest_32(number))
    if "e" in short:
        mantissa, exponent = short.split("e")
        return f"{mantissa}e{int(exponent)}"
    if "n" in short:  # inf, nan
        raise MessageError(f"{short} is not a finite number")
    return short.removesuffix(".0")


def _shortest_32(number: float) -> float:
    try:
        packed = _FLOAT32.pack(number)
    except OverflowError as error:
        raise MessageError(f"{number!r} is beyond a 32-bit float") from error
    exact: float = _FLOAT32.unpack(packed)[0]
    for digits in range(1 if abs(exact) < _SMALLEST_NORMAL_32 else 6, 9):
        candidate = float(f"{exact:.{digits}g}")
        if abs(candidate) < 3.5e38 and _pack_32(candidate) == packed:
            return candidate
    return float(f"{exact:.9g}")


def _pack_32(number: float) -> bytes | None:
    try:
        return _FLOAT32.pack(number)
    except OverflowError:  # rounded up past the largest 32-bit float
        return None


def canonical_decimal(text: str, scale: int) -> str:
    """A decimal with at least ``scale`` digits after the point; further digits stay unless they are zeros.

    Raises: MessageError when the text is no decimal.
    """
    found = _DECIMAL.fullmatch(text)
    if not found or not (found.group(2) or found.group(3)):
        raise MessageError(f"{text!r} is no decimal")
    sign, whole, digits = found.group(1), found.group(2).lstrip("0") or "0", found.group(3) or ""
    digits = digits[:scale].ljust(scale, "0") + digits[scale:].rstrip("0")
    number = f"{whole}.{digits}" if digits else whole
    return "-" + number if sign == "-" and number.strip("0.") else number


def enum_name(column_type: ColumnType, index: str) -> str:
    """The name of an ENUM's index. Index 0 is MySQL's invalid value, whose name is ``''``.

    Raises: MessageError for an index beyond the members.
    """
    at = int(canonical_integer(index))
    if not 0 <= at <= len(column_type.elements):
        raise MessageError(f"ENUM index {index} is not within 0 … {len(column_type.elements)}")
    return column_type.elements[at - 1] if at else ""


def enum_index(column_type: ColumnType, name: str) -> str:
    """The index of an ENUM's name; ``''`` is index 0 unless it is a member.

    Raises: MessageError for a name that is no member.
    """
    if name in column_type.elements:
        return str(column_type.elements.index(name) + 1)
    if name == "":
        return "0"
    raise MessageError(f"{name!r} is no member of ENUM {column_type.elements}")


def set_names(column_type: ColumnType, mask: str) -> str:
    """The names of a SET's bit mask, joined by commas in the type's order; ``''`` for none.

    Raises: MessageError for a bit beyond the members.
    """
    bits = int(canonical_integer(mask))
    if bits < 0 or bits >> len(column_type.elements):
        raise MessageError(f"SET mask {mask} has bits beyond its {len(column_type.elements)} members")
    return ",".join(member for at, member in enumerate(column_type.elements) if bits >> at & 1)


def set_mask(column_type: ColumnType, names: str) -> str:
    """The bit mask of a SET's names (members hold no comma); ``''`` is 0 even where it is also a member.

    Raises: MessageError for a name that is no member.
    """
    if names == "":
        return "0"
    places = {member: at for at, member in enumerate(column_type.elements)}
    bits = 0
    for name in names.split(","):
        if name not in places:
            raise MessageError(f"{name!r} is no member of SET {column_type.elements}")
        bits |= 1 << places[name]
    return str(bits)


def default_value(column: Column, *, literal: bool = False) -> Default:
    """The canonical value that ADD COLUMN gives to rows that were there before.

    ``NO_CONSTANT`` stands for CURRENT_TIMESTAMP, expressions (recognised where the text is no value of the type;
    TiDB allows no others in ADD COLUMN), and binary defaults that JSON has spoilt (U+FFFD). A TIMESTAMP default is
    taken as UTC, as Simple sends it. NOT NULL without a default gives MySQL's implicit value.

    ``literal``: the default of a TEXT or BLOB is a constant. In SQL it can only be an expression; but the schemas of a
    registry, and Debezium's blocks, have one type for all texts and one for all bytes, which are read as these.
    """
    if column.default is None:
        return None if column.nullable else implicit_value(column.type)
    try:
        return _constant(column.type, column.default, literal)
    except MessageError:
        return NO_CONSTANT


def _constant(column_type: ColumnType, default: str | bytes | int, literal: bool) -> Default:
    if isinstance(default, bytes):
        return default if is_bytes(column_type) else default.decode("utf-8", "replace")
    name, text = column_type.name, str(default)
    if (name.endswith(("text", "blob")) and not literal) or name in ("json", "vector"):
        return NO_CONSTANT  # these can only have an expression
    if is_bytes(column_type):
        if "\ufffd" in text:
            return NO_CONSTANT
        return text.encode().ljust(column_type.length or 0 if name == "binary" else 0, b"\0")
    if is_text(column_type):
        return text
    if name in _TIMES:
        text = _full_time(name, text)
        if not _TIMES[name].fullmatch(text):
            return NO_CONSTANT
        return canonical_datetime(text, fsp(column_type)) if name in TIME_TYPES else text
    return _number(column_type, text)


def _full_time(name: str, text: str) -> str:
    """A date or date and time as SQL may write it, with all its digits; anything else as it is."""
    found = _WRITTEN.fullmatch(text) or _WRITTEN_TOGETHER.fullmatch(text)
    if name == "time" or found is None:
        return text
    year, month, day, hour, minute, second, fraction = found.groups()
    date = f"{year}-{month:0>2}-{day:0>2}"
    if name == "date":
        return date if hour is None else text
    return f"{date} {hour or '':0>2}:{minute or '':0>2}:{second or '':0>2}{fraction or ''}"


def _number(column_type: ColumnType, text: str) -> str:
    match column_type.name:
        case "decimal":
            return canonical_decimal(text, column_type.decimal or 0)
        case "float":
            return canonical_float(text, 32)
        case "double":
            return canonical_float(text, 64)
        case "enum":
            return enum_index(column_type, text)
        case "set":
            return set_mask(column_type, text)
        case _:
            return canonical_integer(text)


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
