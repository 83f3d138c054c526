"""VECTOR: numbers of 32 bits in MySQL, a text like ``[1,0.5]`` in TiDB and in messages."""

from __future__ import annotations

import struct

from ticdc_spark.errors import MessageError
from ticdc_spark.mysql.values import float_text


def vector_text(data: bytes) -> str:
    """The text of MySQL's bytes. Raises: MessageError if they are no finite numbers"""
    if len(data) % 4:
        raise MessageError(f"a VECTOR has {len(data)} bytes, which are no numbers of 4 bytes")
    return f"[{','.join(float_text(number, 32) for number in struct.unpack(f'<{len(data) // 4}f', data))}]"
