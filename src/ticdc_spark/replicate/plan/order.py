"""The order of DDLs: by commit_ts. At the same commit_ts, a DDL that frees a name comes first. Pure.

DDLs with the same commit_ts come from one statement, such as ``RENAME TABLE t TO t_old, t_new TO t``. Their offsets do
not order them, since they may be in several topics.
"""

from collections.abc import Iterable, Sequence

from ticdc_spark.model import TableName
from ticdc_spark.replicate.plan.names import tables_before_and_after
from ticdc_spark.replicate.state.progress import QueuedDdl


def in_order(ddls: Iterable[QueuedDdl], live: Iterable[TableName] = ()) -> list[QueuedDdl]:
    """DDLs in the order in which to apply them, whatever order they came in. ``live``: the tables known to exist before
    them."""
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
        # First a DDL whose new names no other DDL has yet to free. In a cycle (a swap by way of a third name), one that
        # the existing tables allow. If none is known to be allowed, the first in the order in which they were sent.
        chosen = left.pop(next(iter(free), next(iter(possible), 0)))
        names = (names - _names(chosen)[0]) | _names(chosen)[1]
        ordered.append(chosen)
    return ordered


def _names(ddl: QueuedDdl) -> tuple[set[TableName], set[TableName]]:
    """The names that a DDL frees and the names that it takes, from its SQL, since its schemas may not be known yet."""
    before, after = tables_before_and_after(ddl.change)
    return before - after, after - before
