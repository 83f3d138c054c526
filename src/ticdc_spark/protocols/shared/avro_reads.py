"""Reads Avro values at a place in a message, for Avro and for Simple in Avro."""

from __future__ import annotations

from ticdc_spark.mysql import canonical_integer, float_text
from ticdc_spark.wire.avro_binary import DOUBLE, FLOAT, MASK_64, read_fixed, read_long, read_text


def read_unsigned(data: bytes, at: int) -> tuple[str, int]:
    """An unsigned number of 64 bits, as text. It was sent as a signed one that wraps."""
    number, at = read_long(data, at)
    return str(number & MASK_64), at


def read_digits(data: bytes, at: int) -> tuple[str, int]:
    """An integer that was sent as text.

    Raises: MessageError for a text that is none.
    """
    text, at = read_text(data, at)
    return canonical_integer(text), at


def read_float(data: bytes, at: int) -> tuple[str, int]:
    """A float of 32 bits, as its shortest text.

    Raises: MessageError for one that is not finite.
    """
    number, at = read_fixed(data, at, FLOAT)
    return float_text(number, 32), at


def read_double(data: bytes, at: int) -> tuple[str, int]:
    """A float of 64 bits, as its shortest text.

    Raises: MessageError for one that is not finite.
    """
    number, at = read_fixed(data, at, DOUBLE)
    return float_text(number, 64), at
