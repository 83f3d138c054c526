"""canal-json: events to exactly the bytes of TiCDC (classic architecture).

One message per event, as Go writes JSON: ``<``, ``>``, ``&`` are escaped. Columns are in the table's order, also in
``mysqlType``, for which TiCDC has Go's random order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, RowChange, SchemaChange, Table, Value
from ticdc_spark.mysql import handle_key, tso_physical_ms
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.protocols.canal_json.types import codec_for, jdbc_type, type_name
from ticdc_spark.protocols.shared.by_table import ByTable
from ticdc_spark.protocols.shared.ddl_words import ddl_word
from ticdc_spark.protocols.shared.go_text import escape_html, escape_html_text, quote_long
from ticdc_spark.protocols.shared.json_writer import JsonWriter, Part
from ticdc_spark.wire.compression import Compression, compress

_ENCODER = msgspec.json.Encoder()
_RECORD_OVERHEAD = 36
"""Bytes that Kafka may add to a record. TiCDC counts them towards max-message-bytes."""
_TYPES = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class CanalJsonConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are written. Names are TiCDC's, if it has them."""

    time_zone: str = "UTC"
    """IANA name; TIMESTAMP is sent as local time in it, and the message does not name it."""
    enable_tidb_extension: bool = False
    """Send commitTs and watermarks."""
    content_compatible: bool = False
    """Like Alibaba's Canal: whole types in ``mysqlType``, and only changed columns in ``old``."""
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    max_message_bytes: int = 10 * 1024 * 1024
    large_message_handle: Literal["none", "handle-key-only", "claim-check"] = "none"
    """Needs the extension."""
    store: Callable[[bytes], str] | None = None
    """For claim-check: stores a message's value and returns its location."""
    compression: Compression = "none"
    """``large-message-handle-compression``. Despite its name, it applies to every value."""
    build_ts: Callable[[], int] = _now_ms
    """Milliseconds since the epoch for ``ts``."""


def encoder(config: CanalJsonConfig | None = None) -> CanalJsonEncoder:
    """The encoder of a configuration."""
    return CanalJsonEncoder(config or CanalJsonConfig())


class CanalJsonEncoder:
    """Writes canal-json. Keeps only compiled code between calls."""

    def __init__(self, config: CanalJsonConfig) -> None:
        self._config = config
        self._writers = ByTable(_RowWriter, config)

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        """One message a change.

        Raises: MessageError for a change without a needed image, an upsert (canal-json has none), and a message that
        stays larger than ``max_message_bytes``.
        """
        for change in changes:
            writer = self._writers.of(change.table)
            yield Encoded(None, self._row(change, writer), 1)

    def ddl(self, change: SchemaChange) -> Encoded | None:
        """A DDL. Its type is derived from its SQL."""
        fields = {"database": change.schema, "table": change.name, "isDdl": True, "sql": change.query}
        value = self._other(ddl_word(change.query), change.commit_ts, **fields)
        return Encoded(None, value)

    def watermark(self, commit_ts: int) -> Encoded | None:
        """A watermark; ``None`` without the extension."""
        if not self._config.enable_tidb_extension:
            return None
        return Encoded(None, self._other("TIDB_WATERMARK", commit_ts))

    def bootstrap(self, table: Table) -> Encoded | None:
        """``None``: no message carries a table's schema."""
        return None

    def _other(self, kind: str, commit_ts: int, **fields: Any) -> bytes:
        message: dict[str, Any] = {
            "id": 0,
            "database": "",
            "table": "",
            "pkNames": None,
            "isDdl": False,
            "type": kind,
            "es": tso_physical_ms(commit_ts),
            "ts": self._config.build_ts(),
            "sql": "",
            **dict.fromkeys(("sqlType", "mysqlType", "data", "old")),
            **fields,
        }
        if self._config.enable_tidb_extension:
            message["_tidb"] = {"commitTs" if fields else "watermarkTs": commit_ts}
        return compress(escape_html(_ENCODER.encode(message)), self._config.compression)

    def _row(self, change: RowChange, writer: _RowWriter) -> bytes:
        config = self._config
        location = change.claim_check or ""
        value = writer.message(change, keys_only=change.partial, location=location)
        if len(value) + _RECORD_OVERHEAD <= config.max_message_bytes:
            return value
        if config.large_message_handle == "none" or not config.enable_tidb_extension:
            raise MessageError(self._too_large(change, value))
        if config.large_message_handle == "claim-check":
            if config.store is None:
                raise MessageError("large-message-handle claim-check needs a place to store messages")
            location = config.store(value)
        small = writer.message(change, keys_only=True, location=location)
        if len(small) + _RECORD_OVERHEAD > config.max_message_bytes:
            raise MessageError(self._too_large(change, small))
        return small

    def _too_large(self, change: RowChange, value: bytes) -> str:
        size, most = len(value) + _RECORD_OVERHEAD, self._config.max_message_bytes
        return f"a row of {_name(change.table)} takes {size} bytes; max-message-bytes is {most}"


class _Column(NamedTuple):
    """A column: its name as JSON, its code in ``sqlType`` (or how a value gives it) and its type in ``mysqlType``."""

    name: str
    json: str
    code: int | Callable[[Value], str]
    type: str


class _Types(NamedTuple):
    """``sqlType`` and ``mysqlType`` of certain columns."""

    pieces: list[str]
    """Every second piece is the place of a code that depends on a value."""
    codes: list[tuple[str, Callable[[Value], str]]]

    def of(self, row: Row) -> str:
        self.pieces[1::2] = [code(row[name]) for name, code in self.codes]
        return "".join(self.pieces)


class _RowWriter:
    """Writes the rows of one table."""

    def __init__(self, table: Table, config: CanalJsonConfig) -> None:
        self._table = table
        self._config = config
        self._keys = frozenset(handle_key(table))
        columns = [column for column in table.columns if not column.virtual]
        names = [quote_long(column.name) for column in columns]
        self._columns = [
            _Column(
                column.name, name, jdbc_type(column.type), quote_long(type_name(column.type, config.content_compatible))
            )
            for column, name in zip(columns, names, strict=True)
        ]
        self._types = _types(self._columns)
        self._images = JsonWriter(
            table,
            [
                Part(column.name, name + ":", codec_for(column.type).write(column.type, config.time_zone))
                for column, name in zip(columns, names, strict=True)
            ],
        )
        self._head = (
            f'{{"id":0,"database":{quote_long(table.schema)},"table":{quote_long(table.name)},'
            f'"pkNames":[{",".join(map(quote_long, _primary_key(table)))}],"isDdl":false,"type":"'
        )

    def message(self, change: RowChange, *, keys_only: bool, location: str) -> bytes:
        """The message of a change, or only of its handle key columns."""
        config, op = self._config, change.op
        kind = _TYPES.get(op)
        if kind is None:
            raise MessageError(f"canal-json has no message for {op!r}; allowed: {', '.join(_TYPES)}")
        row = self._image(change, "before" if op == "delete" else "after")
        only: Collection[str] | None = None
        if keys_only or (op == "delete" and config.delete_only_output_handle_key_columns):
            only = self._keys
            if not only:
                raise MessageError(f"{_name(self._table)} has no handle key")
        types, columns = self._types, self._columns
        values = self._images.whole(row)
        if values is None or only is not None:
            columns = [column for column in columns if column.name in row and (only is None or column.name in only)]
            types = _types(columns)
            data = self._images.write(row, only)
        else:
            data = self._images.text(values)
        old = "null"
        if op == "update":
            before, olds = self._image(change, "before"), only
            if config.only_output_updated_columns or config.content_compatible:
                olds = [column.name for column in columns if before.get(column.name) != row[column.name]]
            elif types is not self._types:
                olds = [column.name for column in columns]
            old = f"[{self._images.write(before, olds)}]"
        text = (
            f'{self._head}{kind}","es":{tso_physical_ms(change.commit_ts)},"ts":{config.build_ts()},"sql":"",'
            f'{types.of(row)},"old":{old},"data":[{data}]'
            f"{self._extension(change, keys_only, location) if config.enable_tidb_extension else ''}}}"
        )
        value = escape_html_text(text).encode()
        return value if config.compression == "none" else compress(value, config.compression)

    def _image(self, change: RowChange, which: Literal["before", "after"]) -> Row:
        row = change.before if which == "before" else change.after
        if row is None:
            raise MessageError(f"{_TYPES[change.op]} of {_name(self._table)} without its {which} image")
        return row

    def _extension(self, change: RowChange, keys_only: bool, location: str) -> str:
        more = ""
        if location:
            more = f',"claimCheckLocation":{quote_long(location)}'
        elif keys_only:
            more = ',"onlyHandleKey":true'
        return f',"_tidb":{{"commitTs":{change.commit_ts}{more}}}'


def _types(columns: Sequence[_Column]) -> _Types:
    pieces = ['"sqlType":{']
    for at, column in enumerate(columns):
        pieces[-1] += ("," if at else "") + column.json + ":"
        if callable(column.code):
            pieces += ["", ""]
        else:
            pieces[-1] += str(column.code)
    pieces[-1] += '},"mysqlType":{' + ",".join(f"{column.json}:{column.type}" for column in columns) + "}"
    return _Types(pieces, [(column.name, column.code) for column in columns if callable(column.code)])


def _primary_key(table: Table) -> list[str]:
    """The primary key's columns in the table's order; none for Simple's "primary" of a unique handle key."""
    unique = {index.columns for index in table.indexes if index.unique and not index.primary}
    for index in table.indexes:
        if index.primary and not (index.name == "primary" and index.columns in unique):
            return [column.name for column in table.columns if column.name in index.columns]
    return []


def _name(table: Table) -> str:
    return f"`{table.schema}`.`{table.name}`"
