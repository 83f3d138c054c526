"""Debezium: events to the very bytes that TiCDC (classic architecture) sends.

One message per event: a payload, then the schema block. Nothing follows a delete. A row is one template a table version
and kind of change, into which its values are put as text.

Where TiCDC loses what the message could carry, this does not: NULL in a column with a default stays null, and text that
is not UTF-8 becomes U+FFFD byte by byte, so that the message is JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, RowChange, SchemaChange, Table
from ticdc_spark.mysql import handle_key, tso_physical_ms
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.protocols.debezium_ddl import table_changes
from ticdc_spark.protocols.debezium_schema import DDL_KEY_SCHEMA, DDL_SCHEMA, row_schemas, watermark_schemas
from ticdc_spark.protocols.debezium_types import form
from ticdc_spark.protocols.debezium_values import Write, quote
from ticdc_spark.wire.compression import Compression, compress


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class DebeziumConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are written. Names are TiCDC's where it has them. TIMESTAMP is in UTC whatever the time zone."""

    cluster_id: str = "default"
    """What ``source`` and the schemas are named after."""
    enable_tidb_extension: bool = False
    """Send watermarks, and ``tidb_type`` in schemas."""
    debezium_disable_schema: bool = False
    """Leave the schema block out."""
    debezium_output_old_value: bool = True
    """Send an update's ``before``."""
    compression: Compression = "none"
    """``large-message-handle-compression``; despite its name applied to every key and value."""
    build_ts: Callable[[], int] = _now_ms
    """Milliseconds since the epoch for the payload's ``ts_ms``."""


def encoder(config: DebeziumConfig | None = None) -> DebeziumEncoder:
    """The encoder of a configuration."""
    return DebeziumEncoder(config or DebeziumConfig())


class DebeziumEncoder:
    """Writes Debezium. Keeps nothing between calls."""

    def __init__(self, config: DebeziumConfig) -> None:
        self._config = config

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        """One message a change.

        Raises: MessageError for a change without an image or column it needs, an upsert (as TiCDC writes Debezium, it
        has none), a DATETIME that is no date, and a type that Debezium cannot carry.
        """
        writers: dict[int, _RowWriter] = {}
        compression = self._config.compression
        for change in changes:
            writer = writers.get(id(change.table))
            if writer is None:
                # it keeps the table, so that its id is not given to another
                writer = writers[id(change.table)] = _RowWriter(change.table, self._config)
            key, value = writer.message(change)
            if compression != "none":
                key, value = compress(key, compression), compress(value, compression)
            yield Encoded(key, value, 1)

    def ddl(self, change: SchemaChange) -> Encoded | None:
        """A DDL with the tables that it tells; ``None`` for those that TiCDC does not send: TTL, foreign keys, RECOVER.

        Raises: MessageError if its SQL cannot be read.
        """
        changes = table_changes(change)
        if changes is None:
            return None
        database = quote(change.schema)
        source = self._source(change.commit_ts, change.schema, change.name)
        payload = (
            f'{{"source":{source},"ts_ms":{self._config.build_ts()},'
            f'"databaseName":{database},"schemaName":null,"ddl":{quote(change.query)},"tableChanges":{changes}}}'
        )
        return self._message(f'{{"databaseName":{database}}}', DDL_KEY_SCHEMA, payload, DDL_SCHEMA)

    def watermark(self, commit_ts: int) -> Encoded | None:
        """A watermark; ``None`` without the extension."""
        if not self._config.enable_tidb_extension:
            return None
        key_schema, schema = watermark_schemas(self._config.cluster_id)
        source = self._source(commit_ts, "", "")
        payload = f'{{"source":{source},"ts_ms":{self._config.build_ts()},"transaction":null,"op":"m"}}'
        return self._message("{}", key_schema, payload, schema)

    def bootstrap(self, table: Table) -> Encoded | None:
        """``None``: no message carries a table's schema alone."""
        return None

    def _source(self, commit_ts: int, schema: str, table: str) -> str:
        return _source(self._config, schema, table) % (tso_physical_ms(commit_ts), commit_ts)

    def _message(self, key: str, key_schema: str, payload: str, schema: str) -> Encoded:
        disabled = self._config.debezium_disable_schema
        parts = ((key, key_schema), (payload, schema))
        message, value = (f'{{"payload":{part}{"" if disabled else _behind(block)}}}'.encode() for part, block in parts)
        return Encoded(compress(message, self._config.compression), compress(value, self._config.compression))


def _source(config: DebeziumConfig, schema: str, table: str) -> str:
    """A template for milliseconds and commit ts."""
    cluster = _escaped(quote(config.cluster_id))
    return (
        f'{{"version":"2.4.0.Final","connector":"TiCDC","name":{cluster},"ts_ms":%d,"snapshot":"false",'
        f'"db":{_escaped(quote(schema))},"table":{_escaped(quote(table))},"server_id":0,"gtid":null,"file":"","pos":0,'
        f'"row":0,"thread":0,"query":null,"commit_ts":%d,"cluster_id":{cluster}}}'
    )


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _behind(schema: str) -> str:
    return f',"schema":{schema}'


class _Image(NamedTuple):
    """How rows with certain columns are written."""

    names: tuple[str, ...]
    get: Callable[[Row], tuple[Any, ...]]
    writes: tuple[Write | None, ...]
    template: str
    keys: tuple[int, ...]
    """Where the handle key's columns stand."""
    key: str
    """The template of the key."""


class _RowWriter:
    """Writes the rows of one table."""

    def __init__(self, table: Table, config: DebeziumConfig) -> None:
        self._table = table
        self._now = config.build_ts
        self._old = config.debezium_output_old_value
        columns = [column for column in table.columns if not column.virtual]
        self._writes = {c.name: form(c.type).write(c.type, c.nullable) for c in columns}
        self._handle = {*handle_key(table)}
        key_schema, schema = (
            ("", "")
            if config.debezium_disable_schema
            else row_schemas(config.cluster_id, table, config.enable_tidb_extension)
        )
        self._key_end = _escaped((_behind(key_schema) if key_schema else "") + "}")
        self._end = ((_behind(schema) if schema else "") + "}").encode()
        self._head = (
            f'{{"payload":{{"source":{_source(config, table.schema, table.name)},"ts_ms":%d,"transaction":null,"op":'
        )
        self._images: dict[tuple[str, ...], _Image] = {}
        self._image = self._compile(tuple(self._writes))

    def message(self, change: RowChange) -> tuple[bytes, bytes]:
        """Key and value of a change."""
        op, before, after = change.op, change.before, change.after
        ts = change.commit_ts
        head = self._head % (ts >> 18, ts, self._now())
        if op == "insert":
            image, cells = self._cells(after, change)
            body = f'{head}"c","before":null,"after":{image.template % cells}}}'
        elif op == "update":
            image, cells = self._cells(after, change)
            body = f'{head}"u","after":{image.template % cells}}}'
            if self._old:
                old, old_cells = self._cells(before, change)
                body = f'{head}"u","before":{old.template % old_cells},"after":{image.template % cells}}}'
        elif op == "delete":
            image, cells = self._cells(before, change)
            body = f'{head}"d","after":null,"before":{image.template % cells}}}'
        else:
            raise MessageError(f"debezium has no message for {op!r}; allowed: insert, update, delete")
        if change.partial and op != "delete":
            raise MessageError(f"a row of {self._name()} with some of its columns only; debezium has no such message")
        key = image.key % tuple([cells[at] for at in image.keys])
        return key.encode(), body.encode() + self._end

    def _cells(self, row: Row | None, change: RowChange) -> tuple[_Image, tuple[Any, ...]]:
        if row is None:
            raise MessageError(f"{change.op} of {self._name()} without an image that it needs")
        image = self._image
        try:
            values = image.get(row)
        except KeyError:
            values = ()
        if len(values) != len(row):
            image = self._image = self._image_of(row)
            values = image.get(row)
        try:
            return image, tuple(
                [
                    "null" if value is None else value if write is None else write(value)
                    for value, write in zip(values, image.writes)  # noqa: B905  twice as quick, and of one length
                ]
            )
        except MessageError as error:
            raise MessageError(f"{self._name()}: {error}") from error

    def _image_of(self, row: Row) -> _Image:
        names = tuple(name for name in self._writes if name in row)
        if len(names) != len(row):
            raise MessageError(f"{self._name()} has no column {sorted(row.keys() - self._writes.keys())}")
        if names not in self._images:
            self._images[names] = self._compile(names)
        return self._images[names]

    def _compile(self, names: tuple[str, ...]) -> _Image:
        def template(chosen: Iterable[str]) -> str:
            return "{" + ",".join(_escaped(quote(name)) + ":%s" for name in chosen) + "}"

        keys = tuple(at for at, name in enumerate(names) if name in self._handle)
        if names and len(keys) < len(self._handle):
            raise MessageError(f"a row of {self._name()} without its handle key {sorted(self._handle)}")
        key = '{"payload":' + template(names[at] for at in keys) + self._key_end
        get: Any = itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[name] for name in names)
        return _Image(names, get, tuple(self._writes[name] for name in names), template(names), keys, key)

    def _name(self) -> str:
        return f"`{self._table.schema}`.`{self._table.name}`"
