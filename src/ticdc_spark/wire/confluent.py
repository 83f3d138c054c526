"""The framing of Avro messages whose schemas are in a Confluent schema registry.

Byte 0x00, the schema's id in four bytes (big-endian), the Avro bytes.
"""

from __future__ import annotations

from struct import Struct

from ticdc_spark.errors import MessageError

MAGIC = b"\0"
HEAD = 5
"""Offset of the Avro bytes."""
_HEADER = Struct(">BI")


def is_framed(data: bytes | None) -> bool:
    """Whether a key or value begins with a schema's id."""
    return data is not None and data[:1] == MAGIC and len(data) >= HEAD


def schema_id(message: bytes) -> int:
    """The id of a message's schema.

    Raises: MessageError if it is not framed.
    """
    if len(message) < HEAD or message[:1] != MAGIC:
        raise MessageError(f"no schema registry framing: begins with {message[:HEAD]!r}; expected 0x00 and four bytes")
    found: int = _HEADER.unpack_from(message)[1]
    return found


def frame(number: int) -> bytes:
    """The bytes before the Avro bytes, for a schema's id."""
    return _HEADER.pack(0, number)


def subjects(topic: str) -> tuple[str, str]:
    """The subjects of a topic's keys and values, as TiCDC names them: TopicNameStrategy, with ``_`` for each dot."""
    name = topic.replace(".", "_")
    return f"{name}-key", f"{name}-value"


def head(part: bytes | None) -> bytes | None:
    """The frame of a registered schema's id, if a key or value begins with one."""
    return part[:HEAD] if part is not None and is_framed(part) else None
