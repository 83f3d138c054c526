"""The Simple protocol: events to exactly TiCDC's bytes. Avro is written in ``simple.avro``.

TiCDC writes JSON with Go's ``encoding/json``: struct fields in their order without empty ones, map keys sorted, and
``<``, ``>``, ``&``, U+2028 and U+2029 escaped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Op, RowChange, SchemaChange, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.protocols.checksums import Summer
from ticdc_spark.protocols.shared.by_table import ByTable
from ticdc_spark.protocols.simple.avro.decode import write_message
from ticdc_spark.protocols.simple.avro.rows import row_writer as avro_row_writer
from ticdc_spark.protocols.simple.message import VERSION, DdlType, WireChecksum, WireMessage, WireTable, write_table
from ticdc_spark.protocols.simple.rows import RowWriter, row_writer
from ticdc_spark.wire.compression import Compression, compress

_ENCODER = msgspec.json.Encoder()
_HTML = [(char.encode(), rb"\u%04x" % ord(char)) for char in "<>&\u2028\u2029"]
_HTML_BYTES = b"<>&\xe2"
"""Bytes that may need escaping: U+2028 and U+2029 begin with 0xE2."""
_DDL_TYPES = frozenset(get_args(DdlType))
_TYPES = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}
_IMAGES = {"insert": (True, False), "update": (True, True), "delete": (False, True)}
"""Whether a message has the row after the change, and the row before it."""
_PIECES_KEPT = 4096
"""The most pieces of a table. It has one for each kind of change and partition."""
_RECORD_OVERHEAD = 36
"""Bytes that Kafka may add to a record. TiCDC counts them towards max-message-bytes."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class SimpleConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are written. Names are TiCDC's, if it has them."""

    encoding_format: Literal["json", "avro"] = "json"
    time_zone: str = "UTC"
    """IANA name; TIMESTAMP is sent as local time in it."""
    enable_row_checksum: bool = False
    """Send the checksums of row changes."""
    compute_row_checksum: bool = False
    """Compute the checksums of row changes without one. Columns must then be in the order of their ids."""
    max_message_bytes: int = 10 * 1024 * 1024
    large_message_handle: Literal["none", "handle-key-only", "claim-check"] = "none"
    store: Callable[[bytes], str] | None = None
    """For claim-check: stores a message's value and returns its location."""
    compression: Compression = "none"
    """``large-message-handle-compression``. Despite its name, it applies to every value."""
    build_ts: Callable[[], int] = _now_ms
    """Milliseconds since the epoch for ``buildTs``."""


def encoder(config: SimpleConfig | None = None) -> SimpleEncoder:
    """The encoder of a configuration."""
    return SimpleEncoder(config or SimpleConfig())


class SimpleEncoder:
    """Writes Simple in the configured encoding. Keeps only compiled code between calls."""

    def __init__(self, config: SimpleConfig) -> None:
        self._config = config
        avro = config.encoding_format == "avro"
        self._writer = avro_row_writer if avro else row_writer
        self._write = write_message if avro else _json
        self._writers = ByTable(self._compiled)
        self._plain = not avro and config.compression == "none" and not config.enable_row_checksum

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        """One message a change.

        Raises: MessageError for a change without a needed image, an upsert (Simple has none), and a message that stays
        larger than ``max_message_bytes``.
        """
        config = self._config
        if config.enable_row_checksum and config.compute_row_checksum:
            changes = map(Summer(), changes)
        for change in changes:
            yield self._row(change, *self._writers.of(change.table))

    def ddl(self, change: SchemaChange) -> Encoded | None:
        """A DDL. Its kind is sent if it is one of Simple's, and QUERY otherwise."""
        message = WireMessage(
            version=VERSION,
            type=change.kind if change.kind in _DDL_TYPES else "QUERY",  # type: ignore[arg-type]
            sql=change.query,
            commit_ts=change.commit_ts,
            build_ts=self._config.build_ts(),
            table_schema=_table(change.table),
            pre_table_schema=_table(change.pre_table),
        )
        return Encoded(None, self._bytes(message))

    def watermark(self, commit_ts: int) -> Encoded | None:
        """A WATERMARK message."""
        message = WireMessage(version=VERSION, type="WATERMARK", commit_ts=commit_ts, build_ts=self._config.build_ts())
        return Encoded(None, self._bytes(message))

    def bootstrap(self, table: Table) -> Encoded | None:
        """A BOOTSTRAP message, with commitTs 0."""
        message = WireMessage(
            version=VERSION,
            type="BOOTSTRAP",
            commit_ts=0,
            build_ts=self._config.build_ts(),
            table_schema=write_table(table),
        )
        return Encoded(None, self._bytes(message))

    def _compiled(self, table: Table) -> tuple[_Plain, RowWriter, RowWriter]:
        zone = self._config.time_zone
        return (
            _Plain(table, self._config),
            self._writer(table, zone),
            self._writer(table, zone, handle_key(table)),
        )

    def _row(self, change: RowChange, plain: _Plain, whole: RowWriter, keys_only: RowWriter) -> Encoded:
        found = plain.write(change, whole) if self._plain else None
        value = self._bytes(_message(change, whole, self._config)) if found is None else found
        if self._fits(value):
            return Encoded(None, value, 1)
        config = self._config
        if config.large_message_handle == "none":
            raise MessageError(self._too_large(change, value))
        if not handle_key(change.table):
            raise MessageError(f"{self._too_large(change, value)}, and the table has no handle key")
        location = None
        if config.large_message_handle == "claim-check":
            if config.store is None:
                raise MessageError("large-message-handle claim-check needs a place to store messages")
            location = config.store(value)
        small = self._bytes(_message(change, keys_only, config, keys_only=True, location=location))
        if not self._fits(small):
            raise MessageError(self._too_large(change, small))
        return Encoded(None, small, 1)

    def _fits(self, value: bytes) -> bool:
        return len(value) + _RECORD_OVERHEAD <= self._config.max_message_bytes

    def _too_large(self, change: RowChange, value: bytes) -> str:
        table = change.table
        size, most = len(value) + _RECORD_OVERHEAD, self._config.max_message_bytes
        return f"a row of `{table.schema}`.`{table.name}` takes {size} bytes; max-message-bytes is {most}"

    def _bytes(self, message: WireMessage) -> bytes:
        value = self._write(message)
        return value if self._config.compression == "none" else compress(value, self._config.compression)


class _Plain:
    """Writes ordinary row messages in JSON from pieces that are made once a table."""

    def __init__(self, table: Table, config: SimpleConfig) -> None:
        self._table, self._build_ts = table, config.build_ts
        self._pieces: dict[tuple[Op, int | None], tuple[bytes, bytes]] = {}

    def write(self, change: RowChange, write: RowWriter) -> bytes | None:
        """The message; ``None`` if the change is not ordinary."""
        if change.partial or change.claim_check or change.op not in _IMAGES:
            return None
        after, before = _IMAGES[change.op]
        if (after and change.after is None) or (before and change.before is None):
            return None
        key = change.op, change.table_id
        head, tail = self._pieces.get(key) or self._made(change)
        data = b',"data":%b' % bytes(write(change.after)) if after and change.after is not None else b""
        old = b',"old":%b' % bytes(write(change.before)) if before and change.before is not None else b""
        return _escaped(b'%b%d,"buildTs":%d%b%b%b}' % (head, change.commit_ts, self._build_ts(), tail, data, old))

    def _made(self, change: RowChange) -> tuple[bytes, bytes]:
        """The bytes before the commitTs, and between buildTs and the images."""
        table = self._table
        message = WireMessage(
            version=VERSION,
            database=table.schema,
            table=table.name,
            table_id=(change.table_id if change.table_id is not None else table.table_id) or 0,
            type=_TYPES[change.op],  # type: ignore[arg-type]
            commit_ts=0,
            build_ts=0,
            schema_version=table.version or 0,
        )
        # the last place of this text, as only numbers follow it
        head, _, tail = _ENCODER.encode(message).rpartition(b'0,"buildTs":0')
        if len(self._pieces) > _PIECES_KEPT:
            self._pieces.clear()
        found = self._pieces[change.op, change.table_id] = head, tail[:-1]
        return found


def _json(message: WireMessage) -> bytes:
    return _escaped(_ENCODER.encode(message))


def _escaped(value: bytes) -> bytes:
    if any(map(value.__contains__, _HTML_BYTES)):
        for char, escape in _HTML:
            value = value.replace(char, escape)  # they occur only inside strings
    return value


def _table(table: Table | None) -> WireTable | None:
    return None if table is None else write_table(table)


def _message(
    change: RowChange, write: RowWriter, config: SimpleConfig, *, keys_only: bool = False, location: str | None = None
) -> WireMessage:
    kind = _TYPES.get(change.op)
    if kind is None:
        raise MessageError(f"Simple has no message for {change.op!r}; allowed: {', '.join(_TYPES)}")
    message = WireMessage(
        version=VERSION,
        database=change.table.schema,
        table=change.table.name,
        table_id=(change.table_id if change.table_id is not None else change.table.table_id) or 0,
        type=kind,  # type: ignore[arg-type]
        commit_ts=change.commit_ts,
        build_ts=config.build_ts(),
        schema_version=change.table.version or 0,
        claim_check_location=location or change.claim_check or "",
        handle_key_only=keys_only or change.partial,
    )
    if config.enable_row_checksum and change.checksum is not None:
        sums = change.checksum
        message.checksum = WireChecksum(sums.version, sums.corrupted, sums.current, sums.previous)
    for field, image, needed in (
        ("data", change.after, change.op != "delete"),
        ("old", change.before, change.op != "insert"),
    ):
        if needed:
            if image is None:
                raise MessageError(f"{kind} without its {'after' if field == 'data' else 'before'} image")
            setattr(message, field, write(image))
    return message
