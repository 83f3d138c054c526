"""Debezium: events to exactly the bytes of TiCDC (classic architecture).

One message per event: a payload, then the schema block. Nothing follows a delete. Rows of one table version and kind of
change share a template, into which their values are put as text.

In two cases TiCDC loses values and this encoder does not. NULL in a column with a default stays null. In text that is
not UTF-8, each bad byte becomes U+FFFD, so that the message is JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, RowChange, SchemaChange, Table
from ticdc_spark.mysql import handle_key, tso_physical_ms
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.protocols.debezium.ddl import database_of, table_changes
from ticdc_spark.protocols.debezium.schema import DDL_KEY_SCHEMA, DDL_SCHEMA, row_schemas, watermark_schemas
from ticdc_spark.protocols.debezium.types import codec_for
from ticdc_spark.protocols.debezium.values import Write, quote
from ticdc_spark.protocols.shared.by_table import ByTable
from ticdc_spark.wire.compression import Compression, compress


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class DebeziumConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are written. Names are TiCDC's, if it has them. TIMESTAMP is always in UTC."""

    cluster_id: str = "default"
    """Name in ``source`` and in the schemas' names."""
    enable_tidb_extension: bool = False
    """Send watermarks, and ``tidb_type`` in schemas."""
    debezium_disable_schema: bool = False
    """Omit the schema block."""
    debezium_output_old_value: bool = True
    """Send an update's ``before``."""
    compression: Compression = "none"
    """``large-message-handle-compression``. Despite its name, it applies to every key and value."""
    build_ts: Callable[[], int] = _now_ms
    """Milliseconds since the epoch for the payload's ``ts_ms``."""


def encoder(config: DebeziumConfig | None = None) -> DebeziumEncoder:
    """The encoder of a configuration."""
    return DebeziumEncoder(config or DebeziumConfig())


class DebeziumEncoder:
    """Writes Debezium. Keeps only compiled code between calls."""

    def __init__(self, config: DebeziumConfig) -> None:
        self._config = config
        self._writers = ByTable(_RowWriter, config)

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        """One message a change.

        Raises: MessageError for a change without a needed image or column, an upsert (TiCDC's Debezium has none), a
        DATETIME that is no date, and a type that Debezium cannot carry.
        """
        compression = self._config.compression
        for change in changes:
            writer = self._writers.of(change.table)
            key, value = writer.message(change)
            if compression != "none":
                key, value = compress(key, compression), compress(value, compression)
            yield Encoded(key, value, 1)

    def ddl(self, change: SchemaChange) -> Encoded | None:
        """A DDL with its tables; ``None`` for DDL that TiCDC does not send: TTL, foreign keys, RECOVER.

        Raises: MessageError if its SQL cannot be read.
        """
        changes = table_changes(change)
        if changes is None:
            return None
        schema = change.schema or database_of(change.query)
        database = quote(schema)
        source = self._source(change.commit_ts, schema, change.name)
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
        """``None``: no message has only a table's schema."""
        return None

    def _source(self, commit_ts: int, schema: str, table: str) -> str:
        start, middle, end = _source(self._config.cluster_id, schema, table)
        return f"{start}{tso_physical_ms(commit_ts)}{middle}{commit_ts}{end}"

    def _message(self, key: str, key_schema: str, payload: str, schema: str) -> Encoded:
        disabled = self._config.debezium_disable_schema
        parts = ((key, key_schema), (payload, schema))
        message, value = (f'{{"payload":{part}{"" if disabled else _behind(block)}}}'.encode() for part, block in parts)
        return Encoded(compress(message, self._config.compression), compress(value, self._config.compression))


def _source(cluster_id: str, schema: str, table: str) -> tuple[str, str, str]:
    """The text around milliseconds and commit ts."""
    cluster = quote(cluster_id)
    middle = (
        f',"snapshot":"false","db":{quote(schema)},"table":{quote(table)},"server_id":0,"gtid":null,"file":"","pos":0,'
        '"row":0,"thread":0,"query":null,"commit_ts":'
    )
    return (
        f'{{"version":"2.4.0.Final","connector":"TiCDC","name":{cluster},"ts_ms":',
        middle,
        f',"cluster_id":{cluster}}}',
    )


def _behind(schema: str) -> str:
    return f',"schema":{schema}'


class _Image(NamedTuple):
    """How rows with certain columns are written."""

    get: Callable[[Row], tuple[Any, ...]]
    writes: tuple[Write, ...]
    parts: list[str]
    """The object in pieces. Every second one is a value's place."""
    keys: tuple[int, ...]
    """The places of the handle key's columns."""
    key: list[str]
    """The whole key message, also in pieces."""


class _RowWriter:
    """Writes the rows of one table. It keeps nothing of one row for the next."""

    def __init__(self, table: Table, config: DebeziumConfig) -> None:
        self._name = f"`{table.schema}`.`{table.name}`"
        self._now = config.build_ts
        self._old = config.debezium_output_old_value
        columns = [column for column in table.columns if not column.virtual]
        self._writes = {column.name: codec_for(column.type).write(column.type, column.nullable) for column in columns}
        self._handle = {*handle_key(table)}
        self._key_end, self._end = "}", b"}"
        if not config.debezium_disable_schema:
            key_schema, schema = row_schemas(config.cluster_id, table, config.enable_tidb_extension)
            self._key_end, self._end = _behind(key_schema) + "}", _behind(schema).encode() + b"}"
        start, self._middle, end = _source(config.cluster_id, table.schema, table.name)
        self._start = f'{{"payload":{{"source":{start}'
        self._behind_ts = f'{end},"ts_ms":'
        self._images: dict[tuple[str, ...], _Image] = {}
        self._image = self._compile(tuple(self._writes))

    def message(self, change: RowChange) -> tuple[bytes, bytes]:
        """Key and value of a change."""
        op, ts = change.op, change.commit_ts
        if op == "update":
            before = f'"before":{self._written(change.before, change)[0]},' if self._old else ""
            row, cells, image = self._written(change.after, change)
            images = f'"u",{before}"after":{row}'
        elif op == "insert":
            row, cells, image = self._written(change.after, change)
            images = f'"c","before":null,"after":{row}'
        elif op == "delete":
            row, cells, image = self._written(change.before, change)
            images = f'"d","after":null,"before":{row}'
        else:
            raise MessageError(f"debezium has no message for {op!r}; allowed: insert, update, delete")
        if change.partial and op != "delete":
            raise MessageError(f"a row of {self._name} with some of its columns only; debezium has no such message")
        _, _, _, keys, key = image
        key[1::2] = [cells[at] for at in keys]
        value = (
            f"{self._start}{ts >> 18}{self._middle}{ts}{self._behind_ts}{self._now()}"
            f',"transaction":null,"op":{images}}}'
        )
        return "".join(key).encode(), value.encode() + self._end

    def _written(self, row: Row | None, change: RowChange) -> tuple[str, list[Any], _Image]:
        """An image, its cells, and how it is written."""
        if row is None:
            raise MessageError(f"{change.op} of {self._name} without an image that it needs")
        image = self._image
        if len(image.writes) != len(row):
            image = self._image = self._image_of(row)
        try:
            values = image.get(row)
        except KeyError:
            image = self._image = self._image_of(row)
            values = image.get(row)
        _, writes, parts, _, _ = image
        try:
            cells = [
                "null" if value is None else write(value)
                for value, write in zip(values, writes)  # noqa: B905  quicker, and of one length
            ]
        except MessageError as error:
            raise MessageError(f"{self._name}: {error}") from error
        parts[1::2] = cells
        return "".join(parts), cells, image

    def _image_of(self, row: Row) -> _Image:
        names = tuple(name for name in self._writes if name in row)
        if len(names) != len(row):
            raise MessageError(f"{self._name} has no column {sorted(row.keys() - self._writes.keys())}")
        if names not in self._images:
            self._images[names] = self._compile(names)
        return self._images[names]

    def _compile(self, names: tuple[str, ...]) -> _Image:
        keys = tuple(at for at, name in enumerate(names) if name in self._handle)
        if len(keys) < len(self._handle):
            raise MessageError(f"a row of {self._name} without its handle key {sorted(self._handle)}")
        get: Any = itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[name] for name in names)
        key = _pieces([names[at] for at in keys])
        key[0] = '{"payload":' + key[0]
        key[-1] += self._key_end
        return _Image(get, tuple(self._writes[name] for name in names), _pieces(names), keys, key)


def _pieces(names: Sequence[str]) -> list[str]:
    """A JSON object, with an empty piece for each value."""
    pieces = ["{"]
    for at, name in enumerate(names):
        pieces[-1] += ("," if at else "") + quote(name) + ":"
        pieces += ["", ""]
    pieces[-1] += "}"
    return pieces
