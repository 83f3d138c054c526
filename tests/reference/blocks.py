"""The reference for Debezium without DDL: a row's schema block describes its table, and not what was done to it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.registry import RegistryApplier
from tests.reference.state import Name
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope, Event, Table
from ticdc_spark.protocols.base import ReadOptions, RowReader
from ticdc_spark.protocols.debezium.decode import DebeziumDecoder
from ticdc_spark.protocols.debezium.tables import table_of_row


class BlockDecoder:
    """Reads Debezium, and keeps the tables of the blocks that it met."""

    name = "debezium"

    def __init__(self) -> None:
        self._decoder = DebeziumDecoder(block_keys=True)
        self.tables: dict[tuple[str, str, str], Table] = {}

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        return self._decoder.row_reader(table, options, only)

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        events = self._decoder.open_message(key, value)
        for event in events:
            if isinstance(event, Envelope):
                identity = (event.schema, event.table, event.schema_key)
                try:
                    self.tables.setdefault(identity, table_of_row(event.schema, event.table, key, value or b""))
                except MessageError:
                    continue
        return events


class BlockApplier(RegistryApplier):
    """In arrival mode; tables follow the blocks of their rows."""

    decoder: BlockDecoder

    def learn(self, name: Name, envelope: Envelope) -> None:
        seen = (name, None, envelope.schema_key)
        if seen in self.seen:
            return
        self.seen.add(seen)
        new = self.decoder.tables[(*name, envelope.schema_key)]
        if name not in self.lake.tables:
            self.lake.tables[name] = (new, {})
        elif envelope.commit_ts >= self.newest[name]:
            self.follow(name, new)
        self.newest[name] = max(envelope.commit_ts, self.newest.get(name, 0))
