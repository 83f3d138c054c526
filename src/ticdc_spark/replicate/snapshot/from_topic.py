"""Read tables again from the job's own topics, if these still have the CREATE or TRUNCATE that the table began with.

Between two batches, the table is paused at its base, which is what the job has applied. The last row of each key, from
when the table was empty up to the base, is gathered beside the table. In one commit, these rows become the table, which
then continues with the feed. A crash in between leaves the table unchanged, and the next process begins again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pyarrow as pa

from ticdc_spark import failpoints
from ticdc_spark.changes.scan import ScanPlan
from ticdc_spark.changes.topic import TopicRows
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.computed import still_computed
from ticdc_spark.config.job import Job
from ticdc_spark.errors import DecisionNeeded, SourceChanged
from ticdc_spark.model import Column, Offsets, Table, TableName
from ticdc_spark.mysql import default_value, handle_key
from ticdc_spark.replicate.apply.alter_steps import renames_in_target
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.apply.columns import computed_of
from ticdc_spark.replicate.apply.look import vanished
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.plan.column_diff import ColumnDefaults, ColumnDiff, column_diff
from ticdc_spark.replicate.plan.offsets import known_offsets
from ticdc_spark.replicate.plan.pending import bounded
from ticdc_spark.replicate.plan.spelling import scan_names
from ticdc_spark.replicate.plan.waiting_names import topics_of
from ticdc_spark.replicate.scanning import opening_of, scan
from ticdc_spark.replicate.snapshot.loader import Outcome
from ticdc_spark.replicate.snapshot.steps import as_known, begin, bring_in, give_up, with_states
from ticdc_spark.replicate.snapshot.topic_history import (
    Altered,
    Found,
    History,
    NotInTopics,
    history_of,
    nothing_found,
    with_read,
)
from ticdc_spark.replicate.snapshot.wanted import joined, with_refused, without, without_passed
from ticdc_spark.replicate.state.conditions import Loading
from ticdc_spark.replicate.state.progress import Counters, Progress, WantedLoad
from ticdc_spark.replicate.state.table import TableState, diverge
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mark import NO_MARK
from ticdc_spark.spark.decode.control import ControlEvent
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.tasks import UNREADABLE, UnreadableRows
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
Save = Callable[[Progress], None]
_REFUSALS = (NotInTopics, UnreadableRows, SourceChanged)
_ROWS_A_TASK, _MOST_TASKS = 500_000, 32


class TopicReads:
    """Reads a job's tables from its own topics. Keeps no state between calls."""

    def __init__(
        self, job: Job, source: Source, sink: Sink, rows: TopicRows, batch: Callable[[Progress], Batch]
    ) -> None:
        """``batch``: gives the context of a commit to a table, for a progress."""
        self.job, self.source, self.sink, self.rows, self.batch = job, source, sink, rows, batch

    @staticmethod
    def wants(progress: Progress) -> bool:
        """Whether there is a table to read."""
        reading = any(table.load is not None and table.load.began for table in progress.tables)
        return reading or any(one.from_topic for one in progress.wanted)

    def step(self, progress: Progress, save: Save) -> Outcome:
        """Read one waiting table. ``save`` stores the progress.

        Raises: DecisionNeeded when a table is not in the lake and cannot be read; SinkFault, SourceFault
        """
        for table in progress.tables:
            if table.load is not None and table.load.began:
                self._finish(progress, table, None, save)
                return "worked"
        wanted = [one for one in progress.wanted if one.from_topic]
        for one in wanted:
            if self._begin(progress, one, save):
                return "worked"
        return "waits" if wanted else "idle"

    def _begin(self, progress: Progress, wanted: WantedLoad, save: Save) -> bool:
        """Returns: whether something was done; otherwise the table must wait"""
        name, base = wanted.full_name, progress.applied
        if not (is_resolving(progress.mode) and self.sink.capabilities.full_reads):
            blind = f"watermarks, and the job is in mode {progress.mode}"
            lacks = "another kind of sink" if is_resolving(progress.mode) else blind
            save(with_refused(progress, name, f"that needs {lacks}"))
            return True
        work = self._work(progress)
        state = work.state(name) or TableState(schema=name[0], name=name[1])
        behind = any(one.full_name == name for one in progress.catching_up)
        if not base or behind or work.mark(name)[0] > base:
            return False
        try:
            _stop_at_renames(progress, name, base)
            history = self._history(work, progress, state, base)
            table = _with_values_in_all(as_known(history.table, state, work), history)
            _stop_if_not_folded(work.batch, history, table)
            # Read all rows once before the read begins and changes the table: rows that cannot be read show first.
            read = msgspec.structs.replace(state, table=table, computed=computed_of(work.batch, table))
            changes = self._changes(work, read, history, base)
            tasks = 1 + (changes.inserts + changes.others) // _ROWS_A_TASK if changes.can_spread else 1
            changes.write(_none, tasks=min(tasks, _MOST_TASKS))
        except _REFUSALS as error:
            self._refuse(progress, work, name, _why(error), save)
            return True
        token = f"{progress.batch}.{base}.{work.mark(name)[1]}"
        log.info("`%s`.`%s`: reading it from its topics, from %d to %d", *name, history.start, base)
        state = msgspec.structs.replace(state, ddl_ts=max(state.ddl_ts, history.last_ddl))
        # If the read is given up, a table that was not in the lake has no rows.
        gone = work.mark(name) == NO_MARK
        work.put(diverge(state, history.start, "it was not in the target, and could not be read") if gone else state)
        begin(work, name, table, Loading(base=base, token=token, exact=True, began=history.start), history.comments)
        progress = without_passed(without(with_states(progress, work), {name}), {name: base})
        save(progress)
        self._finish(progress, progress.states()[name], history, save)
        return True

    def _finish(self, progress: Progress, promised: TableState, history: History | None, save: Save) -> None:
        """Gather a table's rows, and load them. ``history``: if it was just read."""
        name, work = promised.full_name, self._work(progress)
        state = work.state(name)
        if state is not None and state.load is not None:
            if work.mark(name) == NO_MARK:
                raise DecisionNeeded(vanished(self.job, name))
            load, note = state.load, self.sink.load_note(name)
            if note is None or note.token != load.token:
                note = LoadNote(token=load.token)
                self.sink.begin_load(name, note)
            try:
                if not note.done:
                    history = history or self._history(work, progress, state, load.base)
                    if history.start != load.began:
                        raise NotInTopics(f"it began at {load.began}, and by its topics now at {history.start}")
                    note = self._gather(work, state, history, note)
                    failpoints.point("gather")
            except _REFUSALS as error:
                self._refuse(progress, work, name, _why(error), save)
                return
            bring_in(work, name, note)
            log.info("`%s`.`%s`: loaded %d rows from its topics", *name, note.rows)
            read = Counters(rows=note.rows, zero_dates=note.zero_dates)
            progress = msgspec.structs.replace(progress, counters=progress.counters + read)
        # otherwise it was loaded before a restart
        save(_without_notes(with_states(progress, work, self.sink), name, promised))

    def _work(self, progress: Progress) -> TimelineWork:
        return TimelineWork(batch=self.batch(progress), promised=progress.states())

    def _refuse(self, progress: Progress, work: TimelineWork, name: TableName, why: str, save: Save) -> None:
        """Give up a table's read, and record why. Raises: DecisionNeeded when the table is not in the lake"""
        state = work.state(name)
        text = f"`{name[0]}`.`{name[1]}` cannot be read from its topics: {why}"
        # A quarantined table may wait for the DDL that makes it.
        was_there = state is not None and not state.is_gone and not state.is_quarantined
        if work.mark(name) == NO_MARK and was_there:
            raise DecisionNeeded(
                f"{text}. It is no longer in the target. Name a database or a dump under [snapshot], and run "
                f"`ticdc-spark rebuild {self.job.file.name} {name[0]}.{name[1]}`"
            )
        log.warning("%s; the table does not change", text)
        if state is not None and state.load is not None and state.load.began:
            give_up(work, name)
            progress = with_states(progress, work)
        save(with_refused(progress, name, why))

    def _history(self, work: TimelineWork, progress: Progress, state: TableState, base: int) -> History:
        """Raises: NotInTopics, SourceFault"""
        if work.batch.registry is not None:
            raise NotInTopics(f"{work.batch.protocol} is not supported: its schemas are in a registry")
        name = state.full_name
        found = self._found(progress, state, topics_of(progress).get(name, set()))
        return history_of(found, state, base, progress.charsets)

    def _found(self, progress: Progress, state: TableState, waiting: set[str]) -> Found:
        """Everything that a table's topics have of it, up to where the job has read them.

        Raises: NotInTopics, SourceFault
        """
        topics = {*state.topics, *waiting} or {one.topic for one in progress.partitions}
        ends = {place: end for place, end in known_offsets(progress).items() if place[0] in topics}
        beginning = self.source.beginning_offsets()
        for topic in sorted(topics - {topic for topic, _ in beginning.keys() & ends.keys()}):
            raise NotInTopics(f"the job does not read topic {topic} any more, from which rows of it came")
        starts = {place: min(beginning.get(place, end), end) for place, end in ends.items()}
        found = nothing_found(state.full_name, starts)
        while any(starts[place] < end for place, end in ends.items()):
            cut = self.source.cap(starts, ends, self.job.batch_rows, self.job.batch_bytes)
            found = with_read(found, self._scanned(progress, starts, cut))
            starts = cut
        return found

    def _scanned(self, progress: Progress, starts: Offsets, ends: Offsets) -> list[ControlEvent]:
        opening = opening_of(self.job, progress.protocol, "watermark", None)
        opening = msgspec.structs.replace(opening, left_out=progress.left_out)
        plan = ScanPlan(opening=opening, names=scan_names(progress))
        count = sum(end - starts[place] for place, end in ends.items())
        return scan(plan, progress, None, lambda plan: self.rows.scan(plan, starts, ends, count)).controls

    @staticmethod
    def _changes(work: TimelineWork, state: TableState, history: History, base: int) -> TypedChanges:
        """The rows of a table as net changes, with the columns of its schema."""
        name, table = state.full_name, state.table
        assert table is not None, "its read is under way"
        batch, rows = work.batch, bounded(history.rows)
        inserts, count = sum(one.inserts for one in rows), sum(one.rows for one in rows)
        tables, valid = _versions(history)
        return TypedChanges(
            raw=batch.rows.raw(batch.waiting(name, rows, history.start, base)),
            plan=msgspec.structs.replace(
                batch.read_plan(state, tables, batch.columns(table)), valid=valid, expects="all"
            ),
            inserts=inserts,
            others=count - inserts,
            share=1.0,
            scanned=history.counted,
        )

    def _gather(self, work: TimelineWork, state: TableState, history: History, before: LoadNote) -> LoadNote:
        """Gather the rows of a table. Raises: UnreadableRows, SourceChanged, SinkFault, SourceFault"""
        assert state.table is not None, "its read is under way"
        assert state.load is not None, "its read is under way"
        name = state.full_name
        changes = self._changes(work, state, history, state.load.base)

        def note(rows: int, zeros: int) -> LoadNote:
            return msgspec.structs.replace(before, rows=rows, zero_dates=zeros, done=True)

        return self.sink.load_changes(name, changes, note)


def _with_values_in_all(table: Table, history: History) -> Table:
    """A table without the expressions of virtual columns that a DDL of its history made or changed."""
    versions = (history.first, *(one.alter.table for one in history.altered))

    def is_kept(column: Column) -> bool:
        one = ((column.name, column.expression),)
        return all(still_computed(one, (version, table), {}) for version in versions)

    columns = (
        one if not one.expression or is_kept(one) else msgspec.structs.replace(one, expression="")
        for one in table.columns
    )
    return msgspec.structs.replace(table, columns=tuple(columns))


def _stop_at_renames(progress: Progress, name: TableName, base: int) -> None:
    """Raises: NotInTopics if a DDL that joins it with other tables waits for a quarantined one"""
    names = joined(progress, name, base)
    stuck = [".".join(one.full_name) for one in progress.tables if one.is_quarantined and one.full_name in names]
    if len(names) > 1 and stuck:
        raise NotInTopics(
            f"a RENAME of it, or another DDL that names several tables, waits for {', '.join(stuck)}, which is "
            "quarantined. Resume that one first, or rebuild from a database or a dump"
        )


def _none(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that reads everything and keeps nothing."""
    for _ in batches:
        pass
    yield from ()


def _why(error: Exception) -> str:
    """One sentence about one of ``_REFUSALS``."""
    if isinstance(error, UnreadableRows):
        return f"a row cannot be read: {str(error).removeprefix(f'{UNREADABLE}: ')}"
    return str(error)


def _versions(history: History) -> tuple[dict[str, Table], tuple[tuple[int, str], ...]]:
    """The schemas of rows, by key; and for rows that name no schema, the key that is valid above each commit_ts."""
    tables = [(history.start, history.first), *((one.ts, one.alter.table) for one in history.altered)]
    valid = {f"since {ts}": table for ts, table in tables}
    return {**history.schemas, **valid}, tuple((ts, f"since {ts}") for ts, _ in tables)


def _stop_if_not_folded(batch: Batch, history: History, table: Table) -> None:
    """Make sure that each row can be read into the columns of ``table``, the table at the base, whichever DDLs came
    after the row. These DDLs may only add columns with a constant default, and drop columns. Raises: NotInTopics"""
    before = batch.columns(history.first)
    if not handle_key(table):
        raise NotInTopics("it has no key")
    added: dict[str, LakeColumn] = {}
    gone: set[str] = set()
    for one in history.altered:
        after = batch.columns(one.alter.table)
        had, has = ({column.source.casefold(): column for column in columns} for columns in (before, after))
        new = {folded: column for folded, column in has.items() if folded not in had}
        again = [column.source for folded, column in new.items() if folded in gone]
        why = _why_not_folded(one, _evolved(batch, one, before, after), before, after)
        if again and not why:
            why = f"it adds column `{again[0]}`, which was dropped before"
        if why:
            raise NotInTopics(f"the DDL at {one.ts} changes rows that were there: {why}: {one.query}")
        added |= new
        gone |= had.keys() - has.keys()
        before = after
    for column in batch.columns(table):
        then = added.get(column.source.casefold())
        if then is not None and default_value(then.column) != default_value(column.column):
            raise NotInTopics(f"the default of column `{column.source}` has changed since the column was added")


def _evolved(batch: Batch, one: Altered, before: tuple[LakeColumn, ...], after: tuple[LakeColumn, ...]) -> ColumnDiff:
    return column_diff(
        {column.name: column.type.name for column in before},
        after,
        renames_in_target(one.alter, before, after),
        batch.sink.types,
        old=before,
        defaults=ColumnDefaults(
            session=batch.session_zone,
            local=batch.local_defaults(inferred=False),
            computed=one.alter.computed,
        ),
    )


def _why_not_folded(
    one: Altered, evolved: ColumnDiff, before: tuple[LakeColumn, ...], after: tuple[LakeColumn, ...]
) -> str:
    """Why rows from before an ALTER cannot be read like rows after it; ``""``: they can."""
    if evolved.changes.rename:
        return f"it renames column `{evolved.changes.rename[0][0]}`"
    members = {column.source.casefold(): column.column.type.elements for column in before}
    for column in after:
        had = members.get(column.source.casefold(), ())
        if column.column.type.elements[: len(had)] != had:
            return f"it changes the members of column `{column.source}`"
    typed = [*(one.column.source for one in evolved.rewrites), *(one.source for one in evolved.changes.promote)]
    if typed:
        return f"it changes the type of column `{typed[0]}`"
    if one.alter.replaced:
        return f"it drops and adds column `{one.alter.replaced[0]}`"
    if evolved.inexact:
        return evolved.inexact[0]
    if {column.source for column in before if column.key} != {column.source for column in after if column.key}:
        return "it changes the key"
    return ""


def _without_notes(progress: Progress, name: TableName, read: TableState) -> Progress:
    """The progress without notes of what a table lacked before it was read. ``read``: the table during its read."""
    assert read.load is not None, "it was under way"
    base = read.load.base
    missed = tuple(one for one in progress.missed if one.full_name != name or one.until > base)
    return msgspec.structs.replace(progress, missed=missed)
