"""Which protocol messages are of, told by their bytes alone.

================  =====================================================================================
open              the key begins with version 1 in eight bytes; behind it stands a length and JSON
avro              key or value begin with 0x00 and a schema's id; or a value of ``avro-enable-watermark``
debezium-avro     the same, and the value holds Debezium's source: TiCDC's connector behind a version
simple            the key is null; the value begins with 0x16 (Avro), or is JSON with ``version`` and ``type``
debezium          JSON with ``payload``, or, without schema, with ``source`` beside ``op`` or ``ddl``
canal-json        JSON with ``isDdl``
================  =====================================================================================

JSON may be compressed. A tombstone tells nothing where its key does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.wire.compression import unpack

ENOUGH = 16
"""More messages than this need not be shown: one is nearly always enough."""
_OPEN_VERSION = (1).to_bytes(8)
_SIMPLE_AVRO = b"\x16"
_REGISTRY = b"\x00"
_REGISTRY_HEAD = 5
_MARK_BYTES = 9
"""Of a watermark or delete of ``avro-enable-watermark``: what it is, and a TSO."""
_DEBEZIUM_SOURCE = re.compile(rb"\.Final\x0aTiCDC")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def detect(messages: Sequence[tuple[bytes | None, bytes | None]]) -> str:
    """The name of the protocol of some messages (key, value), as in ``PROTOCOLS``.

    Raises: UsageError if none of them tells it, or if they are of several protocols.
    """
    found: dict[str, int] = {}
    for at, (key, value) in enumerate(messages):
        name = _detect(key, value)
        if name is not None:
            found.setdefault(name, at)
    if len(found) == 1:
        return next(iter(found))
    if not found:
        seen = next((f"; the first value begins with {value[:8]!r}" for _, value in messages if value), "")
        what = f"none of {len(messages)} messages tells it{seen}" if messages else "there are no messages"
        raise UsageError(f"the protocol cannot be detected: {what}; name it with protocol")
    which = ", ".join(f"{name} (message {at})" for name, at in found.items())
    raise UsageError(f"the protocol cannot be detected: the messages look like {which}; name it with protocol")


def describe_other(messages: Iterable[tuple[bytes | None, bytes | None]], expected: str) -> str | None:
    """``these look like simple``, of messages (key, value) that could not be read as ``expected``; never raises.

    ``None`` if they tell nothing, or if one of them looks as expected: then it is no wrong name but a bad message.
    """
    found: dict[str, None] = {}
    for key, value in messages:
        name = _detect(key, value)
        if name == "avro" and expected == "debezium-avro" and value is None:
            continue  # a delete's key looks the same in both
        if name == expected:
            return None
        if name is not None:
            found[name] = None
    return f"these look like {' and '.join(found)}" if found else None


def _detect(key: bytes | None, value: bytes | None) -> str | None:
    if key and key[:8] == _OPEN_VERSION and key[16:17] == b"{":
        return "open"
    if value and key is None and value[:1] == _SIMPLE_AVRO:
        return "simple"
    if _is_registered(key) or _is_registered(value):
        return "debezium-avro" if value and _DEBEZIUM_SOURCE.search(value) else "avro"
    if not value:
        return None
    if key is None and (value[:2] == b"\x01{" or (value[:1] in (b"\x02", b"\x03") and len(value) == _MARK_BYTES)):
        return "avro"
    try:
        fields = _FIELDS.decode(unpack(value)).keys()
    except (MessageError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "debezium" if value.startswith(b'{"payload":') else None  # it may hold bytes that are not UTF-8
    return _of_fields(fields)


def _is_registered(data: bytes | None) -> bool:
    return data is not None and data[:1] == _REGISTRY and len(data) >= _REGISTRY_HEAD


def _of_fields(fields: Collection[str]) -> str | None:
    if "isDdl" in fields:
        return "canal-json"
    if "payload" in fields or ("source" in fields and ("op" in fields or "ddl" in fields)):
        return "debezium"
    return "simple" if "version" in fields and "type" in fields else None
