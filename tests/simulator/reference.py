"""The reference applier, for worlds whose statements rename several tables at once."""

from __future__ import annotations

from tests.reference.applier import Applier
from tests.reference.state import Progress
from ticdc_spark.ddl import ddl_tables
from ticdc_spark.model import SchemaChange


class FreesFirst(Applier):
    """Of the DDLs of one commitTs, one that frees a name comes before one that takes it, whatever their topics."""

    def due(self, progress: Progress, resolved: int) -> list[SchemaChange]:
        waiting = super().due(progress, resolved)
        ordered: list[SchemaChange] = []
        while waiting:
            ts = waiting[0].commit_ts
            same = [change for change in waiting if change.commit_ts == ts]
            free = [
                change for change in same if not any(_takes(change, other) for other in same if other is not change)
            ]
            ordered.append((free or same)[0])
            waiting.remove(ordered[-1])
        return ordered


def _takes(change: SchemaChange, other: SchemaChange) -> bool:
    """Whether ``change`` takes a name that ``other`` frees."""
    if "RENAME" not in change.query or "RENAME" not in other.query:
        return False
    new = set(ddl_tables(change.query, change.schema)[1])
    return bool(new & set(ddl_tables(other.query, other.schema)[0]))
