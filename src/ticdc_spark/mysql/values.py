"""The one normal form of a value of each MySQL type, and the names of ENUM and SET values.

Canonical values: integers, decimals, times and JSON are text. ENUM is its index, SET and BIT their number, all as
text. Bytes are ``bytes``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?", re.ASCII)
_FLOAT32 = struct.Struct("<f")
_SMALLEST_NORMAL_32 = 2.0**-126
_SHORT = r"-?(?:0(?:\.(?!0000)[0-9]*[1-9])?|[1-9][0-9]*(?:\.[0-9]*[1-9])?)"
"""A number without an exponent, and without zeros that can be omitted. Below 0.0001, there is an exponent."""
_SHORTEST = re.compile(_SHORT).fullmatch
_EXACT_LENGTH = {32: 7, 64: 15}
"""Up to this length, two such texts are never the same float of 32 or 64 bits."""
_ALL_SHORTEST = {
    bits: re.compile(rf"(?:(?=[^\n]{{1,{most}}}\n){_SHORT}\n)*+").fullmatch for bits, most in _EXACT_LENGTH.items()
}
"""Match lines of such numbers."""


def canonical_integer(text: str) -> str:
    """A decimal integer without plus sign or leading zeros (YEAR ``0000`` is ``0``).

    Raises: MessageError if the text is not an integer.
    """
    if not _INTEGER.fullmatch(text):
        raise MessageError(f"{text!r} is no integer")
    return str(int(text))


def canonical_float(text: str, bits: int) -> str:
    """The shortest text that reads back to the same float of 32 or 64 ``bits``: ``0.1``, ``-0``, ``1e308``.

    Raises: MessageError if the text is not a finite number of that width.
    """
    if len(text) <= _EXACT_LENGTH[bits] and _SHORTEST(text):
        return text  # as TiCDC writes it: most numbers are
    try:
        number = float(text)
    except ValueError as error:
        raise MessageError(f"{text!r} is no number") from error
    return float_text(number, bits)


def are_canonical_floats(texts: Iterable[str | None], bits: int) -> bool:
    """Whether ``canonical_float`` surely returns all of these texts unchanged. Faster than a call for each."""
    there = [text for text in texts if text is not None]
    lines = "\n".join([*there, ""])
    return lines.count("\n") == len(there) and _ALL_SHORTEST[bits](lines) is not None


def float_text(number: float, bits: int) -> str:
    """The same for a number.

    Raises: MessageError if it is not a finite number of that width.
    """
    short = repr(number)
    # six digits survive 32 bits unchanged, so a short text within their range is already the shortest
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
    """A decimal with at least ``scale`` digits after the point. Further digits stay unless they are zeros.

    Raises: MessageError if the text is not a decimal.
    """
    found = _DECIMAL.fullmatch(text)
    if not found or not (found.group(2) or found.group(3)):
        raise MessageError(f"{text!r} is no decimal")
    sign, whole, digits = found.group(1), found.group(2).lstrip("0") or "0", found.group(3) or ""
    digits = digits[:scale].ljust(scale, "0") + digits[scale:].rstrip("0")
    number = f"{whole}.{digits}" if digits else whole
    return "-" + number if sign == "-" and number.strip("0.") else number


def enum_name(column_type: ColumnType, index: str) -> str:
    """The name for an ENUM's index. Index 0 is MySQL's invalid value, whose name is ``''``.

    Raises: MessageError for an index beyond the members.
    """
    at = int(canonical_integer(index))
    if not 0 <= at <= len(column_type.elements):
        raise MessageError(f"ENUM index {index} is not within 0 … {len(column_type.elements)}")
    return column_type.elements[at - 1] if at else ""


def enum_index(column_type: ColumnType, name: str) -> str:
    """The index for an ENUM's name; ``''`` is index 0 unless it is a member.

    Raises: MessageError for a name that is not a member.
    """
    if name in column_type.elements:
        return str(column_type.elements.index(name) + 1)
    if name == "":
        return "0"
    raise MessageError(f"{name!r} is no member of ENUM {column_type.elements}")


def set_names(column_type: ColumnType, mask: str) -> str:
    """The names for a SET's bit mask, joined by commas in the type's order; ``''`` for none.

    Raises: MessageError for a bit beyond the members.
    """
    bits = int(canonical_integer(mask))
    if bits < 0 or bits >> len(column_type.elements):
        raise MessageError(f"SET mask {mask} has bits beyond its {len(column_type.elements)} members")
    return ",".join(member for at, member in enumerate(column_type.elements) if bits >> at & 1)


def set_mask(column_type: ColumnType, names: str) -> str:
    """The bit mask for a SET's names (members have no comma); ``''`` is 0 even if it is also a member.

    Raises: MessageError for a name that is not a member.
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
