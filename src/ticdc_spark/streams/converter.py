"""Events of one protocol, written in another.

What a protocol lacks is made up as far as it can be told: tables get versions and BOOTSTRAP messages where Simple is
written from messages without schemas, and a DDL the tables before and after it where Simple or Debezium is written. An
``upsert`` (Open's insert, or its update without old values) becomes an insert where the target has no such thing. Sent
DDL kinds are the target's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Bootstrap, Change, Message, Rejected, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.protocols.avro.encode import AvroConfig, Registry
from ticdc_spark.protocols.avro.encode import encoder as avro
from ticdc_spark.protocols.base import Encoded, Encoder
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig, ddl_word
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json
from ticdc_spark.protocols.debezium.encode import DebeziumConfig
from ticdc_spark.protocols.debezium.encode import encoder as debezium
from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig
from ticdc_spark.protocols.debezium_avro.encode import encoder as debezium_avro
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_protocol
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple
from ticdc_spark.streams.reader import EventReader, Found
from ticdc_spark.streams.sql_details import SqlDetails
from ticdc_spark.streams.write_changes import UNWRITABLE

Partition: TypeAlias = tuple[str, int]
_RUN = 256
"""Rows of one partition that are encoded at once."""


class Target(NamedTuple):
    """A protocol that can be written."""

    config: type[msgspec.Struct]
    encoder: Callable[..., Encoder]
    """From a configuration, and the registry where one is needed."""
    defaults: Mapping[str, Any]
    has_upsert: bool = False
    ddl_to_first: bool = False
    """DDL goes to partition 0 only."""
    tells_tables: bool = False
    """A DDL's message has its tables."""
    needs_details: bool = False
    """Its messages have what Simple's schemas lack: the order of columns, or which are generated."""
    needs_registry: bool = False
    store: Callable[[ClaimCheckStorage, bool], Callable[..., str]] | None = None
    """What keeps a large message in a storage, as its bare value if so wanted; ``None``: there is no claim check."""


def _store_value(storage: ClaimCheckStorage, raw: bool) -> Callable[[bytes], str]:
    return storage.store if raw else partial(storage.store_message, None)


def _store_framed(storage: ClaimCheckStorage, raw: bool) -> Callable[[bytes, bytes], str]:
    if raw:
        raise UsageError("open has no option claim-check-raw-value: its key is needed to read a message")
    return storage.store_message


TARGETS: Mapping[str, Target] = {
    "avro": Target(
        AvroConfig,
        avro,
        {"enable_tidb_extension": True, "compute_row_checksum": True},
        has_upsert=True,
        needs_registry=True,
    ),
    "canal-json": Target(
        CanalJsonConfig, canal_json, {"enable_tidb_extension": True}, ddl_to_first=True, store=_store_value
    ),
    "debezium-avro": Target(DebeziumAvroConfig, debezium_avro, {"enable_tidb_extension": True}, needs_registry=True),
    "debezium": Target(
        DebeziumConfig, debezium, {"enable_tidb_extension": True}, tells_tables=True, needs_details=True
    ),
    "open": Target(OpenConfig, open_protocol, {}, has_upsert=True, needs_details=True, store=_store_framed),
    "simple": Target(SimpleConfig, simple, {"compute_row_checksum": True}, tells_tables=True, store=_store_value),
}
"""Protocol name to how it is written."""


def target_encoder(name: str, options: Mapping[str, str], registry: Registry | None = None) -> Encoder:
    """The encoder of a protocol. ``options`` are fields of its configuration, with ``-`` for ``_``, as text.

    Those of large messages have TiCDC's names: ``large-message-handle-option``, ``large-message-handle-compression``,
    ``claim-check-storage-uri``, ``claim-check-raw-value``.

    Raises: UsageError for an option that it has not, a value that does not suit it, or a registry that is missing.
    """
    target = TARGETS[name]
    if target.needs_registry and registry is None:
        raise UsageError(f"{name} is written with --schema-registry: a URL, or file:PATH for a file of schemas")
    fields = {_FIELDS.get(key, key.replace("-", "_")): value for key, value in options.items()}
    stores = {key: fields.pop(key) for key in _STORAGE if target.store and key in fields}
    known = {field.name: field for field in msgspec.structs.fields(target.config) if not _is_callable(field.type)}
    for field in fields:
        if field not in known:
            allowed = ", ".join(sorted(name.replace("_", "-") for name in known))
            raise UsageError(f"{name} has no option {field.replace('_', '-')!r}; allowed: {allowed}")
    read = dict(target.defaults)
    for field, value in fields.items():
        try:
            read[field] = msgspec.convert(value, known[field].type, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"option {field.replace('_', '-')}: {error}") from error
    if target.store is not None:
        read |= _stores(target.store, read.get("large_message_handle"), stores)
    try:
        return target.encoder(target.config(**read), *([registry] if target.needs_registry else []))
    except MessageError as error:
        raise UsageError(str(error)) from error


_STORAGE = ("claim_check_storage_uri", "claim_check_raw_value")
_FIELDS = {"large-message-handle-option": "large_message_handle", "large-message-handle-compression": "compression"}


def _stores(
    store: Callable[[ClaimCheckStorage, bool], Callable[..., str]], handle: Any, given: Mapping[str, str]
) -> dict[str, Any]:
    if handle != "claim-check":
        for key in given:
            raise UsageError(f"option {key.replace('_', '-')} needs large-message-handle-option=claim-check")
        return {}
    uri, raw = given.get("claim_check_storage_uri"), given.get("claim_check_raw_value", "false")
    if not uri:
        raise UsageError("large-message-handle-option=claim-check needs claim-check-storage-uri")
    if raw not in ("true", "false"):
        raise UsageError(f"option claim-check-raw-value is {raw!r}; allowed: true, false")
    return {"store": store(ClaimCheckStorage(uri), raw == "true")}


def _is_callable(kind: Any) -> bool:
    return "Callable" in str(kind)


class Converter:
    """Writes what a reader finds. Messages come in order within each partition; offsets are counted anew."""

    def __init__(self, reader: EventReader, name: str, to: Encoder) -> None:
        self._reader = reader
        self._target = TARGETS[name]
        self._to = to
        self._offsets: dict[Partition, int] = {}
        self._run: list[Found] = []
        self.unsent: Counter[str] = Counter()
        """DDL and watermarks that have no message in the target."""
        self._schemas = name == "simple"
        self._details = SqlDetails() if self._target.needs_details else None
        self._told: set[tuple[Partition, str, str, int]] = set()
        self._versions: dict[tuple[str, str], tuple[Table, int]] = {}

    def convert(self, found: Found) -> Iterator[Message | Rejected]:
        """What an event gives, now or with the next ones; ``Rejected`` for what cannot be read or written."""
        event = found.event
        if isinstance(event, RowChange):
            if self._run and _partition(self._run[0]) != _partition(found):
                yield from self.flush()
            self._run.append(found)
            if len(self._run) >= _RUN:
                yield from self.flush()
            return
        yield from self.flush()
        self._learn(event)
        match event:
            case Rejected():
                yield event
            case Watermark(commit_ts):
                yield from self._messages(found, [self._to.watermark(commit_ts)])
            case Bootstrap(table):
                yield from self._messages(found, [self._to.bootstrap(table)])
            case SchemaChange():
                if found.message.partition == 0 or not self._target.ddl_to_first:
                    yield from self._attempt(found, lambda: [self._to.ddl(self._ddl(event))])

    def _learn(self, event: SchemaChange | Bootstrap | Watermark | Rejected) -> None:
        if self._details is None:
            return
        if isinstance(event, Bootstrap):
            self._details.learn(event.table)
        elif isinstance(event, SchemaChange) and (event.table or event.pre_table):
            self._details.follow(event)

    def flush(self) -> Iterator[Message | Rejected]:
        """Write the rows that wait for more of their partition."""
        run, self._run = self._run, []
        if not run:
            return
        changes = []
        for found in run:
            assert isinstance(found.event, RowChange)
            changes.append(self._suited(found.event))
        if self._schemas:
            for found, change in zip(run, changes, strict=True):
                yield from self._schema(found, change.table)
        try:
            encoded: list[Encoded | None] = list(self._to.rows(changes))
        except UNWRITABLE:
            # one of them; each alone, then
            for found, change in zip(run, changes, strict=True):
                yield from self._attempt(found, partial(self._rows, change))
            return
        yield from self._messages(run[0], encoded)

    def _rows(self, change: RowChange) -> Sequence[Encoded | None]:
        return list(self._to.rows([change]))

    def _suited(self, change: RowChange) -> RowChange:
        if change.op == "upsert" and not self._target.has_upsert:
            change = replace(change, op="insert")
        if self._details is not None:
            table = self._details.complete(change.table)
            change = change if table is change.table else replace(change, table=table)
        if self._schemas and change.table.version is None:
            change = replace(change, table=self._versioned(change.table, change.commit_ts))
        return change

    def _versioned(self, table: Table, ts: int) -> Table:
        """The table with a version, which is the commit ts at which it was first seen as it is."""
        name = (table.schema, table.name)
        known = self._versions.get(name)
        if known is None or known[0] != table:
            known = self._versions[name] = (table, ts)
        return replace(table, version=known[1])

    def _schema(self, found: Found, table: Table) -> Iterator[Message | Rejected]:
        key = (_partition(found), table.schema, table.name, table.version or 0)
        if key not in self._told:
            self._told.add(key)
            yield from self._messages(found, [self._to.bootstrap(table)])

    def _ddl(self, change: SchemaChange) -> SchemaChange:
        if not self._target.tells_tables:
            return change
        if change.table is not None or change.pre_table is not None:
            return change if self._details is None else self._complete(change, self._details)
        before, after = self._reader.tables_of(change)
        if self._schemas:
            before, after = (table and self._versioned(table, change.commit_ts) for table in (before, after))
        return replace(change, kind=ddl_word(change.query), table=after, pre_table=before)

    def _complete(self, change: SchemaChange, details: SqlDetails) -> SchemaChange:
        before, after = (table and details.complete(table) for table in (change.pre_table, change.table))
        return replace(change, pre_table=before, table=after)

    def _attempt(self, found: Found, make: Callable[[], Sequence[Encoded | None]]) -> Iterator[Message | Rejected]:
        try:
            encoded = make()
        except UNWRITABLE as error:
            yield Rejected(f"cannot be written: {error}")
            return
        yield from self._messages(found, encoded)

    def _messages(self, found: Found, encoded: Sequence[Encoded | None]) -> Iterator[Message]:
        topic, partition = _partition(found)
        for one in encoded:
            if one is None:
                self._count_unsent(found.event)
            else:
                offset = self._offsets.get((topic, partition), 0)
                self._offsets[topic, partition] = offset + 1
                yield Message(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    timestamp=found.message.timestamp,
                    key=one.key,
                    value=one.value,
                )

    def _count_unsent(self, event: Change | Rejected) -> None:
        if isinstance(event, SchemaChange | Watermark):
            self.unsent["DDL" if isinstance(event, SchemaChange) else "watermark"] += 1


def _partition(found: Found) -> Partition:
    return found.message.topic, found.message.partition


__all__ = ["TARGETS", "Converter", "target_encoder"]
