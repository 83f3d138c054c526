"""A protocol whose DDLs carry only SQL, with some schemas told from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ticdc_spark.model import Event, Message, SchemaChange, Table
from ticdc_spark.protocols.base import Decoder, ReadOptions, RowReader


class Told:
    """Reads as ``decoder`` does, and gives a DDL the tables that ``changes`` have for it, if any."""

    def __init__(self, decoder: Decoder, changes: Iterable[SchemaChange]) -> None:
        self.name, self.has_watermark = decoder.name, decoder.has_watermark
        self._decoder = decoder
        self._changes = {(change.commit_ts, change.query): change for change in changes}

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        return [
            self._told(event) if isinstance(event, SchemaChange) else event
            for event in self._decoder.open_message(key, value)
        ]

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        return self._decoder.row_reader(table, options, only)

    def _told(self, change: SchemaChange) -> SchemaChange:
        known = self._changes.get((change.commit_ts, change.query), change)
        return replace(change, table=known.table, pre_table=known.pre_table)


def schema_changes(messages: Iterable[Message], decoder: Decoder) -> list[SchemaChange]:
    """The DDLs of a topic."""
    events = (event for message in messages for event in decoder.open_message(message.key, message.value))
    return [event for event in events if isinstance(event, SchemaChange)]
