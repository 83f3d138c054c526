"""Holds: how far each table may go when one of them stands still. Pure.

A quarantined table does not advance. A DDL that names it waits with it, and so does what comes after that DDL in every
other table that the DDL names: the rows of a table's new name belong behind its RENAME.
"""

from collections.abc import Mapping, Sequence

from ticdc_spark.replicate.plan.evolve import action, names
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.state.progress import QueuedDdl, TableState
from ticdc_spark.sinks.base import TableName

Bounds = dict[TableName, int]
"""The commit_ts up to which a table may go, for the tables that may not go as far as the others."""


def bounds_of(states: Mapping[TableName, TableState], ddls: Sequence[QueuedDdl]) -> tuple[Bounds, list[QueuedDdl]]:
    """The bounds of tables, and the DDLs that wait, in order. ``ddls``: those queued, with their schemas."""
    bounds: Bounds = {name: state.applied for name, state in states.items() if state.quarantined}
    held: list[QueuedDdl] = []
    if not bounds:
        return bounds, held
    for ddl in in_order(ddls):
        members = names(action(ddl.change), {**states, **dict.fromkeys(bounds)})
        if any(name in bounds for name in members):
            held.append(ddl)
            for name in members:
                bounds.setdefault(name, ddl.change.commit_ts - 1)
    return bounds, held


__all__ = ["Bounds", "bounds_of"]
