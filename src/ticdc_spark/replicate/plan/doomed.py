"""Tables that the job has never known, and that waiting DDLs drop: nothing of them is needed. Pure."""

from collections.abc import Callable, Sequence

import msgspec

from ticdc_spark.model import SchemaChange, TableName
from ticdc_spark.replicate.plan.names import tables_before_and_after
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.state.progress import PendingRows, Progress, QueuedDdl


class _Doomed(msgspec.Struct, frozen=True):
    """An unknown table, as DDLs change and rename it."""

    names: tuple[tuple[TableName, int, int], ...]
    """Each name with the commit_ts above which, and up to which, the table had it."""
    ddls: tuple[QueuedDdl, ...] = ()


def without_doomed(progress: Progress, resolved: int, keeps: Callable[[SchemaChange], bool]) -> Progress:
    """The progress without the waiting rows and DDLs of unknown tables that a DDL up to ``resolved`` drops, also under
    another name. Their schema is not known, and nobody needs it. The DROP itself stays, since later messages may show
    the name again. ``keeps``: whether the target keeps the table of a DROP."""
    doomed = _dropped_later(progress, resolved, keeps)
    if not doomed:
        return progress
    over = [ddl for one in doomed for ddl in one.ddls]
    return msgspec.structs.replace(
        progress,
        ddls=tuple(ddl for ddl in progress.ddls if ddl not in over),
        pending=tuple(rows for rows in progress.pending if not any(_is_of(rows, one) for one in doomed)),
    )


def _is_of(rows: PendingRows, table: _Doomed) -> bool:
    return any(
        name == rows.full_name and above < rows.min_ts and rows.max_ts <= upto for name, above, upto in table.names
    )


def _dropped_later(progress: Progress, resolved: int, keeps: Callable[[SchemaChange], bool]) -> Sequence[_Doomed]:
    known = {*progress.states(), *(one.full_name for one in progress.schemas)}
    known |= {one.full_name for one in progress.wanted}
    living: dict[TableName, _Doomed] = {}
    freed: dict[TableName, int] = {}
    """The commit_ts at which another table gave up a name."""
    found = []
    for ddl in in_order(one for one in progress.ddls if one.change.commit_ts <= resolved):
        before, after = tables_before_and_after(ddl.change)
        ts = ddl.change.commit_ts
        if (
            ddl.change.merged is not None
            or ddl.change.candidates
            or before & known
            or len(before) != 1
            or len(after) > 1
        ):
            # Not of one unknown table, or of one that is made here.
            known |= before | after
            continue
        (old,) = before
        table = living.pop(old, _Doomed(names=((old, freed.get(old, 0), 0),)))
        *earlier, (name, above, _) = table.names
        if not after:
            freed[old] = ts
            if not keeps(ddl.change):
                found.append(msgspec.structs.replace(table, names=(*earlier, (name, above, ts))))
            continue
        (new,) = after
        renamed = ((name, above, ts), (new, ts, 0)) if new != old else ((name, above, 0),)
        freed |= {old: ts} if new != old else {}
        living[new] = _Doomed(names=(*earlier, *renamed), ddls=(*table.ddls, ddl))
    return found
