"""Large messages whose rows are in a storage: reads the row that a message points to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from ticdc_spark.clients.claim_check import read_stored
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope, Event, Rejected
from ticdc_spark.protocols.base import Decoder

Fetch: TypeAlias = Callable[[str], bytes]
"""Location → the file's content; ``clients.claim_check.ClaimCheckStorage.fetch``. MessageError rejects the row,
EnvironmentFault is raised."""


class Whole(NamedTuple):
    """A message as it would have been sent whole, and its only row."""

    key: bytes | None
    value: bytes
    event: Envelope | Rejected


def resolve(decoder: Decoder, envelope: Envelope, fetch: Fetch) -> Whole:
    """The whole row of an envelope with a ``claim_check``; ``Rejected`` if the file does not have it.

    Raises: EnvironmentFault from ``fetch``, such as SourceFault for a missing file.
    """
    location = envelope.claim_check or ""
    try:
        key, value = read_stored(fetch(location))
    except MessageError as error:
        return Whole(None, b"", Rejected(str(error)))
    return Whole(key, value, _row(decoder, envelope, key, value))


def whole_messages(decoder: Decoder, opened: Sequence[Sequence[Event]], fetch: Fetch | None) -> list[Sequence[Event]]:
    """Opened messages, with rows from the storage inserted. Without ``fetch`` such rows are rejected.

    Raises: EnvironmentFault from ``fetch``.
    """

    def whole(event: Event) -> Event:
        if not isinstance(event, Envelope) or not event.claim_check:
            return event
        if fetch is None:
            return Rejected(f"the row is kept at {event.claim_check}: claim-check-storage names that place")
        return resolve(decoder, event, fetch).event

    return [[whole(event) for event in events] for events in opened]


def _row(decoder: Decoder, envelope: Envelope, key: bytes | None, value: bytes) -> Envelope | Rejected:
    where = f"claim check {envelope.claim_check}"
    events = decoder.open_message(key, value)
    if len(events) != 1:
        return Rejected(f"{where}: {len(events)} events in a file, which holds one")
    (event,) = events
    if isinstance(event, Rejected):
        return Rejected(f"{where}: {event.reason}")
    # the op may differ: a message with keys only does not show whether an update had old values
    if not isinstance(event, Envelope) or _about(event) != _about(envelope):
        return Rejected(f"{where}: the file holds another event than the message names")
    return event


def _about(event: Envelope) -> tuple[object, ...]:
    return event.schema, event.table, event.commit_ts, event.schema_key, event.op == "delete"
