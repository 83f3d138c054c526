"""Messages that are not read, and may be of tables that wait to be made: which, and what becomes of them. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.model import TableName
from ticdc_spark.replicate.plan.ddl_actions import Alter, action
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.state.notes import UnreadNote
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState, diverge, quarantine
from ticdc_spark.spark.decode.control import BootstrapRead, ControlEvent, DdlRead, RowsRead

LEFT_OUT = "`tables` under [job] leaves it out, or did: what changed meanwhile was not read"


def topics_of(progress: Progress) -> dict[TableName, set[str]]:
    """The topics of what waits, by table."""
    found: dict[TableName, set[str]] = {}
    for rows in progress.pending:
        found.setdefault((rows.schema, rows.name), set()).add(rows.topic)
    for ddl in progress.ddls:
        for name in tables_of(ddl.change):
            found.setdefault(name, set()).add(ddl.topic)
    return found


def names_in(progress: Progress, topics: Collection[str]) -> tuple[dict[TableName, int], bool]:
    """The tables of these topics that have waiting rows or DDLs, each with the commit_ts of the last one.

    Returns also whether a topic belongs to no known table: then its messages may be of any table, and all are named.
    """
    waiting = topics_of(progress)
    strange = bool(set(topics) - _topics_of_tables(progress))
    until = last_of(progress)
    return {name: ts for name, ts in until.items() if strange or waiting[name] & set(topics)}, strange


def of_databases(progress: Progress) -> frozenset[str]:
    """Topics that have had watermarks, and nothing of a table: where tables have topics of their own, the default one,
    in which the DDL of databases comes. What cannot be read of it may be the DROP of any database."""
    seen = {state.topic for state in progress.partitions if state.watermark}
    of_tables = {state.topic for state in progress.partitions if state.of_tables}
    return frozenset(seen - of_tables - _topics_of_tables(progress))


def with_topics_of_tables(progress: Progress, controls: Sequence[ControlEvent]) -> Progress:
    """Note the topics in which something of a table has come."""
    found = {
        event.topic
        for event in controls
        if isinstance(event, RowsRead | BootstrapRead) or (isinstance(event, DdlRead) and tables_of(event.change))
    }
    new = found - {state.topic for state in progress.partitions if state.of_tables}
    if not new:
        return progress
    partitions = tuple(
        msgspec.structs.replace(state, of_tables=True) if state.topic in new else state for state in progress.partitions
    )
    return msgspec.structs.replace(progress, partitions=partitions)


def _topics_of_tables(progress: Progress) -> set[str]:
    of_tables = {topic for table in progress.tables for topic in table.topics}
    return of_tables.union(*topics_of(progress).values())


def last_of(progress: Progress) -> dict[TableName, int]:
    """The names that rows or DDLs wait for, each with the commit_ts of the last of these."""
    until: dict[TableName, int] = {}
    for rows in progress.pending:
        name = (rows.schema, rows.name)
        until[name] = max(until.get(name, 0), rows.max_ts)
    for ddl in progress.ddls:
        for name in tables_of(ddl.change):
            until[name] = max(until.get(name, 0), ddl.change.commit_ts)
    return until


def with_left_out(progress: Progress, patterns: Sequence[str], changed: Mapping[TableName, int]) -> Progress:
    """Note the names that ``tables`` under [job] excludes and that have waiting or new messages. The job does not read
    these messages, so a table that gets such a name later lacks them. ``changed``: the highest commit_ts of rows and
    DDLs that the batch excludes, by name."""
    if not patterns:
        return progress
    is_included = table_filter(patterns)
    until = {name: ts for name, ts in last_of(progress).items() if not is_included(*name)}
    noted = ((one.schema, one.name, one.until) for one in progress.unread if one.why == LEFT_OUT)
    for name, ts in (*changed.items(), *(((schema, name), ts) for schema, name, ts in noted)):
        until[name] = max(ts, until.get(name, 0))
    notes = {
        (schema, name): UnreadNote(schema=schema, name=name, until=ts, why=LEFT_OUT, quarantine=False)
        for (schema, name), ts in sorted(until.items())
    }
    kept = [one for one in progress.unread if one.why != LEFT_OUT]
    return msgspec.structs.replace(progress, unread=(*kept, *notes.values()))


def with_topics(states: Mapping[TableName, TableState], progress: Progress) -> dict[TableName, TableState]:
    """Tables with the topics of what waited for them: one that is new could not note them before."""
    waited = topics_of(progress)
    return {
        name: msgspec.structs.replace(state, topics=tuple(sorted({*state.topics, *waited[name]})))
        if name in waited and not waited[name] <= set(state.topics)
        else state
        for name, state in states.items()
    }


def holders(name: TableName, ddls: Sequence[QueuedDdl], since: int = 0) -> set[TableName]:
    """A name, and those that tables have by now that had it after a commit_ts. ``ddls``: those that a batch applied, in
    order."""
    found = {name}
    for ddl in ddls:
        act = action(ddl.change)
        if isinstance(act, Alter) and act.old in found and ddl.change.commit_ts > since:
            found.add((act.table.schema, act.table.name))
    return found


def unread_names(notes: Sequence[UnreadNote], ddls: Sequence[QueuedDdl]) -> frozenset[TableName]:
    """The names under which a batch may meet a table that lacks an unreadable message. ``ddls``: those of the batch."""
    return frozenset(one for note in notes for one in holders((note.schema, note.name), ddls))


def mark_unread(
    states: Mapping[TableName, TableState],
    progress: Progress,
    resolved: int,
    ddls: Sequence[QueuedDdl],
    *,
    resolves: bool,
    from_dump: bool = False,
) -> tuple[dict[TableName, TableState], tuple[UnreadNote, ...]]:
    """Mark the tables that may lack an unreadable message; returns the notes that are still needed.

    ``ddls``: those that the batch applied: by a RENAME among them, a table that came with the batch has another name
    already. ``from_dump``: a table that is not there yet may be read from a dump, and what `tables` left out is newer.
    """
    marked, left = dict(states), []
    waiting = _waiting(progress, ddls) if progress.unread else {}
    for note in progress.unread:
        name = (note.schema, note.name)
        of_dump = from_dump and note.why == LEFT_OUT
        # A table that comes with its CREATE TABLE lacks nothing once the note is only kept for a dump.
        kept_for_dump = of_dump and note.until < progress.applied
        for one in holders(name, ddls):
            state = marked.get(one)
            if state is not None and _may_lack(state, note) and not (kept_for_dump and _was_created(state)):
                marked[one] = _unread(state, note)
        state = marked.get(name)
        there = state is not None and state.table is not None and not state.is_gone
        stands = state is not None and state.is_quarantined
        behind = resolves and state is not None and (there or stands) and state.applied < note.until
        waits = waiting.get(name, note.until + 1) <= note.until
        if resolved < note.until or behind or (waits and resolves) or (of_dump and not there):
            # One that stands still has been quarantined for it; what it becomes once it is resumed is only marked.
            left.append(msgspec.structs.replace(note, quarantine=note.quarantine and not stands))
    return marked, tuple(_together(left))


def _may_lack(state: TableState, note: UnreadNote) -> bool:
    return state.table is not None and not state.is_gone and not _is_read_again(state, note)


def _was_created(state: TableState) -> bool:
    return state.load is None and state.origin != "snapshot"


def _is_read_again(state: TableState, note: UnreadNote) -> bool:
    """Whether a table is, or has been, read in full since: then nothing of it is in a message that was left out."""
    if state.load is not None:
        return state.load.base > note.until
    return state.origin == "snapshot" and state.emptied > note.until


def _together(notes: Sequence[UnreadNote]) -> list[UnreadNote]:
    """One note for each table and kind, with the first reason."""
    found: dict[tuple[str, str, bool], UnreadNote] = {}
    for note in notes:
        key = (note.schema, note.name, note.why == LEFT_OUT)
        first = found.get(key, note)
        found[key] = msgspec.structs.replace(
            first, until=max(first.until, note.until), quarantine=first.quarantine or note.quarantine
        )
    return [*found.values()]


def _waiting(progress: Progress, ddls: Sequence[QueuedDdl]) -> dict[TableName, int]:
    """The names for which something waits beyond a batch, as they are behind the others, each with the commit_ts of the
    first of these. ``ddls``: those that the batch applied."""
    done = {identity(ddl.change) for ddl in ddls}
    found: dict[TableName, int] = {(one.schema, one.name): 0 for one in progress.catching_up}
    for ddl in progress.ddls:
        if identity(ddl.change) not in done:
            for name in tables_of(ddl.change):
                found[name] = min(ddl.change.commit_ts, found.get(name, ddl.change.commit_ts))
    return found


def _unread(state: TableState, note: UnreadNote) -> TableState:
    marked = diverge(state, state.applied, note.why, columns=True)
    return quarantine(marked, note.why) if note.quarantine else marked
