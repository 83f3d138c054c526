"""Control events: what the driver reads of a batch. Row changes stay in the topic; the driver only gets summaries."""

from collections.abc import Sequence
from typing import TypeAlias, assert_never, get_args

import msgspec

from ticdc_spark.ddl import change_tables
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Bootstrap, Envelope, Event, Op, Rejected, SchemaChange, Table, TableName

OPS: tuple[Op, ...] = get_args(Op)
"""The operations of row changes, in the order of ``RowCounts.ops``."""


class RowCounts(msgspec.Struct):
    """What one task saw of one (partition, table, schema key)."""

    rows: int = 0
    """Rows above the table's ``replay_below``. ``min_ts`` and ``max_ts`` are their lowest and highest commit_ts."""
    min_ts: int = 2**63 - 1
    max_ts: int = 0
    first: int = 2**63 - 1
    """The lowest offset of ``rows``."""
    end: int = 0
    """One more than the highest offset of ``rows``."""
    bytes: int = 0
    """About the size of their messages in bytes."""
    inserts: int = 0
    """The number of ``rows`` whose op is insert."""
    replays: int = 0
    """Certain replays."""
    late: int = 0
    """Rows at or below ``replay_below`` that are not certain replays."""
    late_first: int = 2**63 - 1
    late_end: int = 0
    """The ``late`` rows are at offsets [late_first, late_end)."""
    late_ts: int = 2**63 - 1
    late_upto: int = 0
    """The lowest and highest commit_ts of ``late``."""
    hidden: bool = False
    """Whether some rows do not carry their commit_ts."""
    messages: int = 0
    """The number of messages with rows of the group. This and what follows include replays and late rows."""
    message_bytes: int = 0
    """About their size in bytes, with their keys."""
    ops: tuple[int, ...] = (0,) * 4
    """The numbers of rows by ``OPS``."""

    def take(self, rows: int, lowest: int, highest: int, first: int, last: int) -> None:
        """Count rows of these commit timestamps and offsets."""
        self.rows += rows
        self.min_ts, self.max_ts = min(self.min_ts, lowest), max(self.max_ts, highest)
        self.first, self.end = min(self.first, first), max(self.end, last + 1)

    def take_late(self, ts: int, offset: int) -> None:
        """Count a row that may be late."""
        self.late += 1
        self.late_ts, self.late_upto = min(self.late_ts, ts), max(self.late_upto, ts)
        self.late_first, self.late_end = min(self.late_first, offset), max(self.late_end, offset + 1)


class SchemaIds(msgspec.Struct, frozen=True):
    """Ids of the schemas of a message's key and value."""

    key: int | None
    value: int | None


class LeftOut(Rejected, frozen=True):
    """A message that the job file skips, and what is known of it."""

    tables: tuple[tuple[str, str], ...] = ()
    commit_ts: int = 0


def left_out(opened: Sequence[Event]) -> LeftOut:
    """What is known of a decoded message that is skipped."""
    tables: dict[tuple[str, str], None] = {}
    commit_ts, bad = 0, ""
    for event in opened:
        match event:
            case Envelope():
                tables[event.schema, event.table] = None
            case SchemaChange():
                named = [one.full_name for one in (event.pre_table, event.table) if one is not None]
                tables |= dict.fromkeys([*named, event.full_name] if event.name else named)
                tables |= dict.fromkeys(_named_by_sql(event))
            case Bootstrap():
                tables[event.table.schema, event.table.name] = None
            case Rejected():
                bad = bad or event.reason
        commit_ts = max(commit_ts, getattr(event, "commit_ts", 0))
    if bad:
        return LeftOut(f"left out by skip-messages; it cannot be read: {bad}")
    return LeftOut("left out by skip-messages", tuple(tables), commit_ts)


def _named_by_sql(change: SchemaChange) -> list[TableName]:
    """Tables that only the SQL names: the old table of a RENAME, if its message lacks it."""
    try:
        return [name for names in change_tables(change) for name in names]
    except MessageError:
        return []


class Place(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The place of an event; ``offset`` is -1 if it summarises several messages."""

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
    """The schema of a table, from a message."""

    table: Table
    commit_ts: int = 0
    """Valid from this commit_ts on; 0: unknown."""


class RowsRead(Place, frozen=True, kw_only=True):
    """Row changes of one table and schema key, in a range of one partition."""

    schema: str
    table: str
    schema_key: str
    sent: tuple[str, str]
    """(schema, table) as in the messages."""
    summary: RowCounts


class MessageRejected(Place, frozen=True, kw_only=True):
    """A message that cannot be read."""

    reason: str


class MessageSkipped(Place, frozen=True, kw_only=True):
    """A message that the job file skips."""

    reason: str
    tables: tuple[tuple[str, str], ...]
    """The tables that it names; empty: none, or the message could not be read."""
    commit_ts: int


class SchemaIdsRead(Place, frozen=True, kw_only=True):
    """The ids of registered schemas in messages."""

    ids: SchemaIds


class SchemaBlockRead(Place, frozen=True, kw_only=True):
    """The table of a schema block (Debezium); ``commit_ts`` is from the first row with the block."""

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


def table_of(event: ControlEvent) -> tuple[str, str] | None:
    """The (schema, table) of an event; ``None``: it is not about a table."""
    match event:
        case RowsRead() | SchemaBlockRead():
            return event.schema, event.table
        case DdlRead():
            return event.change.merged or event.change.full_name
        case BootstrapRead():
            return event.table.schema, event.table.name
        case WatermarkRead() | MessageRejected() | MessageSkipped() | SchemaIdsRead():
            return None
        case _:
            assert_never(event)


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or one of its rows, that cannot be read: its place and the reason."""

    topic: str
    partition: int
    offset: int
    seq: int
    reason: str


def reject_of(event: MessageRejected | MessageSkipped) -> Reject:
    """The place of an unreadable message, and the reason."""
    return Reject(topic=event.topic, partition=event.partition, offset=event.offset, seq=event.seq, reason=event.reason)
