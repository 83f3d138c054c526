"""The flat form of an event, for ``inspect --json`` and for topics that are read as DataFrames."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Bootstrap, ColumnType, Rejected, Row, RowChange, SchemaChange, Table, Value, Watermark
from ticdc_spark.mysql import enum_name, set_names
from ticdc_spark.streams.reader import Found

Kind: TypeAlias = Literal["insert", "update", "delete", "upsert", "ddl", "watermark", "bootstrap", "rejected"]
Cell: TypeAlias = str | dict[str, str] | None
"""Text, ``{"base64": …}`` for bytes, or NULL."""


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """An event as ``inspect --json`` prints it. Every field is always present; ``null``: the event has none."""

    kind: Kind
    """``upsert``: an insert, or an update without old values, which the protocol does not distinguish."""
    topic: str
    partition: int
    offset: int
    seq: int
    """Position in a message of several events, from 0."""
    commit_ts: int | None = None
    """The TSO; also a watermark's. ``null`` if the protocol hides it."""
    schema: str | None = None
    table: str | None = None
    before: dict[str, Cell] | None = None
    """Column → readable value: ENUM and SET by name if their members are known (else their number), BIT as a number,
    TIMESTAMP in UTC, text that is not UTF-8 as bytes. For a rejected row: the JSON as it was sent."""
    after: dict[str, Cell] | None = None
    partial: bool | None = None
    """For a row: whether its images have only some columns."""
    query: str | None = None
    reason: str | None = None
    """Why it was rejected."""


def event_line(found: Found) -> EventLine:
    """The line of an event."""
    event, message = found.event, found.message
    known = {"topic": message.topic, "partition": message.partition, "offset": message.offset, "seq": found.seq}
    match event:
        case RowChange():
            types = _types(event.table)
            return EventLine(
                kind=event.op,
                commit_ts=event.commit_ts or None,
                schema=event.table.schema,
                table=event.table.name,
                before=_image(types, event.before),
                after=_image(types, event.after),
                partial=event.partial,
                **known,  # type: ignore[arg-type]
            )
        case SchemaChange():
            return EventLine(
                kind="ddl",
                commit_ts=event.commit_ts,
                schema=event.schema or None,
                table=event.name or None,
                query=event.query,
                **known,  # type: ignore[arg-type]
            )
        case Watermark():
            return EventLine(kind="watermark", commit_ts=event.commit_ts, **known)  # type: ignore[arg-type]
        case Bootstrap(table):
            return EventLine(kind="bootstrap", schema=table.schema, table=table.name, **known)  # type: ignore[arg-type]
        case Rejected(reason):
            row = found.envelope
            return EventLine(
                kind="rejected",
                commit_ts=row.commit_ts or None if row else None,
                schema=row.schema if row else None,
                table=row.table if row else None,
                before=_as_sent(row.before) if row else None,
                after=_as_sent(row.after) if row else None,
                partial=row.partial if row else None,
                reason=reason,
                **known,  # type: ignore[arg-type]
            )


def _types(table: Table) -> dict[str, ColumnType]:
    return {column.name: column.type for column in table.columns}


def _image(types: Mapping[str, ColumnType], row: Row | None) -> dict[str, Cell] | None:
    return None if row is None else {name: _cell(types[name], value) for name, value in row.items()}


def _as_sent(image: bytes | None) -> dict[str, Cell] | None:
    """The values of a row that could not be read, as sent: text or JSON; ``None`` if they are no JSON object."""
    if image is None:
        return None
    # an image may have a line before its JSON that says how to read it
    body = image if image[:1] == b"{" else image.partition(b"\n")[2]
    try:
        fields = _FIELDS.decode(body)
        return {name: _sent(bytes(raw)) for name, raw in fields.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _sent(raw: bytes) -> Cell:
    if raw == b"null":
        return None
    return msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else raw.decode()


def _cell(column_type: ColumnType, value: Value) -> Cell:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if value is not None and column_type.elements and column_type.name in ("enum", "set"):
        try:
            return (enum_name if column_type.name == "enum" else set_names)(column_type, value)
        except MessageError:  # the members are from another version
            return value
    return value
