"""Decimals and bits of row events to canonical text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DIGITS_IN = 9
_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes for 0 to 9 digits."""
_from = int.from_bytes


def decimal_size(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL."""
    whole, whole_left = divmod(precision - scale, _DIGITS_IN)
    part, part_left = divmod(scale, _DIGITS_IN)
    return 4 * (whole + part) + _SIZES[whole_left] + _SIZES[part_left]


def decimal_text(precision: int, scale: int) -> Callable[[bytes], str]:
    """A reader of DECIMAL(``precision``, ``scale``).

    Four bytes, big-endian, have nine digits; remaining digits are at the outer ends. The highest bit is the inverted
    sign. A negative number has all its bits inverted.
    """
    whole, whole_left = divmod(precision - scale, _DIGITS_IN)
    part, part_left = divmod(scale, _DIGITS_IN)
    part_widths = [_DIGITS_IN] * part + [part_left] * bool(part_left)
    whole_widths = [whole_left] * bool(whole_left) + [_DIGITS_IN] * whole
    part_sum, bits = _sum_of(part_widths, 0)
    whole_sum, bits = _sum_of(whole_widths, bits)
    sign = 1 << bits - 1
    names: dict[str, Any] = {"sign": sign, "rest": sign - 1, "number_of": _from}
    fraction = f".{{part:0{scale}}}" if scale else ""
    exec(
        "def read(data):\n"
        "    n = number_of(data, 'big')\n"
        "    minus = ''\n"
        "    if n & sign: n ^= sign\n"
        "    else: n ^= rest; minus = '-'\n"
        f"    whole = {whole_sum}; part = {part_sum}\n"
        f"    return f'{{minus if whole or part else \"\"}}{{whole}}{fraction}'\n",
        names,
    )
    found: Callable[[bytes], str] = names["read"]
    return found


def _sum_of(widths: list[int], shift: int) -> tuple[str, int]:
    """The expression for a number whose groups of digits are in ``n``, the lowest at ``shift``, and its end."""
    terms, power = [], 1
    for width in reversed(widths):
        size = 8 * _SIZES[width]
        terms.append(f"(n >> {shift} & {(1 << size) - 1}) * {power}")
        power *= 10**width
        shift += size
    return " + ".join(terms) or "0", shift


def bit_text(data: bytes) -> str:
    """A BIT, big-endian."""
    return str(_from(data, "big"))
