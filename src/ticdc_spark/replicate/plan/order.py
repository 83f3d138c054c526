"""The order of DDLs: by commit_ts, and at one commit_ts first the one that frees a name. Pure.

DDLs of one commit_ts come from one statement, such as ``RENAME TABLE t TO t_old, t_new TO t``. Where each stands in a
topic says nothing, since they may stand in several topics.
"""

from collections.abc import Iterable, Sequence

from ticdc_spark.replicate.plan.names import tables_before_and_after
from ticdc_spark.replicate.state.progress import QueuedDdl
from ticdc_spark.sinks.base import TableName


def in_order(ddls: Iterable[QueuedDdl]) -> list[QueuedDdl]:
    """DDLs in the order in which they are applied; the same whatever order they came in."""
    groups: dict[int, list[QueuedDdl]] = {}
    for ddl in ddls:
        groups.setdefault(ddl.change.commit_ts, []).append(ddl)
    found: list[QueuedDdl] = []
    for ts in sorted(groups):
        found += groups[ts] if len(groups[ts]) == 1 else _of_one_moment(groups[ts])
    return found


def _of_one_moment(ddls: Sequence[QueuedDdl]) -> list[QueuedDdl]:
    left = sorted(ddls, key=lambda ddl: (ddl.offset, ddl.partition, ddl.topic, ddl.change.query))
    ordered: list[QueuedDdl] = []
    while left:
        frees = {name: at for at, ddl in enumerate(left) for name in _names(ddl)[0]}
        free = [at for at, ddl in enumerate(left) if all(frees.get(name, at) == at for name in _names(ddl)[1])]
        # In a circle (a swap by way of a third name) the order in which they were sent is all that is left.
        ordered.append(left.pop(free[0] if free else 0))
    return ordered


def _names(ddl: QueuedDdl) -> tuple[set[TableName], set[TableName]]:
    """The names that a DDL frees, and those that it takes; by its SQL, since its schemas may not be known yet."""
    before, after = tables_before_and_after(ddl.change)
    return before - after, after - before


__all__ = ["in_order"]
