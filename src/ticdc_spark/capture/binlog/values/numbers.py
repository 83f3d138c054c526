"""Decimals and bits of row events to canonical text."""

from __future__ import annotations

from collections.abc import Callable

_DIGITS_IN = 9
_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of so many digits."""
_from = int.from_bytes


def decimal_size(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL."""
    whole, whole_left = divmod(precision - scale, _DIGITS_IN)
    part, part_left = divmod(scale, _DIGITS_IN)
    return 4 * (whole + part) + _SIZES[whole_left] + _SIZES[part_left]


def decimal_text(precision: int, scale: int) -> Callable[[bytes], str]:
    """A reader of DECIMAL(``precision``, ``scale``).

    Nine digits in each four bytes, big-endian; the odd digits stand at the outer ends. The highest bit is the sign,
    turned over; a negative number has all its bits turned over.
    """
    whole, whole_left = divmod(precision - scale, _DIGITS_IN)
    part, part_left = divmod(scale, _DIGITS_IN)
    widths = [whole_left] * bool(whole_left) + [_DIGITS_IN] * (whole + part) + [part_left] * bool(part_left)
    chunks, at = [], 0
    for width in widths:
        chunks.append((at, at + _SIZES[width], width))
        at += _SIZES[width]
    size, mask = at, (1 << 8 * at) - 1
    sign_bit = 1 << 8 * at - 1
    point = precision - scale

    def read(data: bytes) -> str:
        number = _from(data, "big") ^ sign_bit
        negative = bool(number & sign_bit)
        if negative:
            number ^= mask
        plain = number.to_bytes(size, "big")
        digits = "".join([f"{_from(plain[start:end], 'big'):0{width}}" for start, end, width in chunks])
        text = digits[:point].lstrip("0") or "0"
        if scale:
            text = f"{text}.{digits[point:]}"
        return "-" + text if negative and text.strip("0.") else text

    return read


def bit_text(data: bytes) -> str:
    """A BIT, big-endian."""
    return str(_from(data, "big"))
