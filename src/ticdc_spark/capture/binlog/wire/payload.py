"""TRANSACTION_PAYLOAD events: a compressed transaction of MySQL (binlog_transaction_compression).

Written from the format's description, without a MySQL server to compare with.
"""

from __future__ import annotations

from collections.abc import Iterator

import cramjam

from ticdc_spark.capture.binlog.wire.events import HEADER, Event
from ticdc_spark.capture.binlog.wire.parts import packed, uint
from ticdc_spark.errors import MessageError

_END, _COMPRESSION, _UNCOMPRESSED = 0, 2, 3
_ZSTD, _NONE = 0, 255


def unpack(event: Event) -> Iterator[Event]:
    """The events inside. They have no checksum; the last one ends where the payload does.

    Raises: MessageError for bytes that are no events.
    """
    body, at, compression, length = event.body, 0, _ZSTD, 0
    while True:
        field, at = packed(body, at)
        if field == _END:
            break
        size, at = packed(body, at)
        if field == _COMPRESSION:
            compression, _ = packed(body, at)
        elif field == _UNCOMPRESSED:
            length, _ = packed(body, at)
        at += size
    data = body[at:]
    if compression == _ZSTD:
        try:
            data = bytes(cramjam.zstd.decompress(data, length or None))
        except cramjam.DecompressionError as error:
            raise MessageError(f"binlog: a compressed transaction cannot be unpacked: {error}") from error
    elif compression != _NONE:
        raise MessageError(f"binlog: a transaction is compressed by method {compression}; allowed: zstd (0)")
    at = 0
    while at < len(data):
        uint(data, at, HEADER.size)
        timestamp, kind, _, size, _, _ = HEADER.unpack_from(data, at)
        last = at + size >= len(data)
        yield Event(kind, timestamp, event.end if last else 0, size, data[at + HEADER.size : at + size])
        at += max(size, HEADER.size)
