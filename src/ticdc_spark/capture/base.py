"""The contract of a source of changes.

A source gives transactions and DDLs in the order of their commit_ts, which rises strictly from one to the next. Its
position is a ``CaptureState``, a plain value. A source that is opened again with it gives everything after it, with the
same commit_ts as the first time.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol, TypeAlias

import msgspec

from ticdc_spark.ddl import Charset, charsets_after
from ticdc_spark.model import RowChange, SchemaChange, Table, TableName


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that were committed together."""

    commit_ts: int
    start_ts: int = 0
    """TiDB's start_ts; 0 if the source has none."""
    changes: Collection[RowChange]
    """In the source's order, each with this commit_ts. A row may occur several times. It is a tuple, or for a large
    transaction a collection that is decoded from a file in each iteration."""
    position: str
    """In the source's own format. Reading resumes after the transaction."""


class CapturedDdl(msgspec.Struct, frozen=True, kw_only=True):
    """A DDL statement. One that names several tables is split: one ``SchemaChange`` a table, with one commit_ts."""

    commit_ts: int
    start_ts: int = 0
    changes: tuple[SchemaChange, ...]
    """With the table before and after, if there is one. ``kind`` is a ``ddl.effect.Kind``."""
    position: str


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Everything with a commit_ts up to and including this one has been given. Given at least each second."""

    commit_ts: int
    position: str
    tables: tuple[Table, ...] = ()
    """Schemas that were learnt without a DDL, such as from BOOTSTRAP messages."""
    from_clock: bool = False
    """Whether the commit_ts is of the source's clock, above the last change. Then the state after it must be stored
    before anything that depends on it is sent: after a restart from an earlier state, later changes may get a commit_ts
    that is not above it."""


Captured: TypeAlias = Transaction | CapturedDdl | Resolved


class CaptureState(msgspec.Struct, frozen=True, kw_only=True):
    """A source's position: all that it needs to resume."""

    position: str
    commit_ts: int
    """The largest commit_ts that was given. Everything that follows is above it."""
    tables: tuple[Table, ...] = ()
    """Schemas at ``position``, of all tables that the source can capture."""
    unread: tuple[TableName, ...] = ()
    """Tables whose existing rows are still to be read, in this order. A renamed table keeps its place."""
    last_table_id: int = 0
    """The largest id that a table has had, so that no id is given twice."""
    charsets: Mapping[str, Charset] = {}
    """The default character sets of databases at ``position``, where they are known."""


class Capture(Protocol):
    """A source of changes."""

    @property
    def retries(self) -> int:
        """How often it has connected again after a fault. Kafka's client does not tell."""

    def begin(self) -> CaptureState:
        """The state in which a new changefeed begins: the source's present end, with the schemas there.

        Raises: SourceFault; UsageError with all settings of the server that do not allow it.
        """

    def read(self, state: CaptureState) -> Iterator[Captured]:
        """Everything after ``state``. If the source has no end, it waits for new changes.

        Raises: SourceFault; SourceChanged if the source no longer has what comes next.
        """

    def close(self) -> None:
        """Close connections. A waiting ``read`` ends."""


def follow(state: CaptureState, captured: Captured) -> CaptureState:
    """The state after an element has been given."""
    tables, unread, last_id, charsets = state.tables, state.unread, state.last_table_id, state.charsets
    if isinstance(captured, CapturedDdl):
        ids = (change.table.table_id or 0 for change in captured.changes if change.table is not None)
        last_id = max(last_id, *ids, 0)
        tables = _changed(tables, captured.changes)
        charsets = charsets_after(charsets, captured.changes)
        unread = _moved(unread, captured.changes) if unread else ()
    elif isinstance(captured, Resolved) and captured.tables:
        learnt = {table.full_name: table for table in (*tables, *captured.tables)}
        tables = tuple(learnt.values())
    reached = max(state.commit_ts, captured.commit_ts)
    return CaptureState(
        position=captured.position,
        commit_ts=reached,
        tables=tables,
        unread=unread,
        last_table_id=last_id,
        charsets=charsets,
    )


def _changed(tables: tuple[Table, ...], changes: tuple[SchemaChange, ...]) -> tuple[Table, ...]:
    """Apply changes to the tables. Tables that a statement removes go first, as it may swap names."""
    by_name = {table.full_name: table for table in tables}
    for change in changes:
        if change.pre_table is not None:
            by_name.pop(change.pre_table.full_name, None)
        elif change.kind == "drop database":
            by_name = {name: table for name, table in by_name.items() if name[0] != change.schema}
    for change in changes:
        if change.table is not None:
            by_name[change.table.schema, change.table.name] = change.table
    return tuple(by_name.values())


def _moved(unread: tuple[TableName, ...], changes: tuple[SchemaChange, ...]) -> tuple[TableName, ...]:
    """Unread tables after a DDL: drops are removed, renamed ones get the new name. A statement may swap names."""
    now: dict[TableName, TableName | None] = {}
    gone = {change.schema for change in changes if change.kind == "drop database"}
    for change in changes:
        before, after = change.pre_table, change.table
        if before is not None:
            now[before.full_name] = None if after is None else after.full_name
    found = (now.get(name, name) for name in unread if name[0] not in gone or name in now)
    return tuple(dict.fromkeys(name for name in found if name is not None))
