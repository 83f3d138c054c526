"""Compute the progress to commit, from what a batch advanced and applied. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.replicate.plan.catch_up import bounds_behind
from ticdc_spark.replicate.plan.holds import Bounds, bounds_of
from ticdc_spark.replicate.plan.names import model_of
from ticdc_spark.replicate.plan.pending import bounded
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.schemas.history import forget_schemas
from ticdc_spark.replicate.state.progress import PendingRows, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState

DROPPED_KEPT_MS = 30 * 86_400_000
"""How long a dropped table's name is remembered, to recognise replays of its messages."""

States = Mapping[TableName, TableState]


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch applied."""

    batch: int
    states: States
    """Every table after it."""
    resolved: int
    """The commit_ts up to which it applied rows and DDLs."""
    ddls: Sequence[QueuedDdl] = ()
    left: Sequence[QueuedDdl] = ()
    """DDLs up to ``resolved`` that still wait."""
    at: float
    """Unix time."""


def committed(progress: Progress, applied: Applied, *, newest: int | None = None) -> Progress:
    """The progress after a batch. ``newest``: the commit_ts that was reached, if it is not ``applied.resolved``."""
    states, resolved, left = applied.states, applied.resolved, applied.left
    oldest = tso_physical_ms(resolved if newest is None else newest) - DROPPED_KEPT_MS
    behind = bounds_behind(progress)
    bounds, _ = bounds_of(states, (), behind, left)
    tables = tuple(
        _moved(state, min(resolved, bounds.get(state.full_name, resolved)))
        for state in states.values()
        if not state.is_dropped or tso_physical_ms(state.applied) >= oldest
    )
    done = msgspec.structs.replace(
        progress,
        batch=applied.batch,
        applied=resolved,
        tables=tables,
        pending=_still_waiting(progress.pending, bounds, resolved),
        ddls=_still_queued(progress.ddls, left, resolved, behind),
        committed_at=applied.at,
    )
    return msgspec.structs.replace(done, schemas=forget_schemas(done))


def _moved(state: TableState, resolved: int) -> TableState:
    if state.is_quarantined or state.load is not None or state.is_gone:
        return state
    return msgspec.structs.replace(state, applied=max(state.applied, resolved))


def counted_off(
    pending: Sequence[PendingRows], taken: Mapping[TableName, int], uncounted: Collection[TableName], resolved: int
) -> tuple[PendingRows, ...]:
    """Subtract the rows that a batch applied to each table from the waiting groups, the oldest group first.

    The sum over a table is exact if the sink counted its rows. How it splits over groups that were cut at the same
    commit_ts is not exact, and does not matter. ``uncounted``: tables that may have got more rows.
    """
    left, found = dict(taken), {}
    for at, rows in sorted(enumerate(pending), key=lambda one: (one[1].max_ts, one[0])):
        name = rows.full_name
        now = min(left.get(name, 0), rows.waiting)
        left[name] = left.get(name, 0) - now
        cut = name in uncounted and rows.min_ts <= resolved
        found[at] = msgspec.structs.replace(rows, applied=rows.applied + now, uncounted=rows.uncounted or cut)
    return tuple(found[at] for at in range(len(pending)))


def _still_waiting(pending: Sequence[PendingRows], bounds: Bounds, resolved: int) -> tuple[PendingRows, ...]:
    kept = []
    for rows in pending:
        end = min(resolved, bounds.get(rows.full_name, resolved))
        if rows.max_ts > end:
            is_cut = rows.min_ts <= end
            kept.append(msgspec.structs.replace(rows, min_ts=max(rows.min_ts, end + 1), cut=rows.cut or is_cut))
    return bounded(kept)


def _still_queued(
    ddls: Sequence[QueuedDdl], left: Sequence[QueuedDdl], resolved: int, behind: Bounds
) -> tuple[QueuedDdl, ...]:
    """The queue after a batch. ``behind``: tables that catch up, and may still get DDLs older than a waiting one."""
    held = {identity(ddl.change) for ddl in left}
    # While a CREATE … LIKE waits, its model may be dropped or replaced, so it keeps the schema that it has now.
    filled = {
        identity(ddl.change): ddl
        for ddl in left
        if (model := model_of(ddl.change)) is not None and behind.get(model, resolved) >= ddl.change.commit_ts
    }
    queued = (ddl for ddl in ddls if ddl.change.commit_ts > resolved or identity(ddl.change) in held)
    return tuple(filled.get(identity(ddl.change), ddl) for ddl in queued)
