"""Debezium: messages to events. The other direction is ``debezium.encode``.

It reads messages of TiCDC, with and without the schema block, and of Debezium's own connectors for MySQL and MariaDB.
Only TiCDC sends ``source.commit_ts``, with and without TiDB's extension. Watermarks need the extension and TiCDC v9 or
later; DDL needs TiCDC v9 too.

A connector's ``source`` has a file, a position and a GTID instead. Its commit_ts is ``source.ts_ms`` with a logical
part of 0. This is the binlog's clock, often in whole seconds, so transactions of one second look like one; their order
is the partition's. It is 0 if ``ts_ms`` is, as in the snapshots of old connectors. A snapshot's rows (``r``) are
upserts, and a TRUNCATE (``t``) is a DDL. Heartbeats, begin and end of transactions, tombstones and ``SET`` statements
give nothing. A row without its envelope (flattened) is rejected, as it names neither its table nor its operation.

Images are read with the table that is valid at commit_ts, so the schema key is ``""``. With ``block_keys``, the key is
a hash of the schema block, for rows whose table only that block describes (``debezium.tables``).

Sources: spec "TiCDC Debezium Protocol"; ``debezium`` in the vectors' notes; for connectors, the documentation of
Debezium 2.x and 3.x on MySQL.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope, Event, Op, Rejected, SchemaChange, Table, Watermark
from ticdc_spark.mysql import tso
from ticdc_spark.protocols.base import ReadOptions, RowReader
from ticdc_spark.protocols.debezium.blocks import Block, parts, quick_parts
from ticdc_spark.protocols.debezium.native import NativeModes, forms_of, row_reader
from ticdc_spark.wire.compression import unpack

_BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_OPS: dict[str, Op] = {"c": "insert", "u": "update", "d": "delete", "r": "upsert"}
_WATERMARK, _TRUNCATE = "m", "t"
_MAX_MS = 1 << 45
"""From this number of milliseconds on, a TSO would not fit into 63 bits."""
_MAX_TS = 1 << 63
_NULLS = (b"null", b"")
_BOUNDARIES = (b'"BEGIN"', b'"END"')


class WireSource(msgspec.Struct, gc=False):
    """The origin of a change. Only TiCDC sends ``commit_ts``."""

    ts_ms: int | None = None
    db: str = ""
    table: str | None = None
    commit_ts: int | None = None


class WireChange(msgspec.Struct, gc=False):
    """The needed fields of an entry of ``tableChanges``."""

    type: str


class WirePayload(msgspec.Struct, rename={"table_changes": "tableChanges", "database": "databaseName"}, gc=False):
    """The content of a message. Images stay raw."""

    source: WireSource | None = None
    op: str = ""
    before: msgspec.Raw = msgspec.Raw()
    after: msgspec.Raw = msgspec.Raw()
    ts_ms: int | None = None
    ddl: str | None = None
    database: str | None = None
    table_changes: list[WireChange] | None = None


_PAYLOAD = msgspec.json.Decoder(WirePayload)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class DebeziumDecoder:
    """Reads Debezium in JSON. Stateless, except for what ``debezium.blocks`` remembers."""

    name = "debezium"

    def __init__(self, *, block_keys: bool = False, modes: NativeModes | None = None) -> None:
        """``block_keys``: schema keys are hashes of schema blocks. ``modes``: the connectors' configuration."""
        self._block_keys = block_keys
        self._modes = modes or NativeModes()

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        """Open one message: one event, or none if it has no event."""
        if value is None:
            return ()
        found = quick_parts(value)
        if found is not None:
            try:
                return self._events(_PAYLOAD.decode(found[0]), found[1], key)
            except _BAD_JSON:
                pass  # opened again below, as a whole, for the reason
            except MessageError as error:
                return (Rejected(f"debezium message: {error}"),)
        try:
            raw, block = parts(value if value[:1] == b"{" else unpack(value))
            if raw == b"null":
                return ()
            payload = _PAYLOAD.decode(raw)
            return _without_source(raw) if payload.source is None else self._events(payload, block, key)
        except _BAD_JSON as error:
            return (Rejected(f"not a debezium message: {error}; begins with {value[:80]!r}"),)
        except MessageError as error:
            return (Rejected(f"debezium message: {error}"),)

    def _events(self, payload: WirePayload, block: Block | None, key: bytes | None) -> Sequence[Event]:
        source = payload.source
        if source is None:
            raise msgspec.ValidationError("no field `source`")
        commit_ts = source.commit_ts
        if commit_ts is None:
            commit_ts = _native_ts(payload, source)
        elif not 0 < commit_ts < _MAX_TS:
            raise MessageError(f"field `source.commit_ts` is {commit_ts}; allowed: 1 … 2^63 - 1")
        op = _OPS.get(payload.op)
        if op is None:
            return _other(payload, source, commit_ts)
        schema, table = source.db, source.table
        if not schema or not table:
            raise MessageError("a row without field `source.db` or `source.table`")
        before, after = bytes(payload.before), bytes(payload.after)
        old = before if before[:1] == b"{" else None
        new = after if after[:1] == b"{" else None
        if (old is None and before not in _NULLS) or (new is None and after not in _NULLS):
            raise MessageError("an image that is no JSON object")
        if (old if op == "delete" else new) is None:
            raise MessageError(f"op {payload.op!r} without field `{'before' if op == 'delete' else 'after'}`")
        if source.commit_ts is None:
            head = forms_of(block, self._modes)
            old, new = old and head + old, new and head + new
        if old is None and op == "update":
            op = "upsert"  # debezium-output-old-value = false
        schema_key = block.key if self._block_keys and block is not None else ""
        return (Envelope(op, schema, table, commit_ts, old, new, None, schema_key, False, key),)

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        """Compile a reader of images: raw JSON objects, column names to values. Images of connectors have a head before
        them.

        Raises: MessageError if the table has a column type that Debezium cannot carry.
        """
        return row_reader(table, only)


DECODER = DebeziumDecoder()


def _native_ts(payload: WirePayload, source: WireSource) -> int:
    """The binlog's time. A DDL in a connector's own history has no such field, so it is the message's time."""
    ts_ms = source.ts_ms
    if ts_ms is None and payload.ddl is not None:
        ts_ms = payload.ts_ms or 0
    if ts_ms is None:
        raise MessageError("field `source.ts_ms` is missing")
    if not 0 <= ts_ms < _MAX_MS:
        raise MessageError(f"field `source.ts_ms` is {ts_ms}; allowed: milliseconds, 0 … 2^45 - 1")
    return tso(ts_ms)


def _other(payload: WirePayload, source: WireSource, commit_ts: int) -> Sequence[Event]:
    """Open a message that is no row."""
    native = source.commit_ts is None
    if payload.op == _WATERMARK and not native:
        return (Watermark(commit_ts),)
    if payload.op == _TRUNCATE and source.db and source.table:
        query = "TRUNCATE TABLE " + ".".join(f"`{name.replace('`', '``')}`" for name in (source.db, source.table))
        return (SchemaChange(commit_ts=commit_ts, query=query, kind="TRUNCATE", schema=source.db, name=source.table),)
    if payload.ddl is not None and not payload.op:
        if native and payload.ddl[:4].upper() == "SET ":
            return ()
        change = SchemaChange(
            commit_ts=commit_ts,
            query=payload.ddl,
            kind=next((change.type for change in payload.table_changes or ()), ""),
            schema=payload.database or source.db,
            name=source.table or "",
        )
        return (change,)
    allowed = ", ".join([*_OPS, _TRUNCATE, _WATERMARK])
    raise MessageError(f"field `op` is {payload.op!r}; allowed: {allowed}, or field `ddl`")


def _without_source(raw: bytes) -> Sequence[Event]:
    fields = _FIELDS.decode(raw)
    if fields.keys() == {"ts_ms"}:
        return ()  # a heartbeat
    if "event_count" in fields and bytes(fields.get("status", msgspec.Raw())) in _BOUNDARIES:
        return ()
    raise MessageError(
        "no field `source`: a row that was flattened (unwrapped) names neither its table nor its operation; "
        "send messages as the connector makes them"
    )
