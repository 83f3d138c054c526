"""Debezium: messages to events.

TiCDC's messages, with and without the schema block, and those of Debezium's own connectors for MySQL and MariaDB, whose
``source`` has a file, a position and a GTID in place of ``commit_ts``: there commit_ts is ``source.ts_ms`` with a
logical part of 0, so that transactions of one millisecond look like one. ``source.commit_ts`` is there with and
without TiDB's extension; only watermarks need the extension, and TiCDC of v9 or later, as DDL does.

The schema block is never read: images are read with the table that is valid at commit_ts, so the schema key is ``""``.
Source: spec "TiCDC Debezium Protocol"; ``debezium`` in the vectors' notes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope, Event, Op, Rejected, SchemaChange, Table, Watermark
from ticdc_spark.mysql import tso
from ticdc_spark.protocols.base import ReadOptions, RowReader
from ticdc_spark.protocols.debezium_types import cell
from ticdc_spark.protocols.json_rows import image_reader

_BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_OPS: dict[str, Op] = {"c": "insert", "u": "update", "d": "delete", "r": "upsert"}
_WATERMARK = "m"
_MAX_MS = 1 << 45
"""Milliseconds from which on a TSO would not fit into 63 bits."""


class WireSource(msgspec.Struct, gc=False):
    """Where a change comes from. ``commit_ts`` is TiCDC's alone."""

    db: str = ""
    table: str | None = None
    ts_ms: int = 0
    commit_ts: int | None = None


class WireChange(msgspec.Struct, gc=False):
    """One entry of ``tableChanges``, as far as it is needed."""

    type: str


class WirePayload(msgspec.Struct, rename={"table_changes": "tableChanges", "database": "databaseName"}, gc=False):
    """What a message says; images stay raw."""

    source: WireSource
    op: str = ""
    before: msgspec.Raw = msgspec.Raw()
    after: msgspec.Raw = msgspec.Raw()
    ddl: str | None = None
    database: str | None = None
    table_changes: list[WireChange] | None = None


class WireMessage(msgspec.Struct, gc=False):
    """A message with its envelope; the schema block is skipped."""

    payload: WirePayload | UnsetType | None = UNSET


_MESSAGE = msgspec.json.Decoder(WireMessage)
_BARE = msgspec.json.Decoder(WirePayload)


class DebeziumDecoder:
    """Reads Debezium in JSON. Stateless."""

    name = "debezium"
    has_watermark = True

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        """Open one message: one event, or none for a tombstone (a null value)."""
        if value is None:
            return ()
        try:
            payload = _MESSAGE.decode(value).payload
            if payload is None:
                return ()
            # schemas.enable=false: the payload alone
            return (_event(_BARE.decode(value) if payload is UNSET else payload, key),)
        except _BAD_JSON as error:
            return (Rejected(f"not a debezium message: {error}; begins with {value[:80]!r}"),)
        except MessageError as error:
            return (Rejected(f"debezium message: {error}"),)

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        """Compile a reader of images: raw JSON objects, column names to values.

        Raises: MessageError if the table has a column type that Debezium cannot carry.
        """
        return image_reader(table, {column.name: cell(column.type) for column in table.columns}, only)


DECODER = DebeziumDecoder()


def _event(payload: WirePayload, key: bytes | None) -> Event:
    commit_ts = _commit_ts(payload.source)
    if payload.op == _WATERMARK and payload.source.commit_ts is not None:
        return Watermark(commit_ts)
    if payload.ddl is not None:
        return SchemaChange(
            commit_ts=commit_ts,
            query=payload.ddl,
            kind=next((change.type for change in payload.table_changes or ()), ""),
            schema=payload.database or payload.source.db,
            name=payload.source.table or "",
        )
    return _row(payload, commit_ts, key)


def _commit_ts(source: WireSource) -> int:
    if source.commit_ts is not None:
        if not 0 < source.commit_ts < 1 << 63:
            raise MessageError(f"field `source.commit_ts` is {source.commit_ts}; allowed: 1 … 2^63 - 1")
        return source.commit_ts
    if not 0 < source.ts_ms < _MAX_MS:
        raise MessageError(f"field `source.ts_ms` is {source.ts_ms}; allowed: milliseconds, 1 … 2^45 - 1")
    return tso(source.ts_ms)


def _row(payload: WirePayload, commit_ts: int, key: bytes | None) -> Envelope:
    op = _OPS.get(payload.op)
    if op is None:
        raise MessageError(f"field `op` is {payload.op!r}; allowed: {', '.join(_OPS)}, {_WATERMARK}, or field `ddl`")
    source = payload.source
    if not source.db or not source.table:
        raise MessageError("a row without field `source.db` or `source.table`")
    before, after = _image(payload.before), _image(payload.after)
    if (before if op == "delete" else after) is None:
        raise MessageError(f"op {payload.op!r} without field `{'before' if op == 'delete' else 'after'}`")
    if any(image is not None and not image.startswith(b"{") for image in (before, after)):
        raise MessageError("an image that is no JSON object")
    if op == "update" and before is None:
        op = "upsert"  # debezium-output-old-value = false
    return Envelope(
        op=op, schema=source.db, table=source.table, commit_ts=commit_ts, before=before, after=after, key=key
    )


def _image(raw: msgspec.Raw) -> bytes | None:
    image = bytes(raw)
    return None if image in (b"", b"null") else image
