"""Reads the events of a stream of messages with their values, for ``inspect`` and ``convert``.

The schema of a row is, for each protocol:

- Simple: the schema of the version that the row names. It may arrive later, or in another partition. Until then the row
  waits, and so does every later row of its table, up to ``Holding`` rows and bytes. Beyond that, and at the end, the
  oldest rows are rejected. Reading all schemas first is not possible, as a stream that is followed has no end.
- Open and canal-json: the schema from the DDL so far. If there is none, or it does not fit the row, the schema that the
  row itself shows: everything except the members of ENUM and SET (so values are numbers) and missing columns.
- Debezium: the schema from the DDL so far, or for a table whose CREATE was not seen, from ``tableChanges`` of a DDL. If
  there is none, or it does not fit, the schema of the row's schema block, if it has one.
- Avro: the registered schema that the row names.

A DDL is sent to each partition, and followed once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import msgspec

from ticdc_spark.ddl import Charsets
from ticdc_spark.errors import MessageError
from ticdc_spark.model import (
    Bootstrap,
    Change,
    Envelope,
    Event,
    Message,
    Rejected,
    RowChange,
    SchemaChange,
    Table,
    TableName,
)
from ticdc_spark.mysql import HIDDEN_NAMES, with_hidden_columns
from ticdc_spark.protocols import protocol
from ticdc_spark.protocols.base import Decoder, ReadOptions, RowReader, Schemas, row_change
from ticdc_spark.protocols.checksums import Verify, verifier
from ticdc_spark.streams.claim_check import Fetch, resolve
from ticdc_spark.streams.detect import looks_like
from ticdc_spark.streams.handle_keys import Lookup, complete
from ticdc_spark.streams.sql_tables import SqlTables

TableOf: TypeAlias = Callable[[Envelope], Table | None]
"""Row → its table; ``None``: only the row itself may show it."""
_READERS = 512
_VERSIONS = 10_000


class Found(NamedTuple):
    """An event of a message."""

    message: Message
    seq: int
    """Its position in the message."""
    event: Change | Rejected
    envelope: Envelope | None = None
    """The envelope of a row that was read or rejected."""


class Holding(msgspec.Struct, frozen=True):
    """How much may wait for schemas."""

    rows: int = 10_000
    bytes: int = 64 << 20


class EventReader:
    """Reads one stream of messages. Its memory is bounded: schemas, compiled readers and waiting rows."""

    def __init__(
        self,
        decoder: Decoder,
        options: ReadOptions | None = None,
        *,
        schemas: Schemas | None = None,
        holding: Holding | None = None,
        fetch: Fetch | None = None,
        lookup: Lookup | None = None,
        table_of: TableOf | None = None,
    ) -> None:
        """``schemas``: the decoder's, for a protocol whose rows name schemas of a registry.

        ``fetch`` gets rows that were too large for Kafka from their storage. ``lookup`` asks the upstream for rows
        whose message has only the key. Without these functions, such rows stay unchanged. ``table_of`` already knows
        the tables of all rows. With it, no DDL is followed, and no row waits.
        """
        self._decoder = decoder
        self._options = options or ReadOptions()
        self._rows = _Readers(decoder, self._options, lookup)
        self._versions: OrderedDict[tuple[str, str, str], Table] = OrderedDict()
        self._current = SqlTables()
        self._held = _Held(holding or Holding())
        self._protocol = protocol(decoder.name)
        self._of_row = self._protocol.row_tables(schemas)
        self._follows = not self._protocol.traits.versioned_tables
        self._table_of = table_of
        self._fetch = fetch

    def read(self, message: Message) -> Iterator[Found]:
        """The events of a message, and rows that waited for its schema."""
        for seq, event in enumerate(self._decoder.open_message(message.key, message.value)):
            yield from self.read_event(message, seq, event)
        while self._held.is_full():
            yield from self._give_up()

    def read_event(self, message: Message, seq: int, event: Event) -> Iterator[Found]:
        """``read`` for one event of a message, for callers that open messages and order events themselves."""
        if isinstance(event, Envelope):
            found = self._whole(Found(message, seq, _WAITING, event))
            if found.event is _WAITING:
                yield from self._row(found)
            else:
                yield found
            return
        if isinstance(event, SchemaChange) and self._follows and self._table_of is None:
            self._current.follow(event, self._of_ddl(message))
        if isinstance(event, Rejected) and (other := looks_like(message.key, message.value, self._decoder.name)):
            event = Rejected(f"{event.reason}; this looks like {other}")
        yield Found(message, seq, event)
        if self._table_of is not None:
            return
        if isinstance(event, SchemaChange):
            yield from self._ddl(event)
        elif isinstance(event, Bootstrap):
            yield from self._schema(event.table)

    def must_wait(self, envelope: Envelope) -> bool:
        """Whether a row names a version of its table that has not arrived yet."""
        if self._of_row is not None or not envelope.schema_key:
            return False
        return (envelope.schema, envelope.table, envelope.schema_key) not in self._versions

    def learn(self, message: Message) -> None:
        """Take only the schemas of a message from before the stream."""
        for event in self._decoder.open_message(message.key, message.value):
            if isinstance(event, SchemaChange):
                if self._follows:
                    self._current.follow(event, self._of_ddl(message))
                for table in (event.pre_table, event.table):
                    self._add(table)
            elif isinstance(event, Bootstrap):
                self._add(event.table)

    def add_schemas(self, tables: Iterable[Table]) -> None:
        """Take versions of tables from outside the stream, for protocols whose rows name them."""
        for table in tables:
            self._add(table)

    def go_on_from(self, tables: Iterable[Table], charsets: Charsets = MappingProxyType({})) -> None:
        """Take the tables, and the charsets of databases, from when reading stopped. Call it before any message."""
        self._current.charsets = charsets
        for table in tables:
            if self._follows:
                self._current.tables[table.full_name] = table
            else:
                self._add(table)

    def prepare_for(self, tables: Iterable[Table]) -> None:
        """Take unknown versions from messages that are read before earlier rows.

        A TRUNCATE may not change the version: the known table stays until the DDL is read in order.
        """
        for table in tables:
            if (table.schema, table.name, str(table.version)) not in self._versions:
                self._add(table)

    @property
    def known(self) -> tuple[Table, ...]:
        """The tables for ``go_on_from``, with which another reader reads rows as this one does now."""
        return tuple(self._current.tables.values() if self._follows else self._versions.values())

    def version(self, schema: str, table: str, schema_key: str) -> Table | None:
        """The version of a table that rows name."""
        return self._versions.get((schema, table, schema_key))

    @property
    def follows_ddl(self) -> bool:
        """Whether tables follow from DDL. Otherwise rows name versions, which messages have."""
        return self._follows

    @property
    def waiting(self) -> Collection[TableName]:
        """The tables with rows that wait for a schema."""
        return self._held.tables

    def tables_of(self, change: SchemaChange) -> tuple[Table | None, Table | None]:
        """The table before and after a DDL that was read, as its SQL describes them."""
        return self._current.around(change)

    def finish(self) -> Iterator[Found]:
        """The waiting rows, rejected if their schema never arrived."""
        while self._held.count:
            yield from self._give_up()

    def _whole(self, found: Found) -> Found:
        """A row from the storage, with the message as it would have been sent whole."""
        if self._fetch is None or found.envelope is None or found.envelope.claim_check is None:
            return found
        whole = resolve(self._decoder, found.envelope, self._fetch)
        if isinstance(whole.event, Rejected):
            return found._replace(event=whole.event)
        message = msgspec.structs.replace(found.message, key=whole.key, value=whole.value)
        return found._replace(message=message, envelope=whole.event)

    def _row(self, found: Found) -> Iterator[Found]:
        envelope = found.envelope
        assert envelope is not None
        if self._table_of is not None or self._of_row is not None or not envelope.schema_key:
            yield found._replace(event=self._loose(found.message, envelope))
            return
        table = self._version(found)
        if table is None or self._held.first((envelope.schema, envelope.table)):
            self._held.add((envelope.schema, envelope.table), found)
        else:
            yield found._replace(event=self._rows.read(envelope, table))

    def _of_ddl(self, message: Message) -> tuple[Table, ...]:
        """The tables that a DDL's message has besides its SQL."""
        try:
            return self._protocol.tables_of_ddl(message.value or b"")
        except MessageError:
            return ()  # its SQL does

    def _version(self, found: Found) -> Table | None:
        envelope = found.envelope
        return None if envelope is None else self._versions.get((envelope.schema, envelope.table, envelope.schema_key))

    def _give_up(self) -> Iterator[Found]:
        """Reject the row that has waited longest, and read the rows that waited only for it."""
        name = self._held.oldest()
        found = self._held.pop(name)
        version = found.envelope.schema_key if found.envelope else ""
        yield found._replace(
            event=Rejected(f"no schema for `{name[0]}`.`{name[1]}`, version {version}, in what was read")
        )
        yield from self._go_on(name)

    def _go_on(self, name: TableName) -> Iterator[Found]:
        while (first := self._held.first(name)) and (table := self._version(first)):
            assert first.envelope is not None
            yield self._held.pop(name)._replace(event=self._rows.read(first.envelope, table))

    def _loose(self, message: Message, envelope: Envelope) -> RowChange | Rejected:
        """Read a row with the table from DDL. If that does not fit, read it with the table that the row shows."""
        if self._table_of is not None:
            known = self._table_of(envelope)
        else:
            known = self._current.tables.get((envelope.schema, envelope.table))
        if known is not None:
            change = self._rows.read(envelope, known)
            if isinstance(change, RowChange) and (envelope.partial or _fits(change, known)):
                return change
        if self._of_row is None:
            if known is not None:
                return change
            what = (
                f"no schema of `{envelope.schema}`.`{envelope.table}`, version {envelope.schema_key}, in what was read"
            )
            if not envelope.schema_key:
                what = f"no DDL of `{envelope.schema}`.`{envelope.table}` in what was read, which would give its schema"
            return Rejected(what)
        try:
            return self._rows.read(envelope, self._of_row(message.key, message.value, envelope), of_row=True)
        except MessageError as error:
            return Rejected(str(error))

    def _ddl(self, change: SchemaChange) -> Iterator[Found]:
        for table in (change.pre_table, change.table):
            if table is not None:
                yield from self._schema(table)

    def _schema(self, table: Table) -> Iterator[Found]:
        self._add(table)
        yield from self._go_on(table.full_name)

    def _add(self, table: Table | None) -> None:
        if table is None:
            return
        key = (table.schema, table.name, str(table.version))
        self._versions[key] = table
        self._versions.move_to_end(key)
        if len(self._versions) > _VERSIONS:
            self._versions.popitem(last=False)


_WAITING = Rejected("waits for its schema")


def _fits(change: RowChange, table: Table) -> bool:
    image = change.after or change.before or {}
    return all(column.name in image for column in table.columns if not column.virtual)


class _Readers:
    """Row readers, compiled once per table and kept as long as they are used."""

    def __init__(self, decoder: Decoder, options: ReadOptions, lookup: Lookup | None) -> None:
        self._decoder = decoder
        self._options = options
        self._lookup = lookup
        self._kept: OrderedDict[Table, tuple[RowReader, Verify | None]] = OrderedDict()

    def read(self, envelope: Envelope, table: Table, *, of_row: bool = False) -> RowChange | Rejected:
        kept = self._kept.get(table)
        if kept is None:
            try:
                reader = self._decoder.row_reader(table, self._options)
            except MessageError as error:
                return Rejected(str(error))
            kept = self._kept[table] = reader, verifier(table) if self._options.verify_checksum else None
            if len(self._kept) > _READERS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(table)
        change = row_change(envelope, table, *kept)
        if isinstance(change, Rejected) and (hidden := _hidden(envelope, table)):
            return self.read(envelope, with_hidden_columns(table, hidden), of_row=of_row)
        # a table from a partial row has only that row's columns
        if isinstance(change, RowChange) and change.partial and self._lookup is not None and not of_row:
            (change,) = complete([change], self._lookup)
        return change


def _hidden(envelope: Envelope, table: Table) -> frozenset[str]:
    """TiDB's hidden columns, which a row has, but no DDL names."""
    images = [image for image in (envelope.before, envelope.after) if image is not None]
    names = HIDDEN_NAMES - {column.name for column in table.columns}
    return frozenset(name for name in names if any(name.encode() in image for image in images))


class _Held:
    """Rows that wait for their schemas, in order within each table."""

    def __init__(self, limit: Holding) -> None:
        self._limit = limit
        self._tables: dict[TableName, deque[Found]] = {}
        self._bytes = 0
        self.count = 0

    @property
    def tables(self) -> Collection[TableName]:
        return self._tables.keys()

    def first(self, name: TableName) -> Found | None:
        rows = self._tables.get(name)
        return rows[0] if rows else None

    def oldest(self) -> TableName:
        return next(iter(self._tables))

    def is_full(self) -> bool:
        return self.count > self._limit.rows or self._bytes > self._limit.bytes

    def add(self, name: TableName, found: Found) -> None:
        self._tables.setdefault(name, deque()).append(found)
        self.count += 1
        self._bytes += _size(found)

    def pop(self, name: TableName) -> Found:
        rows = self._tables[name]
        found = rows.popleft()
        if not rows:
            del self._tables[name]
        self.count -= 1
        self._bytes -= _size(found)
        return found


def _size(found: Found) -> int:
    return len(found.message.value or b"") + len(found.message.key or b"")
