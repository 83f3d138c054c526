"""The order of DDLs: by commit_ts, and at one commit_ts first the one that frees a name. Pure.

DDLs of one commit_ts come from one statement, such as ``RENAME TABLE t TO t_old, t_new TO t``. Their places in
a topic do not order them, since they may be in several topics.
"""

from collections.abc import Iterable, Sequence

from ticdc_spark.model import TableName
from ticdc_spark.replicate.plan.names import tables_before_and_after
from ticdc_spark.replicate.state.progress import QueuedDdl


def in_order(ddls: Iterable[QueuedDdl], live: Iterable[TableName] = ()) -> list[QueuedDdl]:
    """DDLs in the order in which they are applied; the same whatever order they came in. ``live``: the tables that are
    known to exist before."""
    groups: dict[int, list[QueuedDdl]] = {}
    for ddl in ddls:
        groups.setdefault(ddl.change.commit_ts, []).append(ddl)
    found: list[QueuedDdl] = []
    names = set(live)
    for ts in sorted(groups):
        found += groups[ts] if len(groups[ts]) == 1 else _of_one_moment(groups[ts], names)
        for ddl in groups[ts]:
            names -= _names(ddl)[0]
        for ddl in groups[ts]:
            names |= _names(ddl)[1]
    return found


def _of_one_moment(ddls: Sequence[QueuedDdl], live: set[TableName]) -> list[QueuedDdl]:
    left = sorted(ddls, key=lambda ddl: (ddl.offset, ddl.partition, ddl.topic, ddl.change.query))
    names = set(live)
    ordered: list[QueuedDdl] = []
    while left:
        frees = {name: at for at, ddl in enumerate(left) for name in _names(ddl)[0]}
        possible = [at for at, ddl in enumerate(left) if _names(ddl)[0] <= names and not _names(ddl)[1] & names]
        free = [at for at, ddl in enumerate(left) if all(frees.get(name, at) == at for name in _names(ddl)[1])]
        # First what no other one waits to make room for; in a circle (a swap by way of a third name) what the tables
        # that exist allow; where nothing is known of them, the order in which they were sent is all that is left.
        chosen = left.pop(next(iter(free), next(iter(possible), 0)))
        names = (names - _names(chosen)[0]) | _names(chosen)[1]
        ordered.append(chosen)
    return ordered


def _names(ddl: QueuedDdl) -> tuple[set[TableName], set[TableName]]:
    """The names that a DDL frees, and those that it takes; by its SQL, since its schemas may not be known yet."""
    before, after = tables_before_and_after(ddl.change)
    return before - after, after - before
