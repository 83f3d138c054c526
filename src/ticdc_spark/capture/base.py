"""The contract of a source of changes.

A source gives transactions and DDLs in the order of their commit_ts, which rises strictly from one transaction or DDL
to the next. Where it stands is a ``CaptureState``, a plain value: a source that is opened again with it gives what
comes after it, with the same commit_ts as the first time.
"""

from collections.abc import Collection, Iterator
from typing import Protocol, TypeAlias

import msgspec

from ticdc_spark.model import RowChange, SchemaChange, Table, TableName


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that were committed together."""

    commit_ts: int
    start_ts: int = 0
    """TiDB's; 0 where the source has none."""
    changes: Collection[RowChange]
    """In the source's order, each with this commit_ts. A row may be in it several times. A tuple, but for a large
    transaction a collection that is decoded from a file each time it is iterated over."""
    position: str
    """In the source's own terms: reading goes on after the transaction."""


class CapturedDdl(msgspec.Struct, frozen=True, kw_only=True):
    """A DDL statement. One that names several tables is split: one ``SchemaChange`` a table, with one commit_ts."""

    commit_ts: int
    start_ts: int = 0
    changes: tuple[SchemaChange, ...]
    """With the table before and after where there is one; ``kind`` is that of ``ddl.effect.Kind``."""
    position: str


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Everything with a commit_ts up to this one, itself included, has been given. Comes at least each second."""

    commit_ts: int
    position: str
    tables: tuple[Table, ...] = ()
    """Schemas that were learnt without a DDL, as those of BOOTSTRAP messages."""
    from_clock: bool = False
    """The commit_ts is that of the source's clock, above that of the last change. The state after it has to be stored
    before anything that depends on it is sent: reading again from an earlier state may give what comes next a
    commit_ts that is not above it."""


Captured: TypeAlias = Transaction | CapturedDdl | Resolved


class CaptureState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a source stands: all that it needs to go on."""

    position: str
    commit_ts: int
    """The largest that was given; what comes is above it."""
    tables: tuple[Table, ...] = ()
    """Schemas at ``position``, of all tables that the source can capture."""
    unread: tuple[TableName, ...] = ()
    """Tables whose rows from before are still to be read, in this order; a rename takes its table along."""
    last_table_id: int = 0
    """The largest id that a table has had, so that none is given twice."""


class Capture(Protocol):
    """A source of changes."""

    def begin(self) -> CaptureState:
        """Where a new changefeed begins: the source's end now, with the schemas that are valid there.

        Raises: SourceFault; UsageError for a server whose settings do not allow it, with all of them at once.
        """

    def read(self, state: CaptureState) -> Iterator[Captured]:
        """What comes after ``state``, without end where the source has none; waits for new changes.

        Raises: SourceFault; SourceChanged when what comes next is not kept any more.
        """

    def close(self) -> None:
        """Give up connections; a ``read`` that waits ends."""


def follow(state: CaptureState, captured: Captured) -> CaptureState:
    """The state after an element has been given."""
    tables, unread, last_id = state.tables, state.unread, state.last_table_id
    if isinstance(captured, CapturedDdl):
        ids = (change.table.table_id or 0 for change in captured.changes if change.table is not None)
        last_id = max(last_id, *ids, 0)
        tables = _changed(tables, captured.changes)
        unread = _moved(unread, captured.changes) if unread else ()
    elif isinstance(captured, Resolved) and captured.tables:
        learnt = {table.full_name: table for table in (*tables, *captured.tables)}
        tables = tuple(learnt.values())
    reached = max(state.commit_ts, captured.commit_ts)
    return CaptureState(
        position=captured.position, commit_ts=reached, tables=tables, unread=unread, last_table_id=last_id
    )


def _changed(tables: tuple[Table, ...], changes: tuple[SchemaChange, ...]) -> tuple[Table, ...]:
    """All tables that a statement takes away go first: it may swap names."""
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
    """Dropped tables have nothing to read any more; renamed ones, which may swap names, have it under the new name."""
    now: dict[TableName, TableName | None] = {}
    gone = {change.schema for change in changes if change.kind == "drop database"}
    for change in changes:
        before, after = change.pre_table, change.table
        if before is not None:
            now[before.full_name] = None if after is None else after.full_name
    found = (now.get(name, name) for name in unread if name[0] not in gone or name in now)
    return tuple(dict.fromkeys(name for name in found if name is not None))
