"""Holds: how far each table may go while some of them are paused. Pure.

A quarantined table does not advance, and a table that is read in full waits at the base of the read. A DDL that names
such a table waits with it. So do later changes of every other table that the DDL names: the rows of a table's new name
belong after its RENAME.
"""

from collections.abc import Mapping, Sequence

from ticdc_spark.model import TableName
from ticdc_spark.replicate.plan.ddl_actions import DropDatabase, action, names
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.state.progress import QueuedDdl
from ticdc_spark.replicate.state.table import TableState

Bounds = dict[TableName, int]
"""The commit_ts up to which a table may go, for tables that must stay behind the resolved ts."""


def bounds_of(
    states: Mapping[TableName, TableState],
    ddls: Sequence[QueuedDdl],
    behind: Mapping[TableName, int] | None = None,
    stopped: Sequence[QueuedDdl] = (),
) -> tuple[Bounds, list[QueuedDdl]]:
    """The bounds of tables, and the waiting DDLs in order.

    ``ddls``: the queued ones, with their schemas. ``behind``: tables that catch up, with how far they may go.
    ``stopped``: DDLs that wait in any case, such as one that cannot be replayed.
    """
    still = {name for name, state in states.items() if state.quarantined}
    bounds: Bounds = {**(behind or {}), **{name: states[name].applied for name in still}}
    for name, state in states.items():
        if state.load is not None:
            bounds[name] = min(state.load.base, bounds.get(name, state.load.base))
    held: list[QueuedDdl] = []
    if not bounds and not stopped:
        return bounds, held
    waits = {identity(ddl.change) for ddl in stopped}
    others = [ddl for ddl in ddls if identity(ddl.change) not in waits]
    named: dict[TableName, object] = {**states, **dict.fromkeys(bounds)}
    for ddl in in_order([*others, *stopped]):
        ts = ddl.change.commit_ts
        act = action(ddl.change)
        members = names(act, named) or tuple(tables_of(ddl.change))
        named |= dict.fromkeys(members)  # A later DROP DATABASE drops the tables that came into it before.
        if isinstance(act, DropDatabase):
            members = tuple(name for name in members if name not in states or states[name].applied < ts)
        if identity(ddl.change) in waits or any(name in still or bounds.get(name, ts) < ts for name in members):
            held.append(ddl)
            still.update(members)
            bounds |= {name: min(bounds.get(name, ts - 1), ts - 1) for name in members}
    return bounds, held
