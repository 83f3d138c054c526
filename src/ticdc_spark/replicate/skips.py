"""What ``skip-messages`` leaves out: kept as dead letters, and marked on the tables that lack it. Pure but for that."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.rejects import LOGGED
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.plan.offsets import known_offsets
from ticdc_spark.replicate.state.notes import SkippedRow, UnreadNote
from ticdc_spark.replicate.state.progress import Counters, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState, diverge
from ticdc_spark.replicate.unread import holders, last_of, names_in
from ticdc_spark.spark.decode.control import ControlEvent, MessageSkipped

log = logging.getLogger(__name__)
STAGE = "skip-messages"
"""Stage of the dead letters."""


def skipped_of(controls: Sequence[ControlEvent]) -> tuple[list[ControlEvent], list[MessageSkipped]]:
    """What is read, and what is left out."""
    left = [event for event in controls if isinstance(event, MessageSkipped)]
    return [event for event in controls if not isinstance(event, MessageSkipped)] if left else list(controls), left


def left_out_places(progress: Progress, skipped: Sequence[MessageSkipped]) -> tuple[tuple[str, int, int], ...]:
    """What ``Progress.left_out`` is after a batch, which decides of the messages that it reads. ``progress``: before
    it."""
    read = known_offsets(progress)
    before = {at for at in progress.left_out if at[2] < read.get(at[:2], 0)}
    return tuple(sorted(before | {(event.topic, event.partition, event.offset) for event in skipped}))


def mark_lacking(progress: Progress, skipped: Sequence[MessageSkipped], databases: Collection[str] = ()) -> Progress:
    """Mark the known tables that lack messages.

    A message is noted for later if its table is not known yet, or if a DDL that waits makes it another table: a
    TRUNCATE before the message takes no mark away. ``databases``: topics whose messages may be of any table.
    """
    becoming = last_of(progress) if is_resolving(progress.mode) else {}
    notes: dict[TableName, UnreadNote] = {}
    tables = {(table.schema, table.name): table for table in progress.tables}
    waiting = list(progress.skipped)
    for at, event in enumerate(skipped):
        why = _why(event)
        if at < LOGGED:
            log.warning("%s", why)
        for name in event.tables:
            if name not in tables or name in becoming:
                new = SkippedRow(schema=name[0], name=name[1], commit_ts=event.commit_ts, why=why)
                waiting += [new] if new not in waiting else []
        if not event.tables and becoming:
            notes |= {
                name: UnreadNote(schema=name[0], name=name[1], until=until, why=why, quarantine=False)
                for name, until in names_in(progress, {event.topic})[0].items()
            }
        for name, table in tables.items():
            unnamed = not event.tables and (event.topic in databases or _is_of(event, table))
            if name in event.tables or unnamed:
                tables[name] = diverge(table, event.commit_ts or table.applied, why)
    if len(skipped) > LOGGED:
        log.warning("and %d more messages of this batch are left out by skip-messages", len(skipped) - LOGGED)
    counters = progress.counters + Counters(rejected=len(skipped))
    unread = (*progress.unread, *notes.values())
    found = msgspec.structs.replace(progress, tables=tuple(tables.values()), skipped=tuple(waiting), counters=counters)
    return msgspec.structs.replace(found, unread=unread)


def mark_new(
    states: Mapping[TableName, TableState],
    known: Iterable[TableState],
    skipped: Sequence[MessageSkipped],
    waiting: Sequence[SkippedRow],
    ddls: Sequence[QueuedDdl],
    *,
    resolves: bool,
) -> tuple[dict[TableName, TableState], tuple[SkippedRow, ...]]:
    """Mark tables that have come since, with a batch itself or after it; returns what still waits for its table.

    ``known``: the tables as they were before the batch. ``ddls``: those that it applied, in order.
    """
    marked, before = dict(states), {(table.schema, table.name) for table in known}
    for event in skipped:
        for name, table in states.items():
            if name not in before and not event.tables and _is_of(event, table) and not table.is_gone:
                marked[name] = diverge(marked[name], table.applied, _why(event))
    left = []
    for row in waiting:
        name = (row.schema, row.name)
        state = marked.get(name)
        behind = state is not None and resolves and state.applied < row.commit_ts
        if state is None or behind or (state.table is None and not state.is_gone):
            left.append(row)
        for one in holders(name, ddls, row.commit_ts):
            state = marked.get(one)
            if state is not None and state.table is not None and _began(state) < row.commit_ts:
                marked[one] = diverge(state, row.commit_ts, row.why)
    return marked, tuple(left)


def warn_of_old(job: Job, progress: Progress) -> None:
    """Log which places were passed before: what is read already is left out only if it cannot be read as a row."""
    offsets = {(state.topic, state.partition): state.offset for state in progress.partitions}
    for place in job.skip_messages:
        if place.offset < offsets.get((place.topic, place.partition), 0):
            log.info("skip-messages %s was read before: it has effect only on a row that cannot be read", place)


def _is_of(event: MessageSkipped, table: TableState) -> bool:
    return event.topic in table.topics or not table.topics


def _began(state: TableState) -> int:
    """Up to which commit_ts nothing of a table matters: it was emptied or read in full since, or its read is under
    way."""
    return state.emptied if state.load is None else max(state.emptied, state.load.base)


def _why(event: MessageSkipped) -> str:
    return f"a message was {event.reason} (topic {event.topic}, partition {event.partition}, offset {event.offset})"
