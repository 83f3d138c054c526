"""Detects the protocol of messages from their bytes.

Each protocol decides whether a message is its own: first by its framing (``WireProtocol.is_framed``), then by the
fields of its JSON (``is_json``). JSON may be compressed. A tombstone shows the protocol only by its key, if at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

import msgspec

from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Message
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.streams.other_producers import PLAIN_JSON, other_producer
from ticdc_spark.topics.storage.other_files import is_unreadable
from ticdc_spark.wire.compression import unpack

ENOUGH = 16
"""More messages than this are never needed. One is nearly always enough."""
_LOOKED_AT = 1000
"""How many messages of a stream are examined before detection fails."""
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def detect(messages: Sequence[tuple[bytes | None, bytes | None]], option: str = "protocol") -> str:
    """The protocol of some messages (key, value), by its name in ``PROTOCOLS``. ``option``: the option that names it.

    Raises: UsageError if no message shows it, or they are of several protocols, or of a program that is not read.
    """
    found: dict[str, int] = {}
    others: dict[str, int] = {}
    for at, (key, value) in enumerate(messages):
        name = _detect(key, value)
        if name is not None:
            found.setdefault(name, at)
        elif other := _other(key, value):
            others.setdefault(other, at)
    if len(found) == 1:
        return next(iter(found))
    if not found and others:
        which = " and ".join(f"{name} (message {at})" for name, at in others.items())
        raise UsageError(f"{option}: the messages look like {which}; allowed: messages of {', '.join(PROTOCOLS)}")
    if not found:
        seen = next((f"; the first value begins with {value[:8]!r}" for _, value in messages if value), "")
        what = f"none of {len(messages)} messages shows it{seen}" if messages else "there are no messages"
        raise UsageError(f"{option}: the protocol cannot be detected: {what}; name it here")
    which = ", ".join(f"{name} (message {at})" for name, at in found.items())
    raise UsageError(f"{option}: the protocol cannot be detected: the messages look like {which}; name it here")


def detected(messages: Iterator[Message], enough: int, option: str = "protocol") -> tuple[str, Iterator[Message]]:
    """The protocol of a stream, from its first messages, and all of its messages. ``enough``: read at once.

    Raises: UsageError as ``detect``.
    """
    seen: list[Message] = []
    while True:
        more = list(islice(messages, enough))
        seen += more
        try:
            return detect([(message.key, message.value) for message in seen], option), chain(seen, messages)
        except UsageError:
            # a bad message may precede good ones
            if len(more) < enough or len(seen) >= _LOOKED_AT:
                raise


def describe_other(messages: Iterable[tuple[bytes | None, bytes | None]], expected: str) -> str | None:
    """``these look like simple``, for messages (key, value) that could not be read as ``expected``. Never raises.

    ``None`` if they show nothing, or if one looks as expected: then the protocol is right and a message is bad. Plain
    JSON counts only if all messages are, and there are more than a few, as a single one may be a bad message.
    """
    found: dict[str, None] = {}
    count = 0
    for key, value in messages:
        count += 1
        name = _detect(key, value)
        if name == expected:
            return None
        if name is None:
            name = _other(key, value)
        elif value is None and _share_registry(name, expected):
            continue
        if name is not None:
            found[name] = None
    if PLAIN_JSON in found and (count < ENOUGH or len(found) > 1):
        del found[PLAIN_JSON]
    return f"these look like {' and '.join(found)}" if found else None


def looks_like(key: bytes | None, value: bytes | None, expected: str) -> str | None:
    """``simple`` or ``Maxwell``, for a message that could not be read as ``expected``; ``None`` if it shows nothing."""
    name = _detect(key, value)
    if name is not None and PROTOCOLS[name].traits.registry and PROTOCOLS[expected].traits.registry:
        return None  # the same framing
    if PROTOCOLS[expected].lacks_frame(key, value):
        return None  # its own reason says so
    return None if name == expected else name or _other(key, value)


def _share_registry(name: str, expected: str) -> bool:
    """Whether both use a schema registry: then a delete's key looks the same."""
    return PROTOCOLS[name].traits.registry and PROTOCOLS[expected].traits.registry


def _detect(key: bytes | None, value: bytes | None) -> str | None:
    for name, protocol in PROTOCOLS.items():
        if protocol.is_framed(key, value):
            return name
    if not value:
        return None
    fields = _fields(value)
    return next((name for name, protocol in PROTOCOLS.items() if protocol.is_json(value, fields)), None)


def _other(key: bytes | None, value: bytes | None) -> str | None:
    bare = next((name for name, protocol in PROTOCOLS.items() if protocol.lacks_frame(key, value)), None)
    if bare is not None:
        return f"{bare} without its binary frame"
    if not value or is_unreadable(value):  # a record of CSV says itself what is wrong
        return None
    return other_producer(value, _fields(value))


def _fields(value: bytes) -> Collection[str]:
    """The fields of a JSON object, which may be compressed; none if it is no object."""
    try:
        return _FIELDS.decode(unpack(value)).keys()
    except (MessageError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
