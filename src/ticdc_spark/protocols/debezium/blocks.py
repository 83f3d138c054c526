"""Finds payload and schema block of a message without reading the block each time.

The block is most of a message, and the same for all rows of a table's version. So the text after the payload (in
TiCDC's order) or before it (in Kafka Connect's) is looked up by its bytes. Only a new text is read as JSON. A quote in
a JSON string is escaped, so ``},"schema":{`` can only be an object's end and a field's name. It is the right object's
end, as the payload is then read by itself.

Texts that were read before are remembered, up to ``REMEMBERED_BYTES``. Results do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ticdc_spark.protocols.base import BLOCK_MARK

REMEMBERED_BYTES = 32 << 20
_LARGEST = 1 << 20
_PAYLOAD_FIRST = b'{"payload":'
_SCHEMA_FIRST = b'{"schema":'
_SCHEMA_BEHIND = b'},"schema":{'
_PAYLOAD_BEHIND = b'},"payload":'
_AT_PAYLOAD = len(_PAYLOAD_FIRST)
_SOURCE_BYTES = 200
"""A payload begins with ``source``, which is longer in TiCDC. In a shorter payload, the block is not found quickly."""
_KEY_BYTES = 8
_NONE: tuple[bytes, None] = b"", None


class WireField(msgspec.Struct, gc=False):
    """A field of a Kafka Connect struct. Only a struct has ``fields``."""

    type: str
    optional: bool = False
    field: str = ""
    name: str | None = None
    parameters: dict[str, str] | None = None
    default: Any = None
    fields: list[WireField] | None = None
    tidb_type: str = ""


class Block:
    """A schema block."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        """Its JSON."""
        self.heads: dict[bool, bytes] = {}
        """Heads that ``debezium.native`` made from it."""

    @cached_property
    def key(self) -> str:
        """A hash of its bytes, which is the schema key of rows."""
        return BLOCK_MARK + blake2b(self.raw, digest_size=_KEY_BYTES).hexdigest()

    @property
    def schema(self) -> WireField:
        """The parsed block.

        Raises: msgspec's errors if it is no schema.
        """
        return _SCHEMA.decode(self.raw)


def columns_of(block: Block) -> Sequence[WireField]:
    """The columns that a value's block declares; none if it is no row's block.

    Raises: msgspec's errors if it is no schema.
    """
    for field in block.schema.fields or ():
        if field.field in ("after", "before") and field.fields is not None:
            return field.fields
    return ()


class WireMessage(msgspec.Struct, gc=False):
    """A message, with its parts unread."""

    payload: msgspec.Raw | UnsetType = UNSET
    schema: msgspec.Raw = msgspec.Raw()


_SCHEMA = msgspec.json.Decoder(WireField)
_MESSAGE = msgspec.json.Decoder(WireMessage)


class _Remembered:
    """Blocks by the text around them. All are forgotten at once when there are too many."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, Block] = {}
        self.newest: dict[int, tuple[bytes, Block]] = {}
        """The last text of each length: comparing takes a tenth of the time of hashing."""
        self.size = 0
        """Bytes of texts and blocks."""

    def find(self, text: bytes) -> Block | None:
        block = self.blocks.get(text)
        if block is not None:
            self.newest[len(text)] = text, block
        return block

    def add(self, text: bytes, block: Block) -> None:
        size = len(text) + len(block.raw)
        if size > _LARGEST or text in self.blocks:
            return
        if self.size + size > REMEMBERED_BYTES:
            self.blocks.clear()
            self.newest.clear()
            self.size = 0
        self.blocks[text] = block
        self.size += size


REMEMBERED = _Remembered()


def quick_parts(value: bytes) -> tuple[bytes, Block | None] | None:
    """An unread payload, and a block that was seen before; ``None`` if there is none.

    The message is valid if and only if the payload is one JSON value.
    """
    if value.startswith(_PAYLOAD_FIRST):
        end = value.find(_SCHEMA_BEHIND, _SOURCE_BYTES) + 1
        if not end:
            return (value[_AT_PAYLOAD:-1], None) if value.endswith(b"}}") else None
        text, block = REMEMBERED.newest.get(len(value) - end, _NONE)
        if block is None or not value.endswith(text):
            block = REMEMBERED.find(value[end:])
        return None if block is None else (value[_AT_PAYLOAD:end], block)
    if value.startswith(_SCHEMA_FIRST) and value.endswith(b"}"):
        end = value.find(_PAYLOAD_BEHIND) + 1
        text, block = REMEMBERED.newest.get(end, _NONE)
        if block is None or not value.startswith(text):
            block = REMEMBERED.find(value[:end])
        return None if block is None else (value[end + len(_PAYLOAD_BEHIND) - 1 : -1], block)
    return None


def parts(value: bytes) -> tuple[bytes, Block | None]:
    """Payload and block of any message. Without an envelope (schemas.enable = false), all of it is the payload.

    Raises: msgspec's errors, UnicodeDecodeError or RecursionError if it is no JSON object.
    """
    message = _MESSAGE.decode(value)
    if message.payload is UNSET:
        return value, None
    raw = bytes(message.schema)
    if not raw.startswith(b"{"):
        return bytes(message.payload), None
    block = Block(raw)
    around = _around(value, raw)
    if around is not None:
        known = REMEMBERED.find(around)
        if known is not None:
            return bytes(message.payload), known
        REMEMBERED.add(around, block)
    return bytes(message.payload), block


def _around(value: bytes, raw: bytes) -> bytes | None:
    """The text for ``quick_parts`` to look up: the block and the fixed text around it."""
    if value.startswith(_PAYLOAD_FIRST):
        end = value.find(_SCHEMA_BEHIND, _SOURCE_BYTES) + 1
        return value[end:] if end and value[end:] == b',"schema":' + raw + b"}" else None
    end = value.find(_PAYLOAD_BEHIND) + 1
    return value[:end] if end and value[:end] == _SCHEMA_FIRST + raw else None
