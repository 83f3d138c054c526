"""Turns a default as written in SQL into the default that TiDB stores for a column."""

from __future__ import annotations

import re
from decimal import Decimal

from msgspec.structs import replace

from ticdc_spark.ddl.defaults import WrittenDefault, is_moment
from ticdc_spark.model import ColumnType
from ticdc_spark.mysql import BYTES_TYPES, INTEGER_BITS, TEXT_TYPES, canonical_integer, integer_range, set_names

_UTF8 = frozenset(("utf8", "utf8mb3", "utf8mb4"))
_WIDE = frozenset(("ucs2", "utf16", "utf16le", "utf32"))
"""Character sets that encode ASCII differently."""
_LOST = "\ufffd"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_PLAIN = re.compile(r"(-?)(\d*)\.?(\d*)", re.ASCII)
_MOST_EXACT = 10**15
_ZERO_TIMES = {
    "date": "0000-00-00",
    "datetime": "0000-00-00 00:00:00",
    "timestamp": "0000-00-00 00:00:00",
    "time": "00:00:00",
}
_DAYS = ("current_date", "curdate")


def stored_default(written: WrittenDefault, kind: ColumnType) -> tuple[str | int | None, bool]:
    """The default of a column, and whether its value is known. It is not known if the server computes it, or if TiDB,
    MySQL and MariaDB read it differently.

    BIT has an int, all other types have text. Bytes that cannot be decoded become U+FFFD, as in a Simple message.
    """
    match written.kind:
        case "null":
            return None, True
        case "expression":
            return written.text, _is_known_moment(written.text, kind)
        case "string":
            return _of_string(written, kind)
        case "number":
            return _of_number(written.text, kind)
    return _of_bytes(written, kind)


def _is_known_moment(text: str, kind: ColumnType) -> bool:
    if not is_moment(text) or kind.name not in ("date", "datetime", "timestamp"):
        return False
    return kind.name == "date" or not text.lower().startswith(_DAYS)


def _of_string(written: WrittenDefault, kind: ColumnType) -> tuple[str | int, bool]:
    text = written.text
    if written.charset and written.charset not in _UTF8 and not text.isascii():
        return _LOST, False
    if kind.name == "bit":
        return int.from_bytes(text.encode()), text.isascii()
    if kind.name in INTEGER_BITS and _INTEGER.fullmatch(text):
        return canonical_integer(text), True
    return _padded(text, kind), True


def _of_number(text: str, kind: ColumnType) -> tuple[str | int, bool]:
    name, number = kind.name, Decimal(text)
    whole = number == number.to_integral_value() and abs(number) < 10**30
    if name == "bit":
        return (int(number), number >= 0) if whole else (0, False)
    if name in INTEGER_BITS:
        return str(int(number)) if whole else text, whole
    if name in ("enum", "set"):
        return _of_place(int(number), kind) if whole else (text, False)
    if name == "year":  # MySQL has 0; TiDB stores '0', which means 2000
        return text, bool(number)
    if name in _ZERO_TIMES:
        return (_ZERO_TIMES[name], True) if not number else (text, name != "time")
    if name in TEXT_TYPES or name in BYTES_TYPES:
        shown = _shown(text, number)
        return _padded(text if shown is None else shown, kind), shown is not None
    return text, True


def _of_place(place: int, kind: ColumnType) -> tuple[str, bool]:
    """The member of an ENUM with this index, or the members of a SET with these bits."""
    low, high = integer_range(kind) or (0, -1)
    if not low <= place <= high or (kind.name == "enum" and place == 0):
        return str(place), False
    return kind.elements[place - 1] if kind.name == "enum" else set_names(kind, str(place)), True


def _shown(text: str, number: Decimal) -> str | None:
    """A number as text; ``None``: unknown."""
    found = _PLAIN.fullmatch(text)
    if found is None:
        whole = number == number.to_integral_value() and abs(number) < _MOST_EXACT and not number.is_signed()
        return str(int(number)) if whole else None
    sign, digits, behind = found.groups()
    if sign and not number:
        return None
    return sign + (digits.lstrip("0") or "0") + (f".{behind}" if behind else "")


def _of_bytes(written: WrittenDefault, kind: ColumnType) -> tuple[str | int, bool]:
    digits, base = written.text or "0", 2 if written.kind == "bits" else 16
    number = int(digits, base)
    size = (len(written.text) + 1) // 2 if base == 16 else (len(written.text) + 7) // 8
    if kind.name == "bit":
        return number, True
    if kind.name in BYTES_TYPES:
        return _padded(number.to_bytes(size).decode("utf-8", "replace"), kind), True
    if kind.name in TEXT_TYPES or kind.name in ("enum", "set"):
        text = _decoded(number.to_bytes(size), written.charset or kind.charset or "utf8mb4")
        return text, kind.name in TEXT_TYPES
    return str(number), is_number(kind) and not written.charset


def is_number(kind: ColumnType) -> bool:
    """Whether it is a type of numbers, except YEAR."""
    return kind.name in INTEGER_BITS or kind.name in ("decimal", "float", "double")


def as_text(written: WrittenDefault) -> WrittenDefault | None:
    """A hexadecimal default of a number, as MariaDB reads it: a text; ``None``: it is not one."""
    if written.kind != "hex string" and not (written.kind == "hex" and written.charset):
        return None
    size = (len(written.text) + 1) // 2
    return replace(
        written, kind="string", text=int(written.text or "0", 16).to_bytes(size).decode("latin1"), charset=""
    )


def _decoded(data: bytes, charset: str) -> str:
    """TiDB also stores UTF-8 in latin1, so only ASCII is the same on all servers."""
    if charset in _WIDE or not (data.isascii() or charset in _UTF8):
        return _LOST
    return data.decode("utf-8", "replace")


def _padded(text: str, kind: ColumnType) -> str:
    if kind.name != "binary":
        return text
    return text + "\0" * ((kind.length or 0) - len(text.encode()))
