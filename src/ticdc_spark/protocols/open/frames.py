"""The binary frame of the Open protocol: several keys in a Kafka key, as many values in its value.

Key: version (8 bytes, big endian, 1), then per event a length (8 bytes) and JSON. Value: per event a length and JSON,
without a version; TiCDC may compress each of these on its own. Source: the Open protocol document, "Message".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec

from ticdc_spark.errors import MessageError

VERSION = 1
_LENGTH = struct.Struct(">Q")
_HEAD = _LENGTH.pack(VERSION)
HEAD_BYTES = len(_HEAD)
LENGTH_BYTES = _LENGTH.size
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEY_FIELDS = {"ts", "t", "scm", "tbl", "rid", "ptn", "ohk", "ccl"}


def is_bare_key(raw: bytes) -> bool:
    """Whether bytes are the JSON of an event's key, without its frame."""
    if raw[:1] not in (b"{", b" ", b"\t", b"\r", b"\n"):
        return False
    try:
        return {"ts", "t"} <= _FIELDS.decode(raw).keys() <= _KEY_FIELDS
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def split_keys(key: bytes) -> list[bytes]:
    """The events' keys in a Kafka key; none for an empty batch, which is only the version.

    Raises: MessageError for another version, or a length beyond the end.
    """
    if is_bare_key(key):
        raise MessageError(
            "an Open key without its frame: 8 bytes with the version (1) and 8 with the key's length come before the "
            "JSON. A value has 8 bytes with its length before the JSON"
        )
    if len(key) < HEAD_BYTES:
        raise MessageError(f"an Open key begins with 8 bytes of version; this one has {len(key)} bytes")
    (version,) = _LENGTH.unpack_from(key)
    if version != VERSION:
        raise MessageError(f"Open protocol version is {version:#x}; this version reads {VERSION}")
    return _split(key, HEAD_BYTES, "key")


def split_values(value: bytes | None) -> list[bytes]:
    """The events' values in a Kafka value. A null or empty one counts as one empty value (of a resolved event).

    Raises: MessageError for a length beyond the end.
    """
    return _split(value, 0, "value") if value else [b""]


def _split(framed: bytes, at: int, what: str) -> list[bytes]:
    parts, end = [], len(framed)
    while at < end:
        if end - at < LENGTH_BYTES:
            raise MessageError(f"Open {what}: {end - at} bytes left where 8 bytes of length are expected")
        (length,) = _LENGTH.unpack_from(framed, at)
        at += LENGTH_BYTES
        # compared before slicing, so that a huge length costs nothing
        if length > end - at:
            raise MessageError(f"Open {what}: a length of {length} bytes where {end - at} are left")
        parts.append(framed[at : at + length])
        at += length
    return parts


def frame_key(keys: Iterable[bytes]) -> bytes:
    """The Kafka key of events' keys."""
    return _HEAD + frame_value(keys)


def frame_value(values: Iterable[bytes]) -> bytes:
    """The Kafka value of events' values."""
    return b"".join(_LENGTH.pack(len(part)) + part for part in values)
