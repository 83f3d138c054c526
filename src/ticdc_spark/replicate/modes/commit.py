"""Commit: the progress of a batch from what it advanced and what it applied. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from ticdc_spark.model import SchemaChange
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.replicate.plan.evolve import action, names
from ticdc_spark.replicate.schemas.history import forget_schemas
from ticdc_spark.replicate.state.progress import BatchTime, Pending, Progress, QueuedDdl, TableState
from ticdc_spark.sinks.base import TableName

DROPPED_KEPT_MS = 30 * 86_400_000
"""How long a dropped table's name is remembered, so that replays of its messages are known for what they are."""
BATCH_TIMES = 100
"""At most this many notes of when a batch was committed, spread over the retention of the change log."""

States = Mapping[TableName, TableState]


def held_tables(states: States) -> frozenset[TableName]:
    """Tables that do not advance."""
    return frozenset(name for name, state in states.items() if state.quarantined)


def is_held(change: SchemaChange, states: States) -> bool:
    """Whether a DDL names a table that does not advance, and comes after where it stands: it waits as its rows do."""
    held = held_tables(states)
    return any(name in held and change.commit_ts > states[name].applied for name in names(action(change), states))


def committed(progress: Progress, batch: int, states: States, resolved: int, now: float, keep: float) -> Progress:
    """The progress after a batch that brought ``states`` to ``resolved``.

    ``keep``: seconds for which the change log is kept.
    """
    oldest = tso_physical_ms(resolved) - DROPPED_KEPT_MS
    tables = tuple(
        _moved(state, resolved)
        for state in states.values()
        if not state.dropped or state.kept or tso_physical_ms(state.applied) >= oldest
    )
    done = msgspec.structs.replace(
        progress,
        batch=batch,
        applied=resolved,
        tables=tables,
        pending=_still_waiting(progress.pending, states, resolved),
        ddls=_still_queued(progress.ddls, states, resolved),
        batch_times=_times(progress.batch_times, batch, now, keep),
        committed_at=now,
    )
    return msgspec.structs.replace(done, schemas=forget_schemas(done))


def forget_before(progress: Progress, batches: int | None, keep: float | None, now: float) -> int:
    """The first batch of the change log that must stay: rows wait in it, or it is not old enough."""
    waiting = min((rows.batch for rows in progress.pending), default=progress.batch + 1)
    if batches is not None:
        return min(waiting, progress.batch + 1 - batches)
    old = [note.batch for note in progress.batch_times if keep is not None and note.at <= now - keep]
    return min(waiting, max(old, default=0))


def _moved(state: TableState, resolved: int) -> TableState:
    if state.quarantined is not None or state.dropped:
        return state
    return msgspec.structs.replace(state, applied=max(state.applied, resolved))


def _still_waiting(pending: Sequence[Pending], states: States, resolved: int) -> tuple[Pending, ...]:
    held = held_tables(states)
    kept = []
    for rows in pending:
        if (rows.schema, rows.name) in held:
            kept.append(rows)
        elif rows.max_ts > resolved:
            kept.append(msgspec.structs.replace(rows, min_ts=max(rows.min_ts, resolved + 1)))
    return tuple(kept)


def _still_queued(ddls: Sequence[QueuedDdl], states: States, resolved: int) -> tuple[QueuedDdl, ...]:
    return tuple(ddl for ddl in ddls if ddl.change.commit_ts > resolved or is_held(ddl.change, states))


def _times(times: Sequence[BatchTime], batch: int, now: float, keep: float) -> tuple[BatchTime, ...]:
    """Note this batch's time now and then; one note older than the retention stays, as the bound."""
    if times and now - times[-1].at < keep / BATCH_TIMES:
        return tuple(times)
    recent = [note for note in times if note.at > now - keep]
    bound = [note for note in times if note.at <= now - keep][-1:]
    return (*bound, *recent, BatchTime(batch=batch, at=now))
