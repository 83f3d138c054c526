"""Reads and writes Avro's binary form: numbers, text and bytes.

A reader takes the message and a place in it, and gives the value there and the place after it. A message that ends too
early raises IndexError, which ``readable`` converts to MessageError, as checking each byte would take twice the time.
Memory for a length is only allocated if the message has the bytes. Source: the Avro specification 1.11,
"Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import TypeAlias, TypeVar

from ticdc_spark.errors import MessageError

FLOAT = Struct("<f")
DOUBLE = Struct("<d")
MASK_64 = 2**64 - 1

T = TypeVar("T")
Reader: TypeAlias = Callable[[bytes, int], tuple[T, int]]


@contextmanager
def readable() -> Iterator[None]:
    """Raise MessageError if a message ends too early or has text that is not UTF-8."""
    try:
        yield
    except IndexError as error:
        raise MessageError("Avro ends too early") from error
    except UnicodeDecodeError as error:
        raise MessageError(f"Avro text is not UTF-8: {error}") from error


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """An int or a long: zigzag, seven bits a byte.

    Raises: MessageError beyond 64 bits.
    """
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise MessageError("an Avro number of more than ten bytes")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    if number > MASK_64:
        raise MessageError("an Avro number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes with their length before them.

    Raises: MessageError for a length that is negative or reaches beyond the message.
    """
    length = data[at]
    if length < 0x80 and not length & 1:
        length >>= 1
        at += 1
    else:
        length, at = read_long(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise MessageError(f"an Avro length of {length} where {len(data) - at} bytes are left")
    return data[at:end], end


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """Text; raises UnicodeDecodeError if it is not UTF-8."""
    length = data[at]
    if length < 0x80 and not length & 1:  # short text, the most common cell, without a further call
        at += 1
        end = at + (length >> 1)
        if end <= len(data):
            return data[at:end].decode(), end
        at -= 1
    raw, at = read_bytes(data, at)
    return raw.decode(), at


def read_text_or_bytes(data: bytes, at: int) -> tuple[str | bytes, int]:
    """Text, or its bytes if they are not UTF-8."""
    raw, at = read_bytes(data, at)
    try:
        return raw.decode(), at
    except UnicodeDecodeError:
        return raw, at


SHORT = tuple(str((byte >> 1) ^ -(byte & 1)) for byte in range(0x80))
"""The texts of the numbers of one byte."""


def read_number(data: bytes, at: int) -> tuple[str, int]:
    """An int or a long, as text."""
    byte = data[at]
    if byte < 0x80:
        return SHORT[byte], at + 1
    number, at = read_long(data, at)
    return str(number), at


def skip_number(data: bytes, at: int) -> int:
    """The place after a number."""
    end = at
    while data[end] >= 0x80:
        end += 1
    if end - at > 9:
        raise MessageError("an Avro number of more than ten bytes")
    return end + 1


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """A boolean.

    Raises: MessageError for a byte other than 0 and 1.
    """
    byte = data[at]
    if byte > 1:
        raise MessageError(f"an Avro boolean of {byte}; allowed: 0, 1")
    return byte == 1, at + 1


def read_fixed(data: bytes, at: int, form: Struct) -> tuple[float, int]:
    """A float or a double; ``form`` is ``FLOAT`` or ``DOUBLE``."""
    end = at + form.size
    if end > len(data):
        raise IndexError
    number: float = form.unpack_from(data, at)[0]
    return number, end


def optional(read: Reader[T]) -> Reader[T | None]:
    """A reader of ``["null", type]``."""

    def read_optional(data: bytes, at: int) -> tuple[T | None, int]:
        branch = data[at]
        if branch == 0:
            return None, at + 1
        if branch != 2:
            raise MessageError(f"Avro union branch byte 0x{branch:02x}; allowed: 0x00, 0x02")
        return read(data, at + 1)

    return read_optional


def array(read: Reader[T]) -> Reader[tuple[T, ...]]:
    """A reader of an array of what ``read`` reads, at least one byte each."""

    def read_array(data: bytes, at: int) -> tuple[tuple[T, ...], int]:
        items: list[T] = []
        count, at = read_block(data, at)
        while count:
            for _ in range(count):
                item, at = read(data, at)
                items.append(item)
            count, at = read_block(data, at)
        return tuple(items), at

    return read_array


def read_block(data: bytes, at: int) -> tuple[int, int]:
    """How many items the next block of an array or a map has; 0: there are no more blocks.

    Raises: MessageError for more items than bytes are left.
    """
    count, at = read_long(data, at)
    if count < 0:
        count = -count
        _, at = read_long(data, at)  # the block's size in bytes
    if count > len(data) - at:
        raise MessageError(f"an Avro block of {count} items where {len(data) - at} bytes are left")
    return count, at


_ONE_BYTE = tuple(byte.to_bytes(1, "little") for byte in range(0x80))


def write_long(number: int) -> bytes:
    """An int or a long, -2**63 … 2**63-1."""
    return _write_zigzag((number << 1) ^ (number >> 63))


def _write_zigzag(number: int) -> bytes:
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x20_0000:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    low = (number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14 & 0x7F | 0x80)
    return bytes(low) + _write_zigzag(number >> 21)


def wrapped(number: int) -> int:
    """An unsigned number as the signed one of the same 64 bits."""
    return number if number < 1 << 63 else number - (1 << 64)


def write_bytes(raw: bytes) -> bytes:
    """Bytes with their length before them."""
    return write_long(len(raw)) + raw


def write_text(text: str | bytes) -> bytes:
    """Text; bytes stand for text that is not UTF-8."""
    return write_bytes(text.encode() if isinstance(text, str) else text)
