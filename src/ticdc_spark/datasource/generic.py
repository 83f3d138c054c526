"""The generic form: one row per change of any table, with its values as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.datasource.options import ReadOptionsOfSource
from ticdc_spark.datasource.planning import Reading
from ticdc_spark.datasource.schemas import Schemas
from ticdc_spark.errors import RejectedMessage
from ticdc_spark.model import Bootstrap, Envelope, Message, Row, RowChange, SchemaChange, Table
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.protocols import protocol
from ticdc_spark.protocols.base import Decoder
from ticdc_spark.streams.event_lines import Cell, EventLine, event_line
from ticdc_spark.streams.reader import EventReader, Found
from ticdc_spark.topics.storage.layout import place_of

CHANGE_TYPES: Mapping[str, str] = {
    "insert": "insert",
    "update": "update_postimage",
    "delete": "delete",
    "upsert": "upsert",
    "ddl": "ddl",
    "watermark": "watermark",
    "bootstrap": "bootstrap",
    "rejected": "unreadable",
}
"""The source's name for each ``EventLine.kind``, in Spark's words for changes."""
FIELDS: tuple[tuple[str, str, pa.DataType], ...] = (
    ("_change_type", "string", pa.string()),
    ("_commit_version", "bigint", pa.int64()),
    ("_commit_timestamp", "timestamp", pa.timestamp("us", tz="UTC")),
    ("schema", "string", pa.string()),
    ("table", "string", pa.string()),
    ("before", "string", pa.string()),
    ("after", "string", pa.string()),
    ("topic", "string", pa.string()),
    ("partition", "int", pa.int32()),
    ("offset", "bigint", pa.int64()),
    ("seq", "int", pa.int32()),
    ("table_id", "bigint", pa.int64()),
    ("partial", "boolean", pa.bool_()),
    ("query", "string", pa.string()),
    ("reason", "string", pa.string()),
)
SCHEMA_FIELD = ("table_schema", "string", pa.string())
"""With ``with-schemas``: the table of a row, or a DDL with its tables, as JSON."""


def fields_of(options: ReadOptionsOfSource) -> tuple[tuple[str, str, pa.DataType], ...]:
    """The columns: name, Spark type, Arrow type."""
    return (*FIELDS, SCHEMA_FIELD) if options.with_schemas else FIELDS


def generic_rows(reading: Reading, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of messages. Raises: RejectedMessage, unless unreadable messages become rows"""
    options = reading.options
    schema = pa.schema([(name, kind) for name, _, kind in fields_of(options)])
    wanted, is_read = _wanted(reading), _read_rows(reading)
    described = _Described() if options.with_schemas else None
    numbers = _Numbers()
    upstream = None if options.upstream is None else Upstream(options.upstream)
    try:
        reader, of = _reader(reading, upstream), reading.decoder
        for batch in batches:
            rows = []
            for message in (Message(**row) for row in batch.to_pylist()):
                for found in _events(reader, of, message, is_read):
                    line = event_line(found)
                    if line.reason is not None:
                        line = msgspec.structs.replace(line, reason=with_file(line.reason, message.key))
                    if wanted(line):
                        stop_if_rejected(reading, line)
                        rows.append(_row(found, numbers.of(found, line), described))
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
    finally:
        if upstream is not None:
            upstream.close()


def _events(reader: EventReader, of: Decoder, message: Message, is_read: Callable[[Envelope], bool]) -> Iterator[Found]:
    for seq, event in enumerate(of.open_message(message.key, message.value)):
        if not isinstance(event, Envelope) or is_read(event):
            yield from reader.read_event(message, seq, event)


def _read_rows(reading: Reading) -> Callable[[Envelope], bool]:
    """Which rows are read: values of other rows need not be decoded."""
    named, bounds = table_filter(reading.options.tables), reading.bounds
    return lambda row: bounds.wants_row(row) and named(row.schema, row.table)


def with_file(reason: str, key: bytes | None) -> str:
    """A reason with the file of a storage sink, and its line, that a message's key names."""
    file = place_of(key)
    return reason if not file or file in reason else f"{reason} ({file})"


def stop_if_rejected(reading: Reading, line: EventLine) -> None:
    """Raises: RejectedMessage for an unreadable message, if that is to stop the query"""
    if line.kind == "rejected" and reading.options.on_reject == "stop":
        table = f" (`{line.schema}`.`{line.table}`)" if line.table else ""
        raise RejectedMessage(
            f"topic {line.topic!r}, partition {line.partition}, offset {line.offset}{table} cannot be read: "
            f'{line.reason}. option on-reject = "row" returns such messages as rows with the reason'
        )


def timestamp_of(commit_ts: int | None) -> int | None:
    """The time of a commitTs in microseconds."""
    return None if not commit_ts else tso_physical_ms(commit_ts) * 1000


def _reader(reading: Reading, upstream: Upstream | None) -> EventReader:
    stored = reading.options.claim_check_storage
    schemas = Schemas(reading.known, versioned=protocol(reading.protocol).traits.versioned_tables)
    return EventReader(
        reading.decoder,
        reading.options.reading,
        schemas=reading.texts,
        fetch=None if stored is None else ClaimCheckStorage(stored).fetch,
        lookup=None if upstream is None else upstream.lookup,
        table_of=schemas.of,
    )


def _wanted(reading: Reading) -> Callable[[EventLine], bool]:
    named = table_filter(reading.options.tables)
    kinds = {"insert", "update", "delete", "upsert", "rejected", *reading.options.include}

    def wanted(line: EventLine) -> bool:
        if line.kind not in kinds:
            return False
        return line.schema is None or line.table is None or named(line.schema, line.table)

    return wanted


def _row(found: Found, line: EventLine, described: _Described | None) -> dict[str, Any]:
    fields = msgspec.structs.asdict(line) | {
        "_change_type": CHANGE_TYPES[line.kind],
        "_commit_version": line.commit_ts,
        "_commit_timestamp": timestamp_of(line.commit_ts),
        "before": _json(line.before),
        "after": _json(line.after),
        "table_id": found.event.table_id if isinstance(found.event, RowChange) else None,
    }
    return fields if described is None else fields | {"table_schema": described.of(found.event)}


class _Numbers:
    """ENUM and SET values as numbers if ``''`` is a member, because ``''`` is also the name of an invalid or empty
    value."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Table, tuple[str, ...]]] = {}

    def of(self, found: Found, line: EventLine) -> EventLine:
        """The line with such numbers instead of names."""
        change = found.event
        if not isinstance(change, RowChange):
            return line
        kept = self._kept.get(id(change.table))
        if kept is None:
            named = tuple(one.name for one in change.table.columns if "" in one.type.elements)
            kept = self._kept[id(change.table)] = change.table, named
        if not kept[1]:
            return line
        before, after = (_numbered(kept[1], *one) for one in ((line.before, change.before), (line.after, change.after)))
        return msgspec.structs.replace(line, before=before, after=after)


def _numbered(names: tuple[str, ...], shown: dict[str, Cell] | None, sent: Row | None) -> dict[str, Cell] | None:
    if shown is None or sent is None:
        return shown
    empty = {name: sent[name] for name in names if shown.get(name) == ""}
    return {**shown, **{name: value for name, value in empty.items() if isinstance(value, str)}}


class _Described:
    """Schemas as JSON, each encoded once."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Table, str]] = {}

    def of(self, event: object) -> str | None:
        """The JSON for ``table_schema`` in an event's row."""
        match event:
            case RowChange(table=table) | Bootstrap(table=table):
                kept = self._kept.get(id(table))
                if kept is None:
                    # the table is kept as well, so that its id stays unique
                    kept = self._kept[id(table)] = table, msgspec.json.encode(table).decode()
                return kept[1]
            case SchemaChange():
                return msgspec.json.encode(event).decode()
        return None


def _json(image: object) -> str | None:
    return None if image is None else msgspec.json.encode(image).decode()
