"""canal-json: messages to events. The other direction is ``canal_json.encode``.

A message has one event, and its Kafka key is null. Alibaba's Canal, whose format this is, writes several rows into one
message, so each item of ``data`` is an event here. No message has a table's schema: the schema key is ``""``.

- With TiDB's extension, ``_tidb`` has ``commitTs`` and there are watermarks. Without it, only ``es`` has the time, in
  milliseconds. commit_ts is this time with a logical part of 0, so transactions of one millisecond look like one.
- ``old`` of an update may have only changed columns (only-output-updated-columns, content-compatible). The before image
  is then "data" overlaid with "old", so both images are whole.
- ``_tidb.onlyHandleKey`` and ``claimCheckLocation`` mark images that have only handle key columns: ``partial``.

Source: ``canal-json`` in the vectors' notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope, Event, Op, Rejected, SchemaChange, Table, Watermark
from ticdc_spark.mysql import tso
from ticdc_spark.protocols.base import ReadOptions, RowReader
from ticdc_spark.protocols.canal_json.images import whole_before
from ticdc_spark.protocols.canal_json.types import cell
from ticdc_spark.protocols.shared.json_rows import image_reader
from ticdc_spark.topics.storage.layout import place_of
from ticdc_spark.topics.storage.other_files import other_events
from ticdc_spark.wire.compression import unpack

_BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_OPS: dict[str, Op] = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
_WATERMARK = "TIDB_WATERMARK"
_MAX_MS = 1 << 45
"""From this number of milliseconds on, a TSO would not fit into 63 bits."""


class WireExtension(msgspec.Struct, rename="camel", gc=False):
    """TiDB's own fields."""

    commit_ts: int | None = None
    watermark_ts: int | None = None
    only_handle_key: bool = False
    claim_check_location: str = ""


class WireMessage(msgspec.Struct, rename="camel", gc=False):
    """The needed fields of a message; a kind of message needs only some of them. Images stay raw."""

    is_ddl: bool
    type: str
    database: str | None = None
    table: str = ""
    es: int | None = None
    sql: str = ""
    data: list[msgspec.Raw] | None = None
    old: list[msgspec.Raw] | None = None
    extension: WireExtension | None = msgspec.field(default=None, name="_tidb")


_DECODER = msgspec.json.Decoder(WireMessage)


class CanalJsonDecoder:
    """Reads canal-json. Stateless."""

    name = "canal-json"

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        """Open one message: one event, or one for each row of Canal's own messages.

        From a storage sink, the key is the file and the line, and a message may be another whole file of the sink.
        """
        if key and (place := place_of(key)):
            return _stored(place, value or b"")
        return self._open(value)

    def _open(self, value: bytes | None) -> Sequence[Event]:
        if not value:
            return (
                Rejected("a canal-json message has a value; this one is " + ("null" if value is None else "empty")),
            )
        try:
            message = _DECODER.decode(unpack(value))
            return _events(message)
        except _BAD_JSON as error:
            return (Rejected(f"not a canal-json message: {error}; begins with {value[:80]!r}"),)
        except MessageError as error:
            return (Rejected(f"canal-json message: {error}"),)

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        """Compile a reader of images: raw JSON objects, column names to text or null.

        TIMESTAMP needs ``options.source_timezone``; otherwise the row is bad.

        Raises: MessageError if the table has a column type that canal-json cannot carry.
        """
        return image_reader(table, {column.name: cell(column.type, options) for column in table.columns}, only)


DECODER = CanalJsonDecoder()


def _stored(place: str, value: bytes) -> Sequence[Event]:
    """Open the content of a storage sink's file."""
    try:
        events = other_events(value)
    except MessageError as error:
        return (Rejected(f"{place}: {error}"),)
    if events is None:
        events = DECODER._open(value)
    return tuple(Rejected(f"{place}: {one.reason}") if isinstance(one, Rejected) else one for one in events)


def _events(message: WireMessage) -> Sequence[Event]:
    extension = message.extension
    if message.type == _WATERMARK:
        return (Watermark(_ts("watermarkTs", None if extension is None else extension.watermark_ts)),)
    if extension is not None:
        commit_ts = _ts("commitTs", extension.commit_ts)
    elif message.es is None:
        raise MessageError("field `es` is missing, and there is no `_tidb`, which would have the time too")
    elif 0 < message.es < _MAX_MS:
        commit_ts = tso(message.es)
    else:
        raise MessageError(f"field `es` is {message.es}; allowed: milliseconds, 1 … 2^45 - 1")
    if message.is_ddl:
        if not message.sql:
            raise MessageError(f"{message.type} without field `sql`")
        if message.database is None:
            raise MessageError(f"{message.type} without field `database`")
        return (
            SchemaChange(
                commit_ts=commit_ts, query=message.sql, kind=message.type, schema=message.database, name=message.table
            ),
        )
    op = _OPS.get(message.type)
    if op is None:
        raise MessageError(f"field `type` is {message.type!r}; allowed: {', '.join(_OPS)}, {_WATERMARK}, or a DDL")
    return _rows(message, op, commit_ts)


def _ts(field: Literal["commitTs", "watermarkTs"], ts: int | None) -> int:
    if ts is None:
        raise MessageError(f"field `_tidb.{field}` is missing")
    if not 0 < ts < 1 << 63:
        raise MessageError(f"field `_tidb.{field}` is {ts}; allowed: 1 … 2^63 - 1")
    return ts


def _rows(message: WireMessage, op: Op, commit_ts: int) -> Sequence[Event]:
    if not message.database or not message.table:
        raise MessageError(f"a row without field `{'table' if message.database else 'database'}`")
    data = [bytes(image) for image in message.data or ()]
    old: list[bytes | None] = [None] * len(data)
    if op == "update" and message.old is not None:
        old = [bytes(image) for image in message.old]
    if not data or len(old) != len(data):
        raise MessageError(f"{message.type} with {len(data)} rows in `data` and {len(old)} in `old`")
    if any(image is not None and not image.startswith(b"{") for image in (*data, *old)):
        raise MessageError("an image that is no JSON object")
    extension = message.extension or _NOTHING
    location = extension.claim_check_location or None
    partial = extension.only_handle_key or location is not None
    events = []
    for image, before in zip(data, old, strict=True):
        kind: Op = op
        after: bytes | None = image
        if op == "delete":
            before, after = image, None
        elif before is not None:
            before = whole_before(image, before)
        elif op == "update":
            kind = "upsert"
        events.append(
            Envelope(
                op=kind,
                schema=message.database,
                table=message.table,
                commit_ts=commit_ts,
                before=before,
                after=after,
                partial=partial,
                claim_check=location,
            )
        )
    return events


_NOTHING = WireExtension()
