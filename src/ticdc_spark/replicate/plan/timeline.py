"""Timelines: the order in which a batch is applied. Pure.

A table's rows are split at the DDLs that name it. Tables that a DDL binds together (by a rename, or as one database)
share a timeline, whose steps run in order. Timelines are independent of each other and run in parallel.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from ticdc_spark.ddl import ddl_tables
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, TableName
from ticdc_spark.names import folded
from ticdc_spark.replicate.plan.ddl_actions import Action, Refused, action, names
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.state.progress import PendingRows, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.mark import Mark

DDL_STEPS = 1000
"""Steps reserved for each DDL at one commit_ts; the n-th DDL (from 1) begins at step n * DDL_STEPS."""


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Apply a table's rows up to ``upto``, inclusive."""

    table: TableName
    upto: int
    above: int = -1
    """In a mode without a resolved ts: an earlier step of the batch applied rows of this commit_ts and before."""
    mark: Mark | None = None
    """In a mode without a resolved ts: the mark of the commit."""


class Ddl(msgspec.Struct, frozen=True, kw_only=True):
    """Apply a DDL, whose steps begin at ``step``."""

    queued: QueuedDdl
    action: Action
    step: int
    at: int | None = None
    """In a mode without a resolved ts: the number of the batch, which its marks have."""

    @property
    def mark(self) -> Mark:
        """The mark of its first commit."""
        return (self.queued.change.commit_ts if self.at is None else self.at, self.step)


Step: TypeAlias = Rows | Ddl


DdlIdentity: TypeAlias = tuple[int | str | TableName, ...]


def identity(change: SchemaChange) -> DdlIdentity:
    """A key that all copies of one DDL share: its commit_ts and the tables after it, or those that it drops.

    After an upgrade, TiCDC may send a DDL again with another text, and an EXCHANGE PARTITION under the name of its
    other table. The parts of one statement, such as a RENAME of several tables, have one commit_ts and other tables.
    """
    try:
        before, after = ddl_tables(change.query, change.schema)
    except MessageError:
        before = after = ()
    tables = sorted({folded(name) for name in after or before})
    return (change.commit_ts, *(tables or (change.schema.lower(), change.name.lower(), change.query)))


def timelines(
    tables: Mapping[TableName, TableState],
    pending: Iterable[PendingRows],
    ddls: Sequence[QueuedDdl],
    resolved: int,
    bounds: Mapping[TableName, int] | None = None,
) -> list[list[Step]]:
    """Plan a batch: independent lists of steps, each in order.

    ``ddls``: the due ones, in order. ``bounds``: tables that must stop before ``resolved``. A table without rows or
    DDLs has no timeline.
    """
    ends = bounds or {}
    waiting = {rows.full_name for rows in pending if rows.min_ts <= min(resolved, ends.get(rows.full_name, resolved))}
    acts = [(ddl, action(ddl.change)) for ddl in ddls]
    known: dict[TableName, object] = {**tables, **dict.fromkeys(waiting)}
    for _, act in acts:
        known |= dict.fromkeys(names(act, {}))
    groups = _Groups()
    bound: list[tuple[QueuedDdl, Action, tuple[TableName, ...]]] = []
    for ddl, act in acts:
        members = tuple(sorted(tables_of(ddl.change))) if isinstance(act, Refused) else names(act, known)
        # A refused DDL is due only if skip-ddl skips it; it then marks its tables.
        groups.join(members)
        bound.append((ddl, act, members))
    for name in waiting:
        groups.join((name,))
    steps: dict[TableName, list[Step]] = {}
    loose: list[list[Step]] = []
    at: dict[int, int] = {}
    for ddl, act, members in bound:
        ts = ddl.change.commit_ts
        at[ts] = at.get(ts, 0) + 1
        step = Ddl(queued=ddl, action=act, step=at[ts] * DDL_STEPS)
        if not members:
            loose.append([step])
            continue
        line = steps.setdefault(groups.root(members[0]), [])
        line += [Rows(table=name, upto=ts) for name in members if name in waiting]
        line.append(step)
    for name in sorted(waiting):
        end = min(resolved, ends.get(name, resolved))
        steps.setdefault(groups.root(name), []).append(Rows(table=name, upto=end))
    return [*loose, *steps.values()]


class _Groups:
    """Union-find over table names."""

    def __init__(self) -> None:
        self._parent: dict[TableName, TableName] = {}

    def root(self, name: TableName) -> TableName:
        parent = self._parent.setdefault(name, name)
        while parent != name:
            name, parent = parent, self._parent[parent]
        return name

    def join(self, members: Sequence[TableName]) -> None:
        for name in members:
            self._parent[self.root(name)] = self.root(members[0])
