"""Decoders that add what messages alone do not have: schemas from elsewhere, messages kept elsewhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import CreateTable, RestoreTable
from ticdc_spark.model import Envelope, Event, Message, SchemaChange, Table
from ticdc_spark.protocols.base import Decoder, ReadOptions, RowReader
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.streams.sql_tables import SqlTables


class Described:
    """Reads as ``decoder`` does, and gives a DDL the tables that ``changes`` have for it, if any."""

    def __init__(self, decoder: Decoder, changes: Iterable[SchemaChange]) -> None:
        self.name = decoder.name
        self.decoder = decoder
        self._changes = {(change.commit_ts, change.query): change for change in changes}

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        return [
            self._described(event) if isinstance(event, SchemaChange) else event
            for event in self.decoder.open_message(key, value)
        ]

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        return self.decoder.row_reader(table, options, only)

    def _described(self, change: SchemaChange) -> SchemaChange:
        known = self._changes.get((change.commit_ts, change.query), change)
        return replace(change, table=known.table, pre_table=known.pre_table)


def schema_changes(messages: Iterable[Message], decoder: Decoder) -> list[SchemaChange]:
    """The DDLs of a topic."""
    events = (event for message in messages for event in decoder.open_message(message.key, message.value))
    return [event for event in events if isinstance(event, SchemaChange)]


class Fetched:
    """Reads as ``decoder`` does, and takes messages kept elsewhere from a claim check's folder."""

    def __init__(self, decoder: Decoder, folder: Path, *, raw: bool, keyed: bool) -> None:
        """``raw``: files hold bare values. ``keyed``: what is stored has a key of its own (Open)."""
        self.name = decoder.name
        self.row_reader = decoder.row_reader
        self.taken: set[str] = set()
        self._decoder, self._folder, self._raw, self._keyed = decoder, folder, raw, keyed

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        return [
            self._whole(event.claim_check) if isinstance(event, Envelope) and event.claim_check else event
            for event in self._decoder.open_message(key, value)
        ]

    def _whole(self, location: str) -> Event:
        name = location.rpartition("/")[2]
        self.taken.add(name)
        kept = (self._folder / name).read_bytes()
        key: bytes | None = None
        if not self._raw:
            stored = json.loads(kept)
            kept = base64.b64decode(stored["value"])
            key = base64.b64decode(stored["key"]) if self._keyed else None
        (event,) = self._decoder.open_message(key, kept)
        return event


class Sanitised:
    """Reads Avro with ``avro-enable-watermark``: its DDLs with the schemas by their SQL, in Avro's names."""

    def __init__(self, decoder: Decoder) -> None:
        self.name = decoder.name
        self._decoder, self._tables = decoder, SqlTables()

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        # the new architecture registers hidden columns, too
        return self._decoder.row_reader(table, options, only or frozenset(column.name for column in table.columns))

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        return [self._described(event) for event in self._decoder.open_message(key, value)]

    def _described(self, change: Event) -> Event:
        if isinstance(change, Envelope):
            return replace(change, schema_key="")  # images name their schemas themselves
        if not isinstance(change, SchemaChange):
            return change
        self._tables.follow(change)
        before, after = self._tables.around(change)
        if before is None and after is not None and not isinstance(parse(change.query), CreateTable | RestoreTable):
            return change  # a move into another schema: its message does not name the old one
        return replace(change, table=_clean(after or before), pre_table=_clean(before))


def _clean(table: Table | None) -> Table | None:
    if table is None:
        return None
    columns = tuple(replace(column, name=sanitized(column.name)) for column in table.columns)
    indexes = tuple(replace(index, columns=tuple(map(sanitized, index.columns))) for index in table.indexes)
    return replace(table, schema=sanitized(table.schema), name=sanitized(table.name), columns=columns, indexes=indexes)
