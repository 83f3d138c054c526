"""Messages that the job does not read as changes, and the marks on the tables that lack them. Pure but for the log.

A message is missed because ``skip-messages`` names it, because it cannot be read, or because ``tables`` excludes it.
The known tables are marked when it comes. Tables that wait to be made, or that a waiting DDL makes another table, are
noted by name, and marked once they are there.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ticdc_spark.config.shards import is_merged
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.rejects import LOGGED
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.plan.ddl_actions import Alter, action
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.plan.waiting_names import last_of, names_in
from ticdc_spark.replicate.state.notes import MissedNote
from ticdc_spark.replicate.state.progress import Counters, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState, diverge, is_new, quarantine
from ticdc_spark.spark.decode.control import MessageRejected, MessageSkipped, Reject

log = logging.getLogger(__name__)
EXCLUDED = "`tables` under [job] leaves it out, or did: what changed meanwhile was not read"


class MissedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a batch that the job does not read."""

    topic: str
    why: str
    """One sentence, with its place."""
    tables: tuple[TableName, ...] = ()
    """The tables of its changes. Empty: it may be about any table of its topic, and may be a DDL."""
    commit_ts: int = 0
    """0: not known."""
    quarantine: bool = False
    """By ``on-reject``: its tables stop where they are."""


@dataclass(frozen=True, slots=True)
class _Applied:
    """A batch that was applied."""

    resolved: int
    resolves: bool
    ddls: Sequence[QueuedDdl]
    waiting: Mapping[TableName, int]
    """The names for which something waits beyond it, each with the commit_ts of the first of these."""
    before: int
    """What all tables had applied before it."""
    from_dump: bool


def skipped(event: MessageSkipped) -> MissedMessage:
    """What ``skip-messages`` names."""
    why = f"a message was {event.reason} ({_place(event)})"
    return MissedMessage(topic=event.topic, why=why, tables=event.tables, commit_ts=event.commit_ts)


def unreadable(reject: MessageRejected | Reject, *, quarantine: bool) -> MissedMessage:
    """What no decoder can read."""
    why = f"a message cannot be read: {reject.reason} ({_place(reject)})"
    return MissedMessage(topic=reject.topic, why=why, quarantine=quarantine)


def mark_known(progress: Progress, missed: Sequence[MissedMessage], databases: Collection[str]) -> Progress:
    """Mark the known tables that lack messages of a batch, and note the names that wait.

    A message is noted for later if its table is not known yet, or if a waiting DDL makes it another table. A TRUNCATE
    before the message does not clear the mark. ``databases``: topics whose messages may be about any table.
    """
    if not missed:
        return progress
    becoming = last_of(progress) if is_resolving(progress.mode) else {}
    tables = progress.states()
    notes: dict[MissedNote, None] = dict.fromkeys(progress.missed)
    for one in missed[:LOGGED]:
        log.warning("%s", one.why)
    if len(missed) > LOGGED:
        log.warning("and %d more messages of this batch are not read", len(missed) - LOGGED)
    for one in missed:
        for name in one.tables:
            if name in tables:
                tables[name] = diverge(tables[name], one.commit_ts or tables[name].applied, one.why)
            if name not in tables or name in becoming:
                new = MissedNote(schema=name[0], name=name[1], kind="row", until=one.commit_ts, why=one.why)
                notes[new] = None
    for one in _by_topic(missed):
        names, strange = names_in(progress, {one.topic})
        is_owned = any(one.topic in table.topics and _has_first_name(table) for table in tables.values())
        for name, table in tables.items():
            # The topic may belong to the table's new name: it belongs to no known table, or only to renamed ones, and
            # this table has had no message since its RENAME.
            may_be_new = bool(table.was) and (strange or (not is_owned and table.mark[0] <= table.ddl_ts))
            if _may_be_of(one, table) or one.topic in databases or may_be_new:
                tables[name] = _marked(table, one.why, quarantined=one.quarantine)
        for name, until in sorted(names.items()):
            kept = MissedNote(
                schema=name[0], name=name[1], kind="any", until=until, why=one.why, quarantine=one.quarantine
            )
            notes[kept] = None
    return msgspec.structs.replace(
        progress,
        tables=tuple(tables.values()),
        missed=tuple(notes),
        counters=progress.counters + Counters(rejected=len(missed)),
    )


def mark_new(
    states: Mapping[TableName, TableState], missed: Sequence[MissedMessage], known: Iterable[TableState]
) -> dict[TableName, TableState]:
    """Mark the tables that a batch made, or made clean, and that may lack messages of it. ``known``: the tables as
    they were before it."""
    before = {table.full_name for table in known}
    marked = dict(states)
    for one in _by_topic(missed):
        for name, table in marked.items():
            is_new = name not in before and not table.is_gone
            if (table.is_clean or is_new) and _may_be_of(one, table):
                marked[name] = _marked(table, one.why, quarantined=one.quarantine)
    return marked


def note_excluded(progress: Progress, patterns: Sequence[str], changed: Mapping[TableName, int]) -> Progress:
    """Note the names that ``tables`` under [job] excludes and that have waiting or new messages. The job does not read
    these messages, so a table that gets such a name later lacks them. ``changed``: the highest commit_ts of rows and
    DDLs that the batch excludes, by name."""
    if not patterns:
        return progress
    is_included = table_filter(patterns)
    until = {name: ts for name, ts in last_of(progress).items() if not (is_merged(name) or is_included(*name))}
    noted = ((one.full_name, one.until) for one in progress.missed if one.kind == "excluded")
    for name, ts in (*changed.items(), *noted):
        until[name] = max(ts, until.get(name, 0))
    notes = (
        MissedNote(schema=schema, name=name, kind="excluded", until=ts, why=EXCLUDED)
        for (schema, name), ts in sorted(until.items())
    )
    kept = (one for one in progress.missed if one.kind != "excluded")
    return msgspec.structs.replace(progress, missed=(*kept, *notes))


def without_excluded(progress: Progress, patterns: Sequence[str]) -> Progress:
    """Remove the waiting rows of names that ``tables`` under [job] excludes, of tables that the job has never met. They
    would wait for a schema, and hold the other tables. ``note_excluded`` has noted them."""
    if not patterns or not progress.pending:
        return progress
    is_included, states = table_filter(patterns), progress.states()
    left = tuple(
        rows
        for rows in progress.pending
        if not is_new(states.get(rows.full_name), rows.min_ts)
        or is_merged(rows.full_name)
        or is_included(*rows.full_name)
    )
    return progress if len(left) == len(progress.pending) else msgspec.structs.replace(progress, pending=left)


def mark_noted(
    states: Mapping[TableName, TableState],
    progress: Progress,
    resolved: int,
    ddls: Sequence[QueuedDdl],
    *,
    from_dump: bool = False,
) -> tuple[dict[TableName, TableState], tuple[MissedNote, ...]]:
    """Mark the tables that now have the names in notes. Returns also the notes that are still needed.

    ``ddls``: the DDLs that the batch applied. A RENAME among them may have renamed a table that came with the batch.
    ``from_dump``: a table that does not exist yet may be read from a dump. What ``tables`` excludes is newer.
    """
    if not progress.missed:
        return dict(states), ()
    marked, left = dict(states), []
    resolves = is_resolving(progress.mode)
    batch = _Applied(
        resolved=resolved,
        resolves=resolves,
        ddls=ddls,
        waiting=_waiting(progress, ddls),
        before=progress.applied,
        from_dump=from_dump,
    )
    for note in progress.missed:
        if note.kind == "row":
            _mark_row(marked, note, ddls)
            if _waits_for_row(marked.get(note.full_name), note, resolves=resolves):
                left.append(note)
        elif (kept := _mark_any(marked, note, batch)) is not None:
            left.append(kept)
    return marked, tuple(_together(left))


def holders(name: TableName, ddls: Sequence[QueuedDdl], since: int = 0) -> set[TableName]:
    """A name, and the present names of tables that had it after a commit_ts. ``ddls``: applied by a batch, in order."""
    found = {name}
    for ddl in ddls:
        act = action(ddl.change)
        if isinstance(act, Alter) and act.old in found and ddl.change.commit_ts > since:
            found.add(act.table.full_name)
    return found


def names_that_lack(progress: Progress, ddls: Sequence[QueuedDdl]) -> frozenset[TableName]:
    """The names under which a batch may meet a table that lacks messages of its keys. ``ddls``: of the batch."""
    notes = [note for note in progress.missed if note.kind != "row"]
    return frozenset(one for note in notes for one in holders(note.full_name, ddls))


def lacking_until(progress: Progress) -> dict[TableName, int]:
    """The names whose DDL may be missing, each with the commit_ts up to which it may."""
    return {note.full_name: note.until for note in progress.missed if note.kind != "row"}


def _place(at: MessageSkipped | MessageRejected | Reject) -> str:
    return f"topic {at.topic}, partition {at.partition}, offset {at.offset}"


def _by_topic(missed: Iterable[MissedMessage]) -> list[MissedMessage]:
    """Of the messages that may be of any table, the first of each topic: what follows marks no more, unless it
    quarantines."""
    found: dict[tuple[str, bool], MissedMessage] = {}
    for one in missed:
        if not one.tables:
            found.setdefault((one.topic, one.quarantine), one)
    return [*found.values()]


def _has_first_name(table: TableState) -> bool:
    return table.table is not None and not table.is_gone and not table.was


def _may_be_of(one: MissedMessage, table: TableState) -> bool:
    return one.topic in table.topics or not table.topics


def _marked(state: TableState, why: str, *, quarantined: bool) -> TableState:
    """A table that may lack its last change, which may have been a DDL."""
    marked = diverge(state, state.applied, why, columns=True)
    return quarantine(marked, why) if quarantined else marked


def _mark_row(marked: dict[TableName, TableState], note: MissedNote, ddls: Sequence[QueuedDdl]) -> None:
    for name in holders(note.full_name, ddls, note.until):
        state = marked.get(name)
        if state is not None and state.table is not None and _began(state) < note.until:
            marked[name] = diverge(state, note.until, note.why)


def _began(state: TableState) -> int:
    """Up to which commit_ts nothing of a table matters: it was emptied or read in full since, or its read is under
    way."""
    return state.emptied if state.load is None else max(state.emptied, state.load.base)


def _waits_for_row(state: TableState | None, note: MissedNote, *, resolves: bool) -> bool:
    if state is None or (resolves and state.applied < note.until):
        return True
    return state.table is None and not state.is_gone


def _mark_any(marked: dict[TableName, TableState], note: MissedNote, batch: _Applied) -> MissedNote | None:
    """Mark the tables that may lack what was missed; returns the note while it is needed."""
    of_dump = batch.from_dump and note.kind == "excluded"
    # A table that comes with a later CREATE TABLE lacks nothing once the note is only kept for a dump.
    kept_for_dump = of_dump and note.until < batch.before
    for name in holders(note.full_name, batch.ddls):
        state = marked.get(name)
        if state is not None and _may_lack(state, note) and not (kept_for_dump and _was_created(state, note)):
            marked[name] = _marked(state, note.why, quarantined=note.quarantine)
    name = note.full_name
    state = marked.get(name)
    is_there = state is not None and state.table is not None and not state.is_gone
    is_quarantined = state is not None and state.is_quarantined
    is_behind = state is not None and (is_there or is_quarantined) and state.applied < note.until
    waits = batch.waiting.get(name, note.until + 1) <= note.until
    if batch.resolved < note.until or (batch.resolves and (is_behind or waits)) or (of_dump and not is_there):
        # One that is quarantined has been for it; what it becomes once it is resumed is only marked.
        return msgspec.structs.replace(note, quarantine=note.quarantine and not is_quarantined)
    return None


def _may_lack(state: TableState, note: MissedNote) -> bool:
    return state.table is not None and not state.is_gone and not _is_read_again(state, note)


def _was_created(state: TableState, note: MissedNote) -> bool:
    """Whether a table was made behind what was missed."""
    return state.load is None and state.origin != "snapshot" and state.emptied > note.until


def _is_read_again(state: TableState, note: MissedNote) -> bool:
    """Whether a table is, or has been, read in full since: then nothing of it is missing."""
    if state.load is not None:
        return state.load.base > note.until
    return state.origin == "snapshot" and state.emptied > note.until


def _together(notes: Iterable[MissedNote]) -> list[MissedNote]:
    """One note for each table and kind, with the first reason; rows apart, as each is of one commit_ts."""
    found: dict[tuple[str, str, str, int], MissedNote] = {}
    for note in notes:
        key = (note.schema, note.name, note.kind, note.until if note.kind == "row" else 0)
        first = found.get(key, note)
        found[key] = msgspec.structs.replace(
            first, until=max(first.until, note.until), quarantine=first.quarantine or note.quarantine
        )
    return [*found.values()]


def _waiting(progress: Progress, ddls: Sequence[QueuedDdl]) -> dict[TableName, int]:
    """The names for which rows or DDLs wait beyond a batch, each with the commit_ts of the first one.

    ``ddls``: applied by the batch.
    """
    done = {identity(ddl.change) for ddl in ddls}
    found: dict[TableName, int] = {one.full_name: 0 for one in progress.catching_up}
    for ddl in progress.ddls:
        if identity(ddl.change) not in done:
            for name in tables_of(ddl.change):
                found[name] = min(ddl.change.commit_ts, found.get(name, ddl.change.commit_ts))
    return found
