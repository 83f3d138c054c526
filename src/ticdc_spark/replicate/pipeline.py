"""One batch: reach → scan → decide → apply → commit.

Each step is a function of the job, its progress and the result of the step before. After a crash, the same steps give
the same tables: the saved plan has the offsets, and the marks show what the tables already have.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from ticdc_spark.changes.ranges import stretches
from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.values import ModeName
from ticdc_spark.ddl import charsets_after
from ticdc_spark.ddl.known_names import Names
from ticdc_spark.model import Offsets, Table, TableName
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.apply.batch import Batch
from ticdc_spark.replicate.apply.timelines import TimelineResult, apply, write_decisions
from ticdc_spark.replicate.decide import Decided, Decider
from ticdc_spark.replicate.first_messages import refuse_other
from ticdc_spark.replicate.letters import Letters
from ticdc_spark.replicate.missed import mark_new, mark_noted, names_that_lack
from ticdc_spark.replicate.modes.base import ScannedBatch
from ticdc_spark.replicate.modes.choose import MODES, of_job
from ticdc_spark.replicate.modes.next_progress import DROPPED_KEPT_MS, Applied, counted_off
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.parallel import for_each
from ticdc_spark.replicate.plan.catch_up import bounds_behind, with_dropped
from ticdc_spark.replicate.plan.gone_topics import without_topics
from ticdc_spark.replicate.plan.holds import bounds_of
from ticdc_spark.replicate.plan.merging import with_shards
from ticdc_spark.replicate.plan.offsets import (
    choose_offsets,
    first_offsets,
    known_offsets,
    of_plan,
    reach_of,
    starts_of_new,
)
from ticdc_spark.replicate.plan.pending import range_of
from ticdc_spark.replicate.plan.reach import with_new_partitions, without_beginning
from ticdc_spark.replicate.plan.source_check import (
    check_plan,
    check_source,
    notes_of_batch,
    with_notes_of_left_out,
    without_left_out,
    without_removed,
)
from ticdc_spark.replicate.plan.spelling import Spelled, databases_after
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.plan.waiting_names import topics_of, with_topics
from ticdc_spark.replicate.resources import ENDLESS, Resources, RunEnd
from ticdc_spark.replicate.scanning import opening_of, scan, scan_plan
from ticdc_spark.replicate.schemas.history import named_by_rows
from ticdc_spark.replicate.snapshot.wanted import with_settled
from ticdc_spark.replicate.start import furthest
from ticdc_spark.replicate.state.notes import SourceNote
from ticdc_spark.replicate.state.progress import Counters, Plan, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.replicate.stops import stop_if_left_out_before
from ticdc_spark.sinks.tally import Tally

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OpenJob:
    """A job with open source, target and state. No batch changes it."""

    job: Job
    resources: Resources
    protocol: str
    end: RunEnd = ENDLESS
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""

    @cached_property
    def letters(self) -> Letters:
        """Where messages and rows that cannot be read are kept."""
        return Letters(self.resources.rows, self.resources.letters)

    @cached_property
    def commits(self) -> Tally:
        """Counts the commits to tables since the last report."""
        return Tally()

    @cached_property
    def decider(self) -> Decider:
        """The rules that decide batches."""
        return Decider(self.job, self.letters, self.resources, self.protocol, self.end)

    def mode(self, progress: Progress) -> ModeName | None:
        """``None`` until messages show the mode. Raises: UsageError for a mode that the job cannot have"""
        return of_job(self.job.mode, self.protocol, progress)

    def is_ddl_first(self, progress: Progress) -> bool:
        """Whether partitions with DDL are read before the others: nothing else shows which rows are behind a DDL."""
        return self.mode(progress) != "watermark" and PROTOCOLS[self.protocol].traits.ddl_to_first_partition

    def memory(self, progress: Progress, offsets: Offsets) -> str:
        """See ``Source.memory``. ``progress``: with the waiting rows; ``offsets``: where reading continues."""
        return self.resources.source.memory(offsets, stretches(map(range_of, progress.pending)))

    def batch(self, progress: Progress) -> Batch:
        """The context that a commit to a table needs, outside of a batch."""
        return Batch(
            job=self.job,
            sink=self.resources.sink,
            rows=self.resources.rows,
            letters=self.letters,
            batch=progress.batch,
            protocol=self.protocol,
            registry=self.resources.registry,
            pending=(),
            schemas={},
            now=self.clock(),
            job_applied=progress.applied,
            commits=self.commits,
        )

    @property
    def reads_dump(self) -> bool:
        """Whether full reads are from a dump, whose rows are all of one time."""
        return self.resources.reader is not None and self.resources.reader.fixed is not None


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch reads."""

    number: int
    mode: ModeName | None
    interrupted: Plan | None
    """The plan of an interrupted try of this batch: tables may have changes of it."""
    starts: Offsets
    end_offsets: Offsets
    """Exclusive."""
    full: bool
    """The topics had more than one batch takes."""
    unread_topics: frozenset[str]
    """Topics that are no longer read."""

    @property
    def messages(self) -> int:
        """How many messages to read."""
        return sum(max(0, end - self.starts.get(place, end)) for place, end in self.end_offsets.items())


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a batch, scanned."""

    spelled: Spelled
    notes: tuple[SourceNote, ...]
    """What must still be true of the topics when they are read again. Taken before the scan."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch will do, before its plan is saved."""

    decided: Decided
    plan: Plan
    names: Names
    """The names that its rows were scanned with."""
    latest_offsets: Offsets
    """Where the topics ended after the scan."""


def reach(job: OpenJob, progress: Progress, targets: Offsets | None) -> Reached:
    """Choose what the next batch reads: up to ``targets``, or to where the topics end now. An interrupted batch reads
    the same messages again.

    Raises: SourceChanged, SourceFault
    """
    source, config = job.resources.source, job.job.source
    number, mode = progress.batch + 1, job.mode(progress)
    unread_topics = check_source(source, progress, config)
    interrupted = job.resources.store.load_plan()
    if interrupted is not None and interrupted.batch != number:
        interrupted = None
    if interrupted is None:
        chosen = choose_offsets(job.job, source, progress, targets, ddl_first=job.is_ddl_first(progress))
    else:
        mode = interrupted.mode or mode
        interrupted = without_left_out(source, interrupted, config, unread_topics)
        check_plan(source, interrupted)
        chosen = reach_of(interrupted)
    return Reached(
        number=number,
        mode=mode,
        interrupted=interrupted,
        starts=first_offsets(source, progress, chosen.end_offsets),
        end_offsets=chosen.end_offsets,
        full=chosen.full,
        unread_topics=unread_topics,
    )


def scan_batch(job: OpenJob, progress: Progress, reached: Reached) -> Scanned:
    """Scan the messages of a batch: control events in full, and the places of rows.

    Raises: RegistryFault, SourceFault, UsageError when the messages are of another protocol
    """
    source, rows, registry = job.resources.source, job.resources.rows, job.resources.registry
    starts, end_offsets = reached.starts, reached.end_offsets
    notes = notes_of_batch(source, progress, end_offsets)
    spelled = scan(
        scan_plan(job.job, job.protocol, reached.mode, progress, registry),
        progress,
        registry,
        lambda plan: rows.scan(plan, starts, end_offsets, reached.messages),
    )
    refuse_other(job.job, source, progress, starts, end_offsets, spelled.controls, job.protocol)
    return Scanned(spelled=spelled, notes=notes)


def decide_batch(job: OpenJob, progress: Progress, reached: Reached, found: Scanned) -> Planned:
    """Decide how far all tables go, and which DDLs are due.

    Raises: as ``Decider.decide``; UnsupportedDdl when an interrupted try went further than the job file now allows
    """
    spelled, source = found.spelled, job.resources.source
    end_offsets, interrupted = reached.end_offsets, reached.interrupted
    latest_offsets = source.end_offsets()
    scanned = ScannedBatch(
        number=reached.number,
        controls=spelled.controls,
        end_offsets=end_offsets,
        # A partition that appeared after the plan would hold back tables that the interrupted batch has written.
        latest_offsets=latest_offsets if interrupted is None else of_plan(latest_offsets, progress, end_offsets),
        new_topics=frozenset(topic for topic, _ in end_offsets)
        - {partition.topic for partition in progress.partitions},
        names=spelled.scan_names,
    )
    begun = without_topics(with_new_partitions(spelled.progress, reached.starts, end_offsets), reached.unread_topics)
    begun = without_removed(begun, source.beginning_offsets())
    for topic in sorted(reached.unread_topics):
        log.warning(
            "topic %s is no longer read: `topics` excludes it, or its tables are dropped. If another changefeed sends "
            "its tables to another topic now, it must begin at %d or before",
            topic,
            progress.applied,
        )
    decided = job.decider.decide(begun, reached.mode, scanned, interrupted, job.clock())
    stop_if_left_out_before(decided, interrupted)
    plan = Plan(
        batch=reached.number,
        end_offsets=tuple(sorted((topic, partition, end) for (topic, partition), end in end_offsets.items())),
        full=reached.full,
        resolved=decided.resolved,
        mode=decided.mode or "",
        on_reject=decided.on_reject,
        source=found.notes,
        source_memory=job.memory(decided.advanced.progress, known_offsets(progress)),
        start_offsets=starts_of_new(progress, reached.starts, end_offsets),
    )
    return Planned(decided=decided, plan=plan, names=spelled.scan_names, latest_offsets=latest_offsets)


def apply_batch(job: OpenJob, before: Progress, planned: Planned, *, all_tables: bool) -> TimelineResult:
    """Write the due changes to the tables. ``before``: the progress committed before the batch. ``all_tables``: also
    stamp tables whose marks a person has cleared, as the first batch of a run does.

    Raises: DecisionNeeded, SinkFault, SourceFault, RejectedMessage
    """
    decided, progress = planned.decided, planned.decided.advanced.progress
    # Rows are read without the messages that a scan skipped, in this batch or before.
    opening = opening_of(job.job, job.protocol, decided.mode, job.resources.registry)
    job.resources.rows.opening = msgspec.structs.replace(opening, left_out=progress.left_out)
    states = progress.states()
    mode, exact = MODES[decided.mode or "watermark"], is_resolving(decided.mode)
    refused = () if decided.refused is None else (decided.refused,)
    bounds, held = bounds_of(states, decided.ddls, bounds_behind(progress), refused)
    ddls = _without(decided.ddls, held)
    batch = replace(
        job.batch(before),
        batch=planned.plan.batch,
        resolves=exact,
        pending=progress.pending,
        schemas=_schemas(progress, decided.ddls),
        shards=progress.shards,
        job_applied=before.applied if exact else 0,
        furthest=furthest(before, planned.plan),
        topics=topics_of(progress),
        read=known_offsets(progress),
        names=planned.names,
        lacking=names_that_lack(progress, ddls),
        databases=frozenset(before.databases).union(*(databases_after((), [ddl]) for ddl in ddls)),
        unread=frozenset(one.full_name for one in progress.wanted),
    )
    lines = mode.timelines(before, states, progress.pending, ddls, decided.resolved, bounds)
    result = apply(batch, states, lines, mode.apply_rows)
    states = with_settled(result.states, decided.resolved, bounds)
    states = mark_new(with_topics(states, progress), decided.missed, progress.tables)
    ddls = _without(ddls, result.left)
    states, _ = mark_noted(states, progress, decided.resolved, ddls, from_dump=job.reads_dump)
    states = without_beginning(before, states, progress.partitions)
    written = write_decisions(batch, states, _to_stamp(before.states(), result.states, states, all_tables=all_tables))
    return msgspec.structs.replace(
        result, states=written.states, touched=result.touched | written.touched, left=(*held, *result.left)
    )


def next_progress(job: OpenJob, planned: Planned, result: TimelineResult) -> Progress:
    """The progress after a batch. Raises: SinkFault"""
    decided, before = planned.decided, planned.decided.advanced.progress
    states = dict(result.states)
    there = [states[name] for name in sorted(result.touched & states.keys()) if not states[name].is_gone]
    snapshots = for_each(job.job, job.resources.sink.snapshot_id, [state.full_name for state in there])
    for state, snapshot in zip(there, snapshots, strict=True):
        states[state.full_name] = msgspec.structs.replace(state, snapshot_id=snapshot)
    ddls = _without(decided.ddls, result.left)
    states, missed = mark_noted(states, before, decided.resolved, ddls, from_dump=job.reads_dump)
    oldest = tso_physical_ms(decided.resolved) - DROPPED_KEPT_MS
    counted = msgspec.structs.replace(
        before,
        missed=missed,
        dropped_databases=with_dropped(before.dropped_databases, ddls, oldest),
        databases=databases_after(before.databases, ddls),
        charsets=charsets_after(before.charsets, (ddl.change for ddl in ddls)),
        pending=counted_off(before.pending, result.taken, result.uncounted, decided.resolved),
        counters=before.counters
        + Counters(rows=result.rows, ddls=result.ddls, rejected=result.rejected, zero_dates=result.zero_dates),
    )
    counted = with_shards(counted, ddls, states, _schemas(before, ddls))
    applied = Applied(
        batch=planned.plan.batch,
        states=states,
        resolved=decided.resolved,
        ddls=ddls,
        left=result.left,
        at=job.clock(),
    )
    progress = MODES[decided.mode or "watermark"].progress_after(counted, applied)
    return msgspec.structs.replace(
        progress,
        source=with_notes_of_left_out(planned.plan.source, progress),
        source_memory=job.memory(progress, known_offsets(progress)),
    )


def _to_stamp(
    before: Mapping[TableName, TableState],
    applied: Mapping[TableName, TableState],
    now: Mapping[TableName, TableState],
    *,
    all_tables: bool,
) -> Collection[TableName]:
    """The tables whose stamps may lack something that was decided."""
    changed = [name for name, state in now.items() if _has_new_condition(before.get(name), state)]
    changed += [name for name, state in now.items() if applied.get(name) != state]
    changed += [name for name, state in now.items() if all_tables and state.cleared is not None]
    return dict.fromkeys(changed)


def _has_new_condition(before: TableState | None, now: TableState) -> bool:
    """Whether a table's condition has changed: it diverged, was quarantined, or resumed."""
    if before is None or now.is_gone:
        return False
    was = (before.is_clean, before.diverged_since, before.quarantined)
    return was != (now.is_clean, now.diverged_since, now.quarantined)


def taken_ddls(planned: Planned, result: TimelineResult) -> list[QueuedDdl]:
    """The DDLs that a batch took from the queue: it applied them, or skipped them as the job file says."""
    return _without(planned.decided.ddls, result.left)


def _without(ddls: Sequence[QueuedDdl], those: Iterable[QueuedDdl]) -> list[QueuedDdl]:
    gone = {identity(ddl.change) for ddl in those}
    return [ddl for ddl in ddls if identity(ddl.change) not in gone]


def _schemas(progress: Progress, ddls: Sequence[QueuedDdl]) -> dict[tuple[str, str, str], Table]:
    """The schemas that rows of a batch may name, including those of its DDLs."""
    tables = [table for ddl in ddls for table in (ddl.change.pre_table, ddl.change.table) if table is not None]
    routes = compiled(progress.routes)
    from_ddls = {named_by_rows(routes, table): table for table in tables if table.version is not None}
    return from_ddls | {(known.schema, known.name, known.key): known.table for known in progress.schemas}
