"""Avro with a schema registry: events to exactly TiCDC's bytes, with its schemas registered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Row, RowChange, SchemaChange, Table
from ticdc_spark.mysql import handle_key, tso_physical_ms
from ticdc_spark.protocols.avro.schema import CHECKSUMS, EXTENSION, Field, write_schema
from ticdc_spark.protocols.avro.types import Write, codec_for, wire_type
from ticdc_spark.protocols.base import Encoded, Registry
from ticdc_spark.protocols.checksums import Summer
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.protocols.shared.go_text import escape_html
from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code
from ticdc_spark.wire.avro_binary import write_long, write_text
from ticdc_spark.wire.confluent import frame, subjects

_NOT_IN_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
_OPS = {"insert": "c", "update": "u", "upsert": "c"}


def default_topic(schema: str, table: str) -> str:
    """TiCDC's rule ``{schema}_{table}``, with ``_`` for each character that a topic cannot have."""
    return _NOT_IN_TOPIC.sub("_", schema) + "_" + _NOT_IN_TOPIC.sub("_", table)


class AvroConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are written. Names are TiCDC's, if it has them."""

    time_zone: str = "UTC"
    """IANA name; TIMESTAMP is sent as local time in it."""
    enable_tidb_extension: bool = False
    enable_row_checksum: bool = False
    """Send the checksums of row changes. Columns must then be in the order of their ids."""
    compute_row_checksum: bool = False
    """Compute the checksums of row changes without one."""
    avro_decimal_handling_mode: Literal["precise", "string"] = "precise"
    avro_bigint_unsigned_handling_mode: Literal["long", "string"] = "long"
    avro_enable_watermark: bool = False
    """Send DDL and watermarks, which only TiCDC's own tests read; needs ``enable_tidb_extension``."""
    keyspace: str = "default"
    topic: Callable[[str, str], str] = default_topic
    """(schema, table) → topic, which names the subjects."""


def encoder(config: AvroConfig, registry: Registry) -> AvroEncoder:
    """The encoder of a configuration.

    Raises: MessageError for a checksum without what it needs.
    """
    if config.enable_row_checksum and not (
        config.enable_tidb_extension
        and config.avro_decimal_handling_mode == "string"
        and config.avro_bigint_unsigned_handling_mode == "string"
    ):
        raise MessageError(
            "a row checksum in Avro needs enable-tidb-extension, and avro-decimal-handling-mode and "
            "avro-bigint-unsigned-handling-mode string"
        )
    return AvroEncoder(config, registry)


class _Cell(NamedTuple):
    name: str
    write: Write
    null: bytes | None
    there: bytes


class _Plan(NamedTuple):
    """A table version's schemas, registered, and its writers."""

    table: Table
    key: bytes | None
    key_cells: tuple[_Cell, ...]
    value: bytes
    cells: tuple[_Cell, ...]


class AvroEncoder:
    """Writes Avro. Keeps nothing between calls. The registry remembers registered schemas."""

    def __init__(self, config: AvroConfig, registry: Registry) -> None:
        self._config = config
        self._registry = registry

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        """One message a change.

        Raises: MessageError for a table without a handle key, names that collide once sanitised, ENUM index 0, and a
        change without a needed image. Errors of ``Registry.register`` are raised too.
        """
        plans: dict[int, _Plan] = {}
        if self._config.enable_row_checksum and self._config.compute_row_checksum:
            changes = map(Summer(), changes)
        for change in changes:
            plan = plans.get(id(change.table))
            if plan is None:
                plan = plans[id(change.table)] = self._plan(change.table)
            yield self._row(change, plan)

    def ddl(self, change: SchemaChange) -> Encoded | None:
        """A DDL, only with ``avro_enable_watermark``."""
        if not self._marks():
            return None
        event = {
            "query": change.query,
            "type": int(change.kind) if change.kind.isdecimal() else ddl_type_code(change.query),
            "schema": change.schema,
            "table": change.name,
            "commitTs": change.commit_ts,
        }
        return Encoded(None, b"\1" + escape_html(msgspec.json.encode(event)))

    def watermark(self, commit_ts: int) -> Encoded | None:
        """A watermark, only with ``avro_enable_watermark``."""
        return Encoded(None, b"\2" + commit_ts.to_bytes(8, "big")) if self._marks() else None

    def bootstrap(self, table: Table) -> Encoded | None:
        """``None``: the registry has the schemas."""
        return None

    def _marks(self) -> bool:
        return self._config.avro_enable_watermark and self._config.enable_tidb_extension

    def _plan(self, table: Table) -> _Plan:
        config = self._config
        columns = [column for column in table.columns if not column.virtual]
        keys = {*handle_key(table)}
        if not keys:
            raise MessageError(f"`{table.schema}`.`{table.name}` has no handle key, which Avro needs")
        key_subject, value_subject = subjects(config.topic(table.schema, table.name))
        fields = [self._field(column) for column in columns]
        key_fields = [field for field, column in zip(fields, columns, strict=True) if column.name in keys]
        extra = (EXTENSION if config.enable_tidb_extension else ()) + (CHECKSUMS if config.enable_row_checksum else ())
        key_schema = write_schema(config.keyspace, table, key_fields, ())
        key_id = self._registry.register(key_subject, key_schema)
        value_id = self._registry.register(value_subject, write_schema(config.keyspace, table, fields, extra))
        cells = tuple(self._cell(column, field) for column, field in zip(columns, fields, strict=True))
        key_cells = tuple(cell for cell in cells if cell.name in keys)
        return _Plan(table, frame(key_id), key_cells, frame(value_id), cells)

    def _field(self, column: Column) -> Field:
        config = self._config
        wire = wire_type(
            column.type,
            decimal_string=config.avro_decimal_handling_mode == "string",
            unsigned_string=config.avro_bigint_unsigned_handling_mode == "string",
        )
        write = codec_for(wire).default
        default = None if column.default is None or write is None else write(column.type, column.default)
        return Field(sanitized(column.name), wire, column.nullable, column.nullable and default is not None, default)

    def _cell(self, column: Column, field: Field) -> _Cell:
        write = codec_for(field.type).write(column.type, self._config.time_zone)
        if not field.nullable:
            return _Cell(column.name, write, None, b"")
        return _Cell(column.name, write, *((b"\2", b"\0") if field.null_last else (b"\0", b"\2")))

    def _row(self, change: RowChange, plan: _Plan) -> Encoded:
        row = change.before if change.op == "delete" else change.after
        if row is None:
            which = "before" if change.op == "delete" else "after"
            raise MessageError(f"{change.op} of {_name(change.table)} without its {which} image")
        key = None if plan.key is None else plan.key + _record(plan.key_cells, row, change.table)
        if change.op == "delete":
            return Encoded(key, None, 1)
        return Encoded(key, plan.value + _record(plan.cells, row, change.table) + self._tail(change), 1)

    def _tail(self, change: RowChange) -> bytes:
        config = self._config
        if not config.enable_tidb_extension:
            return b""
        ts = change.commit_ts
        tail = write_text(_OPS[change.op]) + write_long(ts) + write_long(tso_physical_ms(ts))
        if config.enable_row_checksum:
            sums = change.checksum
            digits = str(sums.current) if sums else ""
            tail += write_text(digits) + (b"\1" if sums and sums.corrupted else b"\0")
            tail += write_long(sums.version if sums else 0)
        return tail


def _record(cells: tuple[_Cell, ...], row: Row, table: Table) -> bytes:
    parts = []
    for name, write, null, there in cells:
        value = row.get(name)
        if value is not None:
            parts.append(there + write(value))
        elif null is not None:
            parts.append(null)
        else:
            raise MessageError(f"column `{name}` of {_name(table)} is NOT NULL; the row has no value for it")
    return b"".join(parts)


def _name(table: Table) -> str:
    return f"`{table.schema}`.`{table.name}`"
