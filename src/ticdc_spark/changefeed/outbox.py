"""Encodes the sequence's actions and hands them to the producer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ticdc_spark.changefeed.actions import Place, SendBootstrap, SendDdl, SendRows, SendWatermark
from ticdc_spark.changefeed.encoders import EncoderFor
from ticdc_spark.changefeed.sent import SentCounts
from ticdc_spark.errors import UnsendableChange
from ticdc_spark.model import RowChange, SchemaChange
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import protocol
from ticdc_spark.protocols.base import Encoded, Encoder
from ticdc_spark.streams.target_tables import TargetTables
from ticdc_spark.streams.write_changes import UNWRITABLE, write_changes

_OVERHEAD = 36
"""Bytes that Kafka may add to a record. TiCDC counts them towards max-message-bytes."""
_WAYS_OUT = (
    "raise the topic's max.message.bytes and max-message-bytes, or set large-message-handle-option to "
    "handle-key-only or claim-check (open-protocol, simple, canal-json with enable-tidb-extension)"
)


class Sends(Protocol):
    """A producer."""

    def receipt(self, ticket: int, messages: int, into: list[int]) -> Any:
        """A counter of a ticket's acknowledgements. When all have arrived, it appends the ticket to ``into``."""

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, receipt: Any) -> None:
        """Queue a message. Raises: SinkFault"""


class Outbox:
    """Does actions; ``acknowledged`` collects their tickets."""

    def __init__(
        self,
        name: str,
        encoder_for: EncoderFor,
        limit: Callable[[str], int],
        producer: Sends,
        tables: TargetTables | None = None,
        counts: SentCounts | None = None,
    ) -> None:
        """``name``: the protocol. ``limit``: a topic's message size in bytes. ``tables``: already completed.
        ``counts``: to which it adds."""
        self.counts = counts or SentCounts()
        self._tables = tables or TargetTables(protocol(name).traits)
        self._encoder_for = encoder_for
        self._encoders: dict[int, Encoder] = {}
        self._limit = limit
        self._producer = producer
        self.acknowledged: list[int] = []
        self.rows = 0
        self.messages = 0

    def do(self, action: SendRows | SendDdl | SendBootstrap | SendWatermark) -> None:
        """Encode and queue what an action sends.

        Raises: UnsendableChange if something cannot be written or is too large; SinkFault.
        """
        match action:
            case SendRows():
                self._rows(action)
            case SendDdl():
                ddl = self._ddl(action)
                self._everywhere(action.ticket, action.places, ddl, _named(action.change))
                self.counts.ddls += ddl is not None
            case SendBootstrap():
                table = self._tables.table(action.table, action.commit_ts)
                encoded = self._encoder(action.places[0][0]).bootstrap(table)
                self._everywhere(action.ticket, action.places, encoded, f"BOOTSTRAP of `{table.schema}`.`{table.name}`")
            case SendWatermark():
                encoded = self._encoder(action.places[0][0]).watermark(action.commit_ts)
                self._everywhere(action.ticket, action.places, encoded, "WATERMARK")

    def _encoder(self, topic: str) -> Encoder:
        limit = self._limit(topic)
        found = self._encoders.get(limit)
        if found is None:
            found = self._encoders[limit] = self._encoder_for(limit)
        return found

    def _rows(self, action: SendRows) -> None:
        topic = action.place[0]
        complete = self._tables.row
        changes = [complete(change) for change in action.changes]
        encoder = self._encoder(topic)
        try:
            encoded = list(encoder.rows(changes))
        except UNWRITABLE as error:
            _, bad = write_changes(encoder, changes)
            raise _unwritable(changes, bad, topic) from error
        limit, at, size_of_all = self._limit(topic), 0, 0
        for one in encoded:
            size = len(one.key or b"") + len(one.value or b"") + _OVERHEAD
            if size > limit:
                raise UnsendableChange(
                    f"{describe(changes[at])}: its message takes {size} bytes, and topic {topic!r} takes {limit}: "
                    + _WAYS_OUT
                )
            at += one.rows
            size_of_all += size - _OVERHEAD
        self._send(action.ticket, [(action.place, one) for one in encoded])
        self.rows += len(changes)
        self.counts.bytes += size_of_all
        self.counts.add_changes(action.changes)

    def _ddl(self, action: SendDdl) -> Encoded | None:
        try:
            self._tables.learn(action.change)
            change = self._tables.captured_ddl(action.change)
            return self._encoder(action.places[0][0]).ddl(change)
        except UNWRITABLE as error:
            raise UnsendableChange(f"{_named(action.change)} cannot be written: {error}") from error

    def _everywhere(self, ticket: int, places: Sequence[Place], encoded: Encoded | None, what: str) -> None:
        if encoded is None:
            self.acknowledged.append(ticket)
            return
        size = len(encoded.key or b"") + len(encoded.value or b"") + _OVERHEAD
        for topic in {topic for topic, _ in places}:
            if size > self._limit(topic):
                raise UnsendableChange(
                    f"{what} takes {size} bytes, and topic {topic!r} takes {self._limit(topic)}: raise the topic's "
                    "max.message.bytes and max-message-bytes"
                )
        self._send(ticket, [(place, encoded) for place in places])
        self.counts.bytes += (size - _OVERHEAD) * len(places)

    def _send(self, ticket: int, messages: Sequence[tuple[Place, Encoded]]) -> None:
        if not messages:
            self.acknowledged.append(ticket)
            return
        receipt = self._producer.receipt(ticket, len(messages), self.acknowledged)
        send = self._producer.send
        for (topic, partition), encoded in messages:
            send(topic, partition, encoded.key, encoded.value, receipt)
        self.messages += len(messages)


def describe(change: RowChange) -> str:
    """The row's table, key and commitTs, as text."""
    table = change.table
    row = change.before if change.after is None else change.after
    names = handle_key(table)
    key = ", ".join(f"{name}={(row or {}).get(name)!r:.60}" for name in names) or "no key"
    return f"a row of `{table.schema}`.`{table.name}` ({key}), {change.op} at commitTs {change.commit_ts}"


def _unwritable(changes: Sequence[RowChange], bad: dict[int, str], topic: str) -> UnsendableChange:
    at, reason = next(iter(bad.items()))
    large = f": {_WAYS_OUT}" if "max-message-bytes" in reason else ""
    return UnsendableChange(f"{describe(changes[at])} cannot be written to topic {topic!r}: {reason}{large}")


def _named(change: SchemaChange) -> str:
    return f"the DDL at commitTs {change.commit_ts} ({change.query[:200]})"
