"""One batch, step by step: plan, scan, decide, apply, commit. Every step can be run again with the same result."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.changes.ranges import stretches
from ticdc_spark.config.job import Job
from ticdc_spark.config.values import ModeName
from ticdc_spark.ddl.known_names import Names
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Offsets, Table, TableName
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.replicate.apply.batch import Batch
from ticdc_spark.replicate.apply.timelines import TimelineResult, apply, settle
from ticdc_spark.replicate.decide import Decided, Decider
from ticdc_spark.replicate.first_messages import refuse_other
from ticdc_spark.replicate.letters import Letters
from ticdc_spark.replicate.missed import mark_new, mark_noted, names_that_lack
from ticdc_spark.replicate.modes.base import ScannedBatch
from ticdc_spark.replicate.modes.choose import MODES, of_job
from ticdc_spark.replicate.modes.next_progress import DROPPED_KEPT_MS, counted_off
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.plan.catch_up import bounds_behind, with_dropped
from ticdc_spark.replicate.plan.gone_topics import without_topics
from ticdc_spark.replicate.plan.holds import bounds_of
from ticdc_spark.replicate.plan.offsets import (
    choose_offsets,
    first_offsets,
    known_offsets,
    lagging,
    may_advance,
    of_plan,
    reach_of,
    starts_of_new,
)
from ticdc_spark.replicate.plan.parked import expired, is_parked
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
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.resources import ENDLESS, Resources, RunEnd
from ticdc_spark.replicate.scanning import learn_waiting, opening_of, scan, scan_plan
from ticdc_spark.replicate.skips import warn_of_old
from ticdc_spark.replicate.snapshot.from_topic import TopicReads
from ticdc_spark.replicate.snapshot.loader import Loader, Outcome
from ticdc_spark.replicate.snapshot.wanted import with_settled
from ticdc_spark.replicate.start import begin, furthest, is_interrupted, look_at_wanted
from ticdc_spark.replicate.state.notes import SourceNote
from ticdc_spark.replicate.state.progress import Counters, Plan, Progress, QueuedDdl
from ticdc_spark.replicate.state.requests import take
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.replicate.stops import stop_if_left_out_before, stop_if_needed
from ticdc_spark.replicate.timer import Timer

log = logging.getLogger(__name__)
_RETENTION_SECONDS = 600.0
"""How often the source is asked how long it keeps messages."""
REGRESSIONS_TO_WARN = 10
"""A partition: so many times may its watermark fall before a second changefeed is suspected."""


class Steps:
    """The steps of a job's batches; holds the committed progress."""

    def __init__(
        self,
        job: Job,
        resources: Resources,
        protocol: str,
        end: RunEnd = ENDLESS,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.job = job
        self.source, self.sink, self.store = resources.source, resources.sink, resources.store
        self.rows, self.registry = resources.rows, resources.registry
        self.protocol = protocol
        self.end = end
        self.clock = clock
        self.letters = Letters(resources.rows, resources.letters)
        self.progress = begin(job, self.source, self.sink, self.store, protocol)
        warn_of_old(job, self.progress)
        self.decider = Decider(job, self.letters, resources, protocol, end)
        self.mode: ModeName | None = self.decider.fix_mode(of_job(job.mode, protocol, self.progress))
        """``None`` until messages show it."""
        if self.registry is not None:
            learn_waiting(self.rows, self.registry, self.progress)
        self.loader: Loader | None = None
        if resources.reader is not None and job.snapshot is not None:
            if not is_resolving(self.mode):
                raise UsageError(
                    f"{job.file}: [snapshot] needs watermarks, and this job is in mode {self.mode}: none come"
                )
            self.loader = Loader(job, job.snapshot, self.sink, resources.reader, self._batch)
        elif loads := [one for one in self.progress.tables if one.load is not None and not one.load.began]:
            names = ", ".join(f"{table.schema}.{table.name}" for table in loads)
            raise UsageError(f"{job.file}: [snapshot]: missing; {names} stands still for a full read that is under way")
        self.from_topic = TopicReads(job, self.source, self.sink, self.rows, self._batch)
        self._first = True
        """Nothing was done in this run yet."""
        self.in_batch = is_interrupted(self.progress, self.store)
        """Whether tables may have something of a batch that is not done."""
        self._kept: dict[str, float] = {}
        self._ask_retention_at = 0.0
        self.seconds: dict[str, float] = {}
        """Seconds by phase, for the whole run."""

    def batch(self, targets: Offsets | None, beat: Callable[[str, int], None]) -> BatchReport:
        """Do one batch up to ``targets`` (or to where the topics end now) and commit it."""
        began, before = time.monotonic(), dict(self.seconds)
        number = self.progress.batch + 1
        beat("source", number)
        looked_at = self.clock()
        left_out = check_source(self.source, self.progress, self.job.source)
        interrupted = self._interrupted(number, left_out)
        reach = (
            choose_offsets(self.job, self.source, self.progress, targets)
            if interrupted is None
            else reach_of(interrupted)
        )
        end_offsets = reach.end_offsets
        starts = first_offsets(self.source, self.progress, end_offsets)
        messages = sum(max(0, end - starts.get(place, end)) for place, end in end_offsets.items())
        if interrupted is None and not messages and not self._may_advance():
            self._first = False
            return BatchReport(progress=self.progress, left=0, looked_at=looked_at, retention=self._retention())
        beat("scan", number)
        notes = notes_of_batch(self.source, self.progress, end_offsets)
        with Timer(self.seconds, "scan"):
            spelled = self._scan(starts, end_offsets, messages)
        failpoints.point("scan")
        refuse_other(self.job, self.source, self.progress, starts, end_offsets, spelled.controls, self.protocol)
        latest_offsets = self.source.end_offsets()
        beat("advance", number)
        with Timer(self.seconds, "advance"):
            scanned = ScannedBatch(
                number=number,
                controls=spelled.controls,
                end_offsets=end_offsets,
                # A partition that came after the plan would hold tables that the batch under way has made already.
                latest_offsets=latest_offsets
                if interrupted is None
                else of_plan(latest_offsets, self.progress, end_offsets),
                new_topics=frozenset(topic for topic, _ in end_offsets)
                - {partition.topic for partition in self.progress.partitions},
                names=spelled.scan_names,
            )
            begun = without_topics(with_new_partitions(spelled.progress, starts, end_offsets), left_out)
            begun = without_removed(begun, self.source.beginning_offsets())
            for topic in sorted(left_out):
                log.warning("topic %s is not read any more: `topics` leaves it out, or its tables are dropped", topic)
            decided = self.decider.decide(begun, self.mode, scanned, interrupted, self.clock())
        stop_if_left_out_before(decided, interrupted)
        self.mode = decided.mode
        plan = Plan(
            batch=number,
            end_offsets=tuple(sorted((topic, partition, end) for (topic, partition), end in end_offsets.items())),
            full=reach.full,
            resolved=decided.resolved,
            mode=self.mode or "",
            on_reject=decided.on_reject,
            source=notes,
            source_memory=self._memory(decided.advanced.progress, known_offsets(self.progress)),
            start_offsets=starts_of_new(self.progress, starts, end_offsets),
        )
        self.in_batch = True
        self.store.save_plan(plan)
        failpoints.point("advance")
        beat("apply", number)
        # What waits is read again as it was scanned: without what was left out then, and with what is left out now.
        opening = opening_of(self.job, self.protocol, self.mode, self.registry)
        self.rows.opening = msgspec.structs.replace(opening, left_out=decided.advanced.progress.left_out)
        with Timer(self.seconds, "apply"):
            result = self._apply(number, decided, spelled.scan_names, furthest(self.progress, plan))
        failpoints.point("apply")
        with Timer(self.seconds, "commit"):
            self._commit(number, decided, result, notes)
        failpoints.point("progress")
        self.in_batch = self._first = False
        stop_if_needed(self.job, self.progress, decided, self.clock())
        left = sum(max(0, end - end_offsets.get(place, 0)) for place, end in (targets or latest_offsets).items())
        return BatchReport(
            progress=self.progress,
            messages=messages,
            left=left,
            full=reach.full,
            looked_at=looked_at,
            changes=result.rows,
            seconds=time.monotonic() - began,
            phases={phase: spent - before.get(phase, 0.0) for phase, spent in self.seconds.items()},
            retention=self._retention(),
        )

    def _retention(self) -> dict[str, float]:
        """How long the topics keep messages, asked for now and then."""
        now = time.monotonic()
        if now >= self._ask_retention_at:
            self._kept, self._ask_retention_at = self.source.retention(), now + _RETENTION_SECONDS
        return self._kept

    def _without_expired(self, progress: Progress) -> Progress:
        """Remove the parked tables that cannot come back any more."""
        gone = set(expired(self.job, progress.tables, progress.applied))
        for name in gone:
            log.info("`%s`.`%s` was parked longer than keep-dropped, and is removed", *name)
            self.sink.drop(name)
            failpoints.point("ddl")
        gone |= {name for one in progress.tables if one.is_dropped and is_parked(name := (one.schema, one.name))}
        tables = tuple(one for one in progress.tables if (one.schema, one.name) not in gone)
        return msgspec.structs.replace(progress, tables=tables)

    def take_requests(self) -> None:
        """Do what people have asked for since the job began. Raises: DecisionNeeded, EnvironmentFault"""
        reads, whole = self.loader is not None, not is_interrupted(self.progress, self.store)
        progress = take(self.store, self.progress, self.source.beginning_offsets, reads=reads, replays=whole)
        if progress is None:
            return
        self.progress = look_at_wanted(self.job, self.sink, progress, self.store)
        if self.loader is not None:
            self.loader.forget()
        self._first = True  # what waited for a table is applied, and no message need come for it

    def load(self, beat: Callable[[str, int], None]) -> Outcome:
        """Do what can be done now for full reads of tables. Raises: DecisionNeeded, EnvironmentFault"""
        readers: list[Loader | TopicReads] = [self.from_topic] if self.from_topic.wants(self.progress) else []
        readers += [] if self.loader is None else [self.loader]
        if not readers:
            return "idle"
        beat("snapshot", self.progress.batch)
        with Timer(self.seconds, "snapshot"):
            found = [reader.step(self.progress, self._keep) for reader in readers]
        done: Outcome = "worked" if "worked" in found else "waits" if "waits" in found else "idle"
        # Rows of a table that was brought in wait, and no message need come for them.
        self._first |= done == "worked"
        return done

    def _keep(self, progress: Progress) -> None:
        if self.sink.capabilities.atomic_tables:
            self.sink.commit_with(self.store.states)
        self.store.save(progress)
        self.progress = progress

    def _batch(self, progress: Progress) -> Batch:
        """What a commit to a table needs between batches."""
        return Batch(
            job=self.job,
            sink=self.sink,
            rows=self.rows,
            letters=self.letters,
            batch=progress.batch,
            protocol=self.protocol,
            registry=self.registry,
            pending=(),
            schemas={},
            now=self.clock(),
            job_applied=progress.applied,
        )

    def _memory(self, progress: Progress, offsets: Offsets) -> str:
        """See ``Source.memory``. ``progress``: whose rows wait; ``offsets``: where it is read on."""
        return self.source.memory(offsets, stretches(map(range_of, progress.pending)))

    def lagging(self, targets: Offsets) -> Offsets | None:
        """In a run to an end: partitions that must be read further; ``None``: the run is over."""
        return lagging(self.source, self.progress, targets)

    def _interrupted(self, number: int, left_out: Collection[str]) -> Plan | None:
        """The plan of this batch, if a try of it was interrupted: tables may have something of it.

        Raises: SourceChanged, SourceFault
        """
        plan = self.store.load_plan()
        if plan is None or plan.batch != number:
            return None
        self.mode = plan.mode or self.mode
        plan = without_left_out(self.source, plan, self.job.source, left_out)
        check_plan(self.source, plan)
        return plan

    @property
    def _reads_dump(self) -> bool:
        """Whether full reads are of a dump, which is as of one time."""
        return self.loader is not None and self.loader.reader.fixed is not None

    def _may_advance(self) -> bool:
        """Whether something else than messages moves the resolved ts: a changed job file, or time."""
        if self.end.until_ts is not None or (self._first and self.progress.batch):
            return True
        known = self.mode is not None
        return may_advance(self.job, self.progress, bounded=self.end.bounded, mode_known=known, now=self.clock())

    def _scan(self, starts: Offsets, end_offsets: Offsets, messages: int) -> Spelled:
        plan = scan_plan(self.job, self.protocol, self.mode, self.progress, self.registry)
        return scan(
            plan, self.progress, self.registry, lambda plan: self.rows.scan(plan, starts, end_offsets, messages)
        )

    def _apply(self, number: int, decided: Decided, names: Names, furthest: int) -> TimelineResult:
        progress = decided.advanced.progress
        states: dict[TableName, TableState] = {(table.schema, table.name): table for table in progress.tables}
        mode, exact = MODES[decided.mode or "watermark"], is_resolving(decided.mode)
        refused = () if decided.refused is None else (decided.refused,)
        bounds, held = bounds_of(states, decided.ddls, bounds_behind(progress), refused)
        ddls = _without(decided.ddls, held)
        batch = Batch(
            job=self.job,
            sink=self.sink,
            rows=self.rows,
            letters=self.letters,
            batch=number,
            protocol=self.protocol,
            resolves=exact,
            registry=self.registry,
            pending=progress.pending,
            schemas=_schemas(progress, decided.ddls),
            now=self.clock(),
            job_applied=self.progress.applied if exact else 0,
            furthest=furthest,
            topics=topics_of(progress),
            read=known_offsets(progress),
            names=names,
            lacking=names_that_lack(progress, ddls),
        )
        lines = mode.timelines(self.progress, states, progress.pending, ddls, decided.resolved, bounds)
        result = apply(batch, states, lines, mode.apply_rows)
        states = with_settled(result.states, decided.resolved, bounds)
        states = mark_new(with_topics(states, progress), decided.missed, progress.tables)
        ddls = _without(ddls, result.left)
        states, _ = mark_noted(states, progress, decided.resolved, ddls, from_dump=self._reads_dump)
        states = without_beginning(self.progress, states, progress.partitions)
        before = {(table.schema, table.name): table for table in self.progress.tables}
        changed = [name for name, state in states.items() if _is_judged(before.get(name), state)]
        changed += [name for name, state in states.items() if result.states.get(name) != state]
        if self._first:
            changed += [name for name, state in states.items() if state.cleared is not None]
        settled = settle(batch, states, dict.fromkeys(changed))
        return msgspec.structs.replace(
            result, states=settled.states, touched=result.touched | settled.touched, left=(*held, *result.left)
        )

    def _commit(self, number: int, decided: Decided, result: TimelineResult, notes: tuple[SourceNote, ...]) -> None:
        now = self.clock()
        states = dict(result.states)
        for name in result.touched:
            state = states.get(name)
            if state is not None and not state.is_gone:
                states[name] = msgspec.structs.replace(state, snapshot_id=self.sink.snapshot_id(name))
        before = decided.advanced.progress
        ddls = _without(decided.ddls, result.left)
        states, missed = mark_noted(states, before, decided.resolved, ddls, from_dump=self._reads_dump)
        oldest = tso_physical_ms(decided.resolved) - DROPPED_KEPT_MS
        counted = msgspec.structs.replace(
            before,
            missed=missed,
            dropped_databases=with_dropped(before.dropped_databases, ddls, oldest),
            databases=databases_after(before.databases, ddls),
            pending=counted_off(before.pending, result.taken, result.uncounted, decided.resolved),
            counters=before.counters
            + Counters(rows=result.rows, ddls=result.ddls, rejected=result.rejected, zero_dates=result.zero_dates),
        )
        mode = MODES[decided.mode or "watermark"]
        progress = mode.commit(counted, number, states, decided.resolved, ddls, result.left, now)
        progress = msgspec.structs.replace(
            progress,
            source=with_notes_of_left_out(notes, progress),
            source_memory=self._memory(progress, known_offsets(progress)),
        )
        progress = self._without_expired(progress)
        if self.loader is not None:
            progress = self.loader.with_partial(progress)
        self._keep(progress)
        self.rows.keep(map(range_of, progress.pending))
        if progress.counters.regressions > REGRESSIONS_TO_WARN * max(1, len(progress.partitions)):
            log.warning(
                "watermarks went back %d times: a second changefeed on the topic?", progress.counters.regressions
            )


def _without(ddls: Sequence[QueuedDdl], those: Iterable[QueuedDdl]) -> list[QueuedDdl]:
    gone = {identity(ddl.change) for ddl in those}
    return [ddl for ddl in ddls if identity(ddl.change) not in gone]


def _schemas(progress: Progress, ddls: Sequence[QueuedDdl]) -> dict[tuple[str, str, str], Table]:
    """The schemas that rows of a batch may name: those of its DDLs, too."""
    tables = [table for ddl in ddls for table in (ddl.change.pre_table, ddl.change.table) if table is not None]
    from_ddls = {(table.schema, table.name, str(table.version)): table for table in tables if table.version is not None}
    return from_ddls | {(known.schema, known.name, known.key): known.table for known in progress.schemas}


def _is_judged(before: TableState | None, now: TableState) -> bool:
    """Whether a table's condition has changed: it diverged, was quarantined, or goes on."""
    if before is None or now.is_gone:
        return False
    was = (before.is_clean, before.diverged_since, before.quarantined)
    return was != (now.is_clean, now.diverged_since, now.quarantined)
