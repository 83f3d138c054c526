"""Control events: what the driver reads of a landed batch. A row of the log's control bucket is decoded once, here.

Row changes themselves stay in the log; of them the driver reads one summary a task, partition, table and schema key.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

import msgspec

from ticdc_spark.model import Bootstrap, Envelope, Event, Rejected, SchemaChange, Table

SCHEMA_IDS = "schema_ids"
"""Kind of the control events that name registered schemas."""
SCHEMA_BLOCK = "schema_block"
"""Kind of the control events that have the table of a schema block; ``commit_ts`` is that of its first row."""


class RowCounts(msgspec.Struct):
    """What one task saw of one (partition, table, schema key)."""

    rows: int = 0
    """Above the table's ``replay_below``; ``min_ts`` and ``max_ts`` are theirs."""
    min_ts: int = 2**63 - 1
    max_ts: int = 0
    inserts: int = 0
    """Of ``rows``, those whose op is insert."""
    replays: int = 0
    """Certain ones: left out of the log."""
    late: int = 0
    """At or below it, and no certain replay."""
    hidden: bool = False
    """Whether some do not carry their commit_ts."""


class SchemaIds(msgspec.Struct, frozen=True):
    """The schemas of a message's key and value, by their ids."""

    key: int | None
    value: int | None


class LeftOut(Rejected, frozen=True):
    """A message in whose place nothing is read, as the job file leaves it out; what is known of it."""

    tables: tuple[tuple[str, str], ...] = ()
    commit_ts: int = 0


def left_out(opened: Sequence[Event]) -> LeftOut:
    """What is known of an opened message that is left out."""
    tables: dict[tuple[str, str], None] = {}
    commit_ts, bad = 0, ""
    for event in opened:
        match event:
            case Envelope():
                tables[event.schema, event.table] = None
            case SchemaChange():
                named = [(one.schema, one.name) for one in (event.pre_table, event.table) if one is not None]
                tables |= dict.fromkeys([*named, (event.schema, event.name)] if event.name else named)
            case Bootstrap():
                tables[event.table.schema, event.table.name] = None
            case Rejected():
                bad = bad or event.reason
        commit_ts = max(commit_ts, getattr(event, "commit_ts", 0))
    if bad:
        return LeftOut(f"left out by skip-messages; it cannot be read: {bad}")
    return LeftOut("left out by skip-messages; it can be read", tuple(tables), commit_ts)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an event stands; ``offset`` is -1 where it stands for several messages."""

    topic: str
    partition: int
    offset: int
    seq: int


class WatermarkRead(Place, frozen=True, kw_only=True):
    """A watermark."""

    commit_ts: int


class DdlRead(Place, frozen=True, kw_only=True):
    """A copy of a DDL."""

    change: SchemaChange


class BootstrapRead(Place, frozen=True, kw_only=True):
    """The schema of a table, as a message carries it."""

    table: Table


class RowsRead(Place, frozen=True, kw_only=True):
    """Row changes of one table and schema key, of one partition and task."""

    schema: str
    table: str
    schema_key: str
    summary: RowCounts


class MessageRejected(Place, frozen=True, kw_only=True):
    """A message that cannot be read."""

    reason: str


class MessageSkipped(Place, frozen=True, kw_only=True):
    """A message that the job file leaves out."""

    reason: str
    tables: tuple[tuple[str, str], ...]
    """Those that it names; none: it could not be read, or names none."""
    commit_ts: int


class SchemaIdsRead(Place, frozen=True, kw_only=True):
    """Registered schemas that messages name."""

    ids: SchemaIds


class SchemaBlockRead(Place, frozen=True, kw_only=True):
    """The table of a schema block (Debezium); ``commit_ts`` is that of the first row with it."""

    schema: str
    table: str
    schema_key: str
    commit_ts: int
    held: Table


ControlEvent: TypeAlias = (
    WatermarkRead
    | DdlRead
    | BootstrapRead
    | RowsRead
    | MessageRejected
    | MessageSkipped
    | SchemaIdsRead
    | SchemaBlockRead
)


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the change log's control bucket, as it is stored."""

    kind: str
    topic: str
    partition: int
    offset: int
    seq: int
    schema: str
    table: str
    schema_key: str | None
    commit_ts: int
    control: str | None


def read_control(row: Control) -> ControlEvent:
    """Decode a row of the control bucket."""
    place: dict[str, Any] = {
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "seq": row.seq,
    }
    text = row.control or ""
    match row.kind:
        case "watermark":
            return WatermarkRead(**place, commit_ts=row.commit_ts)
        case "ddl":
            return DdlRead(**place, change=msgspec.json.decode(text, type=SchemaChange))
        case "bootstrap":
            return BootstrapRead(**place, table=msgspec.json.decode(text, type=Bootstrap).table)
        case "rejected":
            return MessageRejected(**place, reason=msgspec.json.decode(text, type=Rejected).reason)
        case "skipped":
            left = msgspec.json.decode(text, type=LeftOut)
            return MessageSkipped(**place, reason=left.reason, tables=left.tables, commit_ts=left.commit_ts)
        case "summary":
            of: dict[str, Any] = {"schema": row.schema, "table": row.table, "schema_key": row.schema_key or ""}
            return RowsRead(**place, **of, summary=msgspec.json.decode(text, type=RowCounts))
        case _ if row.kind == SCHEMA_IDS:
            return SchemaIdsRead(**place, ids=msgspec.json.decode(text, type=SchemaIds))
        case _ if row.kind == SCHEMA_BLOCK:
            of = {"schema": row.schema, "table": row.table, "schema_key": row.schema_key or ""}
            held = msgspec.json.decode(text, type=Table)
            return SchemaBlockRead(**place, **of, commit_ts=row.commit_ts, held=held)
    message = f"a row of kind {row.kind!r} is no control event"
    raise AssertionError(message)


def table_of(event: ControlEvent) -> tuple[str, str] | None:
    """The (schema, table) that an event is about; ``None``: it is about no table."""
    match event:
        case RowsRead() | SchemaBlockRead():
            return event.schema, event.table
        case DdlRead():
            return event.change.schema, event.change.name
        case BootstrapRead():
            return event.table.schema, event.table.name
        case WatermarkRead() | MessageRejected() | MessageSkipped() | SchemaIdsRead():
            return None
        case _:
            assert_never(event)


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or a row of it, that cannot be read; where it stands and why."""

    topic: str
    partition: int
    offset: int
    seq: int
    reason: str


def reject_of(event: MessageRejected | MessageSkipped) -> Reject:
    """Where an unreadable message stands, and why it is one."""
    return Reject(topic=event.topic, partition=event.partition, offset=event.offset, seq=event.seq, reason=event.reason)
