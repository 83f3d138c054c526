"""Debezium in Avro: events to exactly the bytes of TiCDC (new architecture), with its schemas registered.

One message per row change. There are no DDL and no watermarks, and nothing follows a delete. In the schema, every
column may be null. A delete with only some columns has null for the missing ones.

In two cases TiCDC loses values and this encoder does not. NULL in a column with a default stays null. A DATETIME that
is no date is an error, not null. Tables with virtual columns are refused, as TiCDC declares such a column twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Row, RowChange, SchemaChange, Table
from ticdc_spark.mysql import handle_key, tso_physical_ms
from ticdc_spark.protocols.avro.encode import default_topic
from ticdc_spark.protocols.base import Encoded, Registry
from ticdc_spark.protocols.debezium.schema import schema_name, tidb_type
from ticdc_spark.protocols.debezium_avro.schema import WrittenField, write_envelope, write_key
from ticdc_spark.protocols.debezium_avro.types import Write, wire_codec
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.wire.avro_binary import write_long, write_text
from ticdc_spark.wire.confluent import frame

_NULL, _THERE = b"\0", b"\2"
_OPS = {"insert": "c", "update": "u", "delete": "d"}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class DebeziumAvroConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are written. Names are TiCDC's, if it has them. TIMESTAMP is always in UTC."""

    cluster_id: str = "default"
    """Name in ``source`` and in the schemas' names."""
    enable_tidb_extension: bool = False
    """Send ``commit_ts`` and ``cluster_id`` in ``source``, and ``tidb_type`` in schemas."""
    debezium_output_old_value: bool = True
    """Send an update's ``before``."""
    avro_decimal_handling_mode: Literal["precise", "string"] = "precise"
    avro_bigint_unsigned_handling_mode: Literal["long", "string"] = "long"
    """A number that does not fit ``long`` is an error."""
    build_ts: Callable[[], int] = _now_ms
    """Milliseconds since the epoch for the value's ``ts_ms``."""
    topic: Callable[[str, str], str] = default_topic
    """(schema, table) → topic, which names the subjects."""


def encoder(config: DebeziumAvroConfig, registry: Registry) -> DebeziumAvroEncoder:
    """The encoder of a configuration."""
    return DebeziumAvroEncoder(config, registry)


class _Cell(NamedTuple):
    name: str
    write: Write


class _Plan(NamedTuple):
    """A table version's schemas, registered, and its writers."""

    table: Table
    key: bytes
    key_cells: tuple[_Cell, ...]
    value: bytes
    cells: tuple[_Cell, ...]
    source: tuple[bytes, bytes]
    """The bytes before and after ``source.ts_ms``."""


class DebeziumAvroEncoder:
    """Writes Debezium in Avro. Keeps nothing between calls. The registry remembers registered schemas."""

    def __init__(self, config: DebeziumAvroConfig, registry: Registry) -> None:
        self._config = config
        self._registry = registry

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        """One message a change.

        Raises: MessageError for a table with virtual columns, names that collide once sanitised, a BIGINT UNSIGNED that
        overflows, a change without a needed image, and an upsert (TiCDC's Debezium has none). Errors of
        ``Registry.register`` are raised too.
        """
        plans: dict[int, _Plan] = {}
        for change in changes:
            plan = plans.get(id(change.table))
            if plan is None:
                # it keeps the table, so that no other object gets its id
                plan = plans[id(change.table)] = self._plan(change.table)
            yield self._row(change, plan)

    def ddl(self, change: SchemaChange) -> Encoded | None:
        """``None``: the protocol has none."""
        return None

    def watermark(self, commit_ts: int) -> Encoded | None:
        """``None``: the protocol has none."""
        return None

    def bootstrap(self, table: Table) -> Encoded | None:
        """``None``: the registry has the schemas."""
        return None

    def _plan(self, table: Table) -> _Plan:
        config = self._config
        keys = {*handle_key(table)}
        topic = config.topic(table.schema, table.name)
        name = schema_name(config.cluster_id, table)
        codecs = {column.name: self._codec(column) for column in table.columns}
        extended = config.enable_tidb_extension
        fields = {
            column.name: WrittenField(
                column.name, codecs[column.name].schema, tidb_type(column.type) if extended else ""
            )
            for column in table.columns
        }
        key_schema = write_key(name, [field for column, field in fields.items() if column in keys])
        key_id = self._registry.register(f"{topic}-key", key_schema)
        for column in table.columns:
            if column.virtual:
                raise MessageError(
                    f"{_name(table)} has the virtual column `{column.name}`: TiCDC declares such a column twice, which "
                    f"no registry takes, and sends no rows of the table in debezium-avro"
                )
        source = ".".join((sanitized(config.cluster_id), sanitized(table.schema), "Source"))
        value_schema = write_envelope(name, source, [*fields.values()])
        value_id = self._registry.register(f"{topic}-value", value_schema)
        cells = tuple(_Cell(column.name, codecs[column.name].write) for column in table.columns)
        return _Plan(
            table=table,
            key=frame(key_id),
            key_cells=tuple(cell for cell in cells if cell.name in keys),
            value=frame(value_id),
            cells=cells,
            source=self._source(table),
        )

    def _codec(self, column: Column) -> Any:
        return wire_codec(
            column.type,
            column.nullable,
            decimal_string=self._config.avro_decimal_handling_mode == "string",
            unsigned_string=self._config.avro_bigint_unsigned_handling_mode == "string",
        )

    def _source(self, table: Table) -> tuple[bytes, bytes]:
        texts = ("2.4.0.Final", "TiCDC", self._config.cluster_id)
        number = write_long(0)
        behind = (
            *(_NULL, write_text(table.schema), write_text(table.name)),  # snapshot, db, table
            *(number, _NULL, write_text(""), number, number, _NULL, _NULL),  # server_id … query
        )
        return b"".join(map(write_text, texts)), b"".join(behind)

    def _row(self, change: RowChange, plan: _Plan) -> Encoded:
        config, op = self._config, _OPS.get(change.op)
        if op is None:
            raise MessageError(f"debezium-avro has no message for {change.op!r}; allowed: insert, update, delete")
        if change.partial and change.op != "delete":
            raise MessageError(f"a row of {_name(plan.table)} with some of its columns only; there is no such message")
        row = change.before if change.op == "delete" else change.after
        before = change.before if op == "d" or (op == "u" and config.debezium_output_old_value) else None
        if row is None or (before is None and op == "u" and config.debezium_output_old_value):
            raise MessageError(f"{change.op} of {_name(plan.table)} without an image that it needs")
        if missing := next((cell.name for cell in plan.key_cells if cell.name not in row), None):
            raise MessageError(f"a row of {_name(plan.table)} without its handle key's `{missing}`")
        start, behind = plan.source
        ts = change.commit_ts  # sent with and without TiDB's extension
        value = (
            plan.value
            + self._image(before, change, plan)
            + self._image(None if op == "d" else row, change, plan)
            + start
            + write_long(tso_physical_ms(ts))
            + behind
            + write_long(ts)
            + write_text(config.cluster_id)
            + write_text(op)
            + write_long(config.build_ts())
        )
        return Encoded(plan.key + _cells(plan.key_cells, row), value, 1)

    def _image(self, row: Row | None, change: RowChange, plan: _Plan) -> bytes:
        if row is None:
            return _NULL
        if len(row) != len(plan.cells):
            names = {cell.name for cell in plan.cells}
            if row.keys() - names or not change.partial:
                raise MessageError(f"a row of {_name(plan.table)} with columns {sorted(row)}; it has {sorted(names)}")
        return _THERE + _cells(plan.cells, row)


def _cells(cells: tuple[_Cell, ...], row: Row) -> bytes:
    parts = []
    for name, write in cells:
        value = row.get(name)
        written = b"" if value is None else write(value)
        parts.append(_THERE + written if written else _NULL)
    return b"".join(parts)


def _name(table: Table) -> str:
    return f"`{table.schema}`.`{table.name}`"
