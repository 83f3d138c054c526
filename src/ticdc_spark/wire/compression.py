"""Compression of message values: what TiCDC writes with ``large-message-handle-compression``.

snappy is its block format, lz4 its frame format. No field names the format, so the first bytes show it. JSON may have
whitespace, as in the examples of TiCDC's documents; its own consumers accept that too.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import cramjam

from ticdc_spark.errors import MessageError

Compression: TypeAlias = Literal["none", "snappy", "lz4"]

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""A value whose header has a larger size is refused before memory is allocated."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_STARTS = (b'{"', b"{}")
_WIDE_START = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*["}]')


def compress(value: bytes, compression: Compression) -> bytes:
    """Compress a value as TiCDC does."""
    match compression:
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(value))
        case "lz4":
            return bytes(cramjam.lz4.compress(value))
    return value


def is_json(value: bytes) -> bool:
    """Whether a value begins like a JSON object, and is not compressed."""
    return value[:2] in _STARTS or (_WIDE_START.match(value) is not None and not _is_short_snappy(value))


def _is_short_snappy(value: bytes) -> bool:
    """Whether a value that begins like JSON is snappy.

    Only this can be: a length (of 9, 10, 13 or 32 bytes) and the mark of 9 bytes unchanged look like whitespace before
    a ``{``. A value of Open may be that short: ``{"u":{"id":{"t":1,"f":1,"v":1}}}``.
    """
    if value[1:3] != b" {":
        return False
    try:
        return is_json(bytes(cramjam.snappy.decompress_raw(value)))
    except cramjam.DecompressionError:
        return False


def unpack(value: bytes, limit: int = MAX_UNPACKED_BYTES) -> bytes:
    """The value before compression. JSON is returned unchanged.

    Raises: MessageError if it is neither JSON nor snappy nor lz4, or larger than ``limit`` bytes when unpacked.
    """
    if not value or is_json(value):
        return value
    try:
        if value.startswith(_LZ4_MAGIC):
            return _lz4(value, limit)
        size = cramjam.snappy.decompress_raw_len(value)
        if size > limit:
            raise MessageError(f"a snappy value of {size} bytes unpacked; {limit} are allowed")
        return bytes(cramjam.snappy.decompress_raw(value))
    except cramjam.DecompressionError as error:
        raise MessageError(f"neither JSON nor snappy nor lz4: begins with {value[:8]!r}") from error


def _lz4(value: bytes, limit: int) -> bytes:
    # an lz4 frame need not have its size: unpack into a buffer that has an end
    room = min(limit, max(len(value) * 256, 1 << 16)) + 1
    buffer = bytearray(room)
    size = cramjam.lz4.decompress_into(value, buffer)
    if size > limit:
        raise MessageError(f"an lz4 value of more than {limit} bytes unpacked")
    return bytes(memoryview(buffer)[:size])
