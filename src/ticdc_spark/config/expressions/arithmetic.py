"""Arithmetic: integers stay integers and may overflow, decimals are exact, everything else is a double."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ticdc_spark.config.expressions.convert import MATH, truncate
from ticdc_spark.config.expressions.nodes import (
    Node,
    as_bits,
    as_decimal,
    as_exact,
    as_number,
    as_real,
    in_range,
    joined,
    mapped,
)
from ticdc_spark.errors import MessageError

_DIGITS = 9
"""MySQL stores decimals in words of this many digits."""
_DIVISION_DIGITS = 4
"""``div_precision_increment``."""
_MASK = 2**64 - 1


def arithmetic(sign: str, left: Node, right: Node) -> Node:
    """``+``, ``-``, ``*``, ``/``, ``DIV`` and ``%``."""
    one, other = as_number(left), as_number(right)
    if "null" in (one.kind, other.kind):
        return Node(kind="null", of=lambda _row: None)
    if sign == "/":
        return _divide(one, other)
    if sign == "DIV":
        return _divide_whole(left, right, unsigned=one.unsigned or other.unsigned)
    if "real" in (one.kind, other.kind):
        return joined([as_real(one), as_real(other)], "real", _REALS[sign])
    unsigned = one.unsigned or other.unsigned
    if sign == "%":
        unsigned = one.unsigned
    if "decimal" in (one.kind, other.kind):
        scale = one.scale + other.scale if sign == "*" else max(one.scale, other.scale)
        return joined([as_decimal(one), as_decimal(other)], "decimal", _DECIMALS[sign], scale=min(scale, 30))
    exact = _INTEGERS[sign]

    def integers(first: int, second: int) -> int | None:
        result = exact(int(first), int(second))
        return None if result is None else in_range(result, unsigned=unsigned)

    return joined([one, other], "int", integers, unsigned=unsigned)


def negative(node: Node) -> Node:
    """``-``."""
    number = as_number(node)
    if number.kind == "int" and number.literal and number.unsigned:
        return mapped(number, "decimal", lambda value: Decimal(-value))
    if number.kind == "int":
        return mapped(number, "int", lambda value: in_range(-int(value), unsigned=False))
    if number.kind == "decimal":
        return mapped(number, "decimal", MATH.minus, scale=number.scale)
    return mapped(number, number.kind, lambda value: -value)


def bits(sign: str, left: Node, right: Node) -> Node:
    """``|``, ``&``, ``^``, ``<<`` and ``>>`` of 64 bits; the result is unsigned."""
    return joined([as_bits(left), as_bits(right)], "int", _BITS[sign], unsigned=True)


def inverted(node: Node) -> Node:
    """``~``."""
    return mapped(as_bits(node), "int", lambda value: ~value & _MASK, unsigned=True)


def _divide(left: Node, right: Node) -> Node:
    if "real" in (left.kind, right.kind):
        return joined([as_real(left), as_real(right)], "real", lambda a, b: None if b == 0 else _finite(a / b))
    first, second = left.scale, right.scale
    wide, narrow = _words(first), _words(second)
    more = max(_DIVISION_DIGITS - (wide - first) - (narrow - second), 0)
    digits = _words(wide + narrow + more)

    def divide(one: Decimal, other: Decimal) -> Decimal | None:
        return None if other == 0 else truncate(MATH.divide(one, other), digits)

    scale = min(first + _DIVISION_DIGITS, 30)
    return joined([as_decimal(left), as_decimal(right)], "decimal", divide, scale=scale)


def _divide_whole(left: Node, right: Node, *, unsigned: bool) -> Node:
    def divide(one: Decimal, other: Decimal) -> int | None:
        return None if other == 0 else in_range(int(MATH.divide(one, other)), unsigned=unsigned)

    return joined([as_exact(left), as_exact(right)], "int", divide, unsigned=unsigned)


def _words(digits: int) -> int:
    return -(-digits // _DIGITS) * _DIGITS


def _finite(number: float) -> float:
    if math.isinf(number) or math.isnan(number):
        raise MessageError("a result is out of the range of DOUBLE")
    return number


def _real(function: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda one, other: _finite(function(one, other))


def _remainder(one: Any, other: Any) -> Any:
    """The remainder, with the sign of the first number, as in C."""
    if other == 0:
        return None
    if isinstance(one, float):
        return math.fmod(one, other)
    if isinstance(one, Decimal):
        return MATH.remainder(one, other)
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def _shifted(value: int, places: int, *, left: bool) -> int:
    value, places = value & _MASK, places & _MASK
    if places > 63:
        return 0
    return (value << places) & _MASK if left else value >> places


_INTEGERS: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "%": _remainder,
}
_DECIMALS: dict[str, Callable[[Decimal, Decimal], Decimal | None]] = {
    "+": MATH.add,
    "-": MATH.subtract,
    "*": MATH.multiply,
    "%": _remainder,
}
_REALS: dict[str, Callable[[float, float], float | None]] = {
    "+": _real(lambda a, b: a + b),
    "-": _real(lambda a, b: a - b),
    "*": _real(lambda a, b: a * b),
    "%": _remainder,
}
_BITS: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: (a | b) & _MASK,
    "&": lambda a, b: (a & b) & _MASK,
    "^": lambda a, b: (a ^ b) & _MASK,
    "<<": lambda a, b: _shifted(a, b, left=True),
    ">>": lambda a, b: _shifted(a, b, left=False),
}
