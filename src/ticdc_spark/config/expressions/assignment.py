"""What an INSERT makes of an expression's value, by the type of its column."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ticdc_spark.config.expressions.convert import round_half_up
from ticdc_spark.config.expressions.nodes import Node
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import ColumnType, Row, Value
from ticdc_spark.mysql import fsp, integer_range, is_text

_TEXT_BYTES = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
_NUMBER = re.compile(r" *[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+) *")
_LONGEST = 200
"""Most characters of a text that is read as a number."""
_UTF8MB3 = 0xFFFF
"""The highest code point that utf8mb3 has."""


def is_utf8(kind: ColumnType) -> bool:
    """Whether a type has the texts of utf8mb4 or utf8mb3, or none."""
    return not is_text(kind) or (kind.charset or "").startswith("utf8")


def assigned(node: Node, kind: ColumnType) -> Callable[[Row], Value]:
    """The function that gives a column of a type its canonical value, as an INSERT does in strict mode. It raises
    MessageError for a value that the column cannot hold.

    Raises: UsageError if servers may convert such values differently
    """
    convert = _CONVERSIONS.get((_family(kind), node.kind))
    if convert is None or (node.kind == "datetime" and node.scale > fsp(kind)):
        raise UsageError(f"servers may convert its {node.kind} value to {kind.name} differently")

    def value(row: Row) -> Value:
        found = node.of(row)
        return None if found is None else convert(found, kind)

    return value


def _family(kind: ColumnType) -> str:
    if is_text(kind) and is_utf8(kind):
        return "text"
    if kind.name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return "int"
    return kind.name if kind.name in ("decimal", "date", "datetime") else ""


def _integer(value: Any, kind: ColumnType) -> str:
    low, high = integer_range(kind) or (0, 0)
    if not low <= value <= high:
        raise MessageError(f"{value} is out of the range of {kind.name}")
    return str(int(value))


def _rounded(value: Decimal, kind: ColumnType) -> str:
    return _integer(int(round_half_up(value, 0)), kind)


def _decimal(value: Any, kind: ColumnType) -> str:
    scale = kind.decimal or 0
    found = round_half_up(Decimal(value), scale)
    if abs(found) >= Decimal(10) ** ((kind.length or 10) - scale):
        raise MessageError(f"{value} is out of the range of decimal({kind.length},{scale})")
    text = format(found, f".{scale}f")
    return text.removeprefix("-") if not found else text


def _text(value: str, kind: ColumnType) -> str:
    if kind.charset != "utf8mb4" and any(ord(letter) > _UTF8MB3 for letter in value):
        raise MessageError(f"{kind.charset} lacks a character")
    if kind.name in _TEXT_BYTES:
        if len(value.encode(errors="surrogateescape")) > _TEXT_BYTES[kind.name]:
            raise MessageError(f"a text is longer than {kind.name}")
        return value
    size = kind.length or 0
    if len(value.rstrip(" ")) > size:
        raise MessageError(f"a text is longer than {kind.name}({size})")
    return value.rstrip(" ") if kind.name == "char" else value[:size]


def _digits(value: str, kind: ColumnType) -> str:
    return _rounded(_number_of(value), kind)


def _number(value: str, kind: ColumnType) -> str:
    return _decimal(_number_of(value), kind)


def _number_of(text: str) -> Decimal:
    """The number of a text that has nothing else. Raises: MessageError"""
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise MessageError(f"{text!r} is no number")
    return Decimal(text.strip(" "))


def _date(value: str, _kind: ColumnType) -> str:
    return value[:10]


def _moment(value: str, kind: ColumnType) -> str:
    digits = fsp(kind)
    if value[20 + digits :].strip("0"):
        raise MessageError(f"{value} has more digits after the point than the column")
    return value[: 20 + digits] if digits else value[:19]


_CONVERSIONS: dict[tuple[str, str], Callable[[Any, ColumnType], str]] = {
    ("int", "int"): _integer,
    ("int", "decimal"): _rounded,
    ("int", "text"): _digits,
    ("decimal", "int"): _decimal,
    ("decimal", "decimal"): _decimal,
    ("decimal", "text"): _number,
    ("text", "text"): _text,
    ("text", "int"): lambda value, kind: _text(str(int(value)), kind),
    ("date", "date"): _date,
    ("datetime", "datetime"): _moment,
    ("datetime", "date"): _moment,
}
"""By the column's type and the kind of the expression's value."""
