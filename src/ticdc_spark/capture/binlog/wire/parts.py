"""Small parts that many events are made of."""

from __future__ import annotations

from ticdc_spark.errors import MessageError


def uint(data: bytes, at: int, size: int) -> int:
    """A little-endian unsigned integer.

    Raises: MessageError if the data ends before it.
    """
    if at + size > len(data):
        raise MessageError(f"binlog event ends at byte {len(data)}, in a number of {size} bytes at {at}")
    return int.from_bytes(data[at : at + size], "little")


def packed(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer and where it ends."""
    first = uint(data, at, 1)
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}.get(first)
    if size is None:
        raise MessageError(f"binlog event has no length-encoded number at byte {at}: {first:#x}")
    return uint(data, at + 1, size), at + 1 + size


def packed_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes after their length, and where they end."""
    size, at = packed(data, at)
    if at + size > len(data):
        raise MessageError(f"binlog event ends at byte {len(data)}, in {size} bytes at {at}")
    return data[at : at + size], at + size


def bits(data: bytes, at: int, count: int) -> list[bool]:
    """``count`` bits, the lowest of each byte first."""
    number = uint(data, at, (count + 7) // 8)
    return [bool(number >> bit & 1) for bit in range(count)]
