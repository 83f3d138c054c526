"""One batch, step by step. Every step can be run again with the same result."""

import logging
import time
from collections.abc import Callable, Sequence

import msgspec
from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.config.job import Job, KafkaSource
from ticdc_spark.config.load import skip_ddl_line
from ticdc_spark.errors import EnvironmentFault, RejectedMessage, SchemaMissing, UnsupportedDdl, UsageError
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.apply.batch import Batch
from ticdc_spark.replicate.apply.timelines import apply
from ticdc_spark.replicate.landing import landing_plan
from ticdc_spark.replicate.modes.arrival import advance_arrived, committed_arrived, position, positioned
from ticdc_spark.replicate.modes.choose import Mode, as_read, hides, of_job, refuse_hidden, without_ddl
from ticdc_spark.replicate.modes.commit import committed, forget_before, held_tables, is_held
from ticdc_spark.replicate.modes.filters import leave_out, skip_to_known
from ticdc_spark.replicate.modes.late_rows import with_late_rows
from ticdc_spark.replicate.modes.watermark import Advanced, Rules, advance, describe_missing, due
from ticdc_spark.replicate.plan.evolve import Refused, action
from ticdc_spark.replicate.plan.timeline import timelines
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.schemas.files import with_schema_files
from ticdc_spark.replicate.schemas.registered import Registered
from ticdc_spark.replicate.schemas.sql_ddl import named_after, with_schemas
from ticdc_spark.replicate.schemas.upstream import with_asked_schemas
from ticdc_spark.replicate.state.lease import Lease
from ticdc_spark.replicate.state.progress import Offsets, Plan, Progress, QueuedDdl, Store, TableState
from ticdc_spark.replicate.timer import Timer
from ticdc_spark.sinks.base import Sink, TableName
from ticdc_spark.sinks.iceberg.changelog import ChangeLog
from ticdc_spark.sinks.iceberg.sink import faults as sink_faults
from ticdc_spark.spark.decode.control import Control
from ticdc_spark.spark.decode.envelopes import LandingPlan
from ticdc_spark.spark.sources.base import Source

log = logging.getLogger(__name__)
PRUNE_EVERY = 10
"""Batches between removals from the change log."""
REGRESSIONS_TO_WARN = 10
"""A partition: so many times may its watermark fall before a second changefeed is suspected."""


class Steps:
    """The steps of a job's batches; holds the committed progress."""

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        source: Source,
        sink: Sink,
        lease: Lease,
        store: Store,
        *,
        protocol: str,
        registry: Registered | None,
        bounded: bool,
        until_ts: int | None,
    ) -> None:
        self.job = job
        self.spark = spark
        self.source = source
        self.sink = sink
        self.lease = lease
        self.store = store
        self.protocol = protocol
        self.registry = registry
        self.bounded = bounded
        self.until_ts = until_ts
        loaded = store.load()
        progress = loaded or Progress(job=job.name, generation=_generation(spark, job, store.load_plan()))
        self.progress = msgspec.structs.replace(with_schema_files(progress, job.schema.file), protocol=protocol)
        self.mode = self._settled(of_job(job.mode, protocol, self.progress))
        """``None`` until messages tell it."""
        self.log = ChangeLog(spark, job.sink.catalog, job.name, self.progress.generation, job.writer)
        self._first = True
        """Nothing was done in this run yet."""
        self.seconds: dict[str, float] = {}
        """Seconds by phase, for the whole run."""

    def batch(self, targets: Offsets | None, beat: Callable[[str, int], None]) -> BatchReport:
        """Do one batch up to ``targets`` (or to where the topics end now) and commit it."""
        began = time.monotonic()
        number = self.progress.batch + 1
        beat("plan", number)
        plan, fresh = self._plan(number, targets)
        ends = {(topic, partition): end for topic, partition, end in plan.ends}
        starts = self._starts(ends)
        messages = sum(max(0, end - starts.get(place, end)) for place, end in ends.items())
        if fresh and not messages and not self._may_advance():
            self._first = False
            return BatchReport(progress=self.progress, left=0)
        if fresh:
            self.store.save_plan(plan)
            failpoints.point("plan")
        beat("land", number)
        with self._timed("land"):
            controls = self.log.land(self.source.read(self.spark, starts, ends), self._landing(number))
            if self.registry is not None and self.registry.learn(controls):  # seldom: a schema that is new
                controls = self.log.land(self.source.read(self.spark, starts, ends), self._landing(number))
        failpoints.point("land")
        listed = self.source.ends()
        beat("advance", number)
        with self._timed("advance"):
            advanced, ddls, refused = self._advance(number, controls, ends, listed, plan)
        resolved = advanced.resolved
        self.store.save_plan(msgspec.structs.replace(plan, resolved=resolved, mode=self.mode or ""))
        failpoints.point("advance")
        beat("apply", number)
        work = self._work(number, advanced.progress)
        ddls = [ddl for ddl in ddls if not is_held(ddl.change, work.states)]
        with self._timed("apply"):
            self.lease.check()
            lines = timelines(work.states, work.pending, ddls, resolved)
            apply(work, positioned(lines, work.position) if work.arrival else lines)
        self._touch_new(work, advanced)
        failpoints.point("apply")
        with self._timed("commit"):
            self.lease.check()
            self._commit(number, advanced, work, ddls)
        failpoints.point("progress")
        self._first = False
        self._after(advanced, refused)
        left = sum(max(0, end - ends.get(place, 0)) for place, end in (targets or listed).items())
        return BatchReport(
            progress=self.progress,
            messages=messages,
            left=left,
            rows=work.applied_rows,
            seconds=time.monotonic() - began,
        )

    def lagging(self, targets: Offsets) -> Offsets | None:
        """In a run to an end: partitions that must be read further, because they have no watermark as high as the
        others' and messages came while the others were read. ``None``: the run is over."""
        highest = max((state.watermark for state in self.progress.partitions), default=0)
        listed = self.source.ends()
        more = {
            (state.topic, state.partition): listed[state.topic, state.partition]
            for state in self.progress.partitions
            if state.watermark < highest and listed.get((state.topic, state.partition), 0) > state.offset
        }
        more |= {place: end for place, end in listed.items() if place not in targets and end > 0}
        known = {(state.topic, state.partition): state.offset for state in self.progress.partitions}
        more = {place: end for place, end in more.items() if end > known.get(place, 0)}
        return {**targets, **more} if more else None

    def _plan(self, number: int, targets: Offsets | None) -> tuple[Plan, bool]:
        """The batch's end offsets: as fixed before a restart, or chosen now."""
        old = self.store.load_plan()
        same = old is not None and (old.generation, old.batch) == (self.progress.generation, number)
        if old is not None and same and old.resolved is not None:
            self.mode = old.mode or self.mode
            return old, False  # Tables may be there already; before that point nothing but the log was written.
        ends = self.source.ends() if targets is None else targets
        starts = self._starts(ends)
        cut = self.source.cap(starts, ends, self.job.batch_rows, self.job.batch_bytes)
        fixed = tuple(sorted((topic, partition, end) for (topic, partition), end in cut.items()))
        return Plan(generation=self.progress.generation, batch=number, ends=fixed), True

    def _starts(self, ends: Offsets) -> Offsets:
        known = {(state.topic, state.partition): state.offset for state in self.progress.partitions if state.offset > 0}
        if all(place in known for place in ends):
            return known
        latest = isinstance(self.job.source, KafkaSource) and self.job.source.starting == "latest"
        first_run = not self.progress.partitions
        beginning = self.source.ends() if latest and first_run else self.source.beginning()
        return beginning | known

    def _may_advance(self) -> bool:
        """Whether something else than messages moves the resolved ts: a changed job file (``skip-ddl``, a schema file),
        a partition that becomes idle; or the wait for a schema is over."""
        progress, now = self.progress, time.time()
        if self.until_ts is not None or (self._first and progress.batch):
            return True
        if progress.schema_wait_since and now - progress.schema_wait_since >= self.job.schema_timeout:
            return True
        if self.mode is None and progress.pending and now - progress.hold.since >= self.job.idle_partition_timeout:
            return True
        timeout = 0.0 if self.bounded else self.job.idle_partition_timeout
        highest = max((state.watermark for state in progress.partitions), default=0)
        behind = [state for state in progress.partitions if state.watermark < highest and not state.idle]
        # One that was not at its end when it was last looked at (behind_since 0) is there now: nothing is to be read.
        return any(not state.behind_since or now - state.behind_since >= timeout for state in behind)

    def _landing(self, number: int) -> LandingPlan:
        return landing_plan(self.job, self.protocol, self.mode, self.progress, number, self.registry)

    def _advance(
        self,
        number: int,
        controls: Sequence[Control],
        ends: Offsets,
        listed: Offsets,
        plan: Plan,
    ) -> tuple[Advanced, list[QueuedDdl], QueuedDdl | None]:
        now = time.time()
        rules = Rules(
            idle_timeout=self.job.idle_partition_timeout, bounded=self.bounded, until_ts=self.until_ts, now=now
        )
        waited = now - (self.progress.hold.since or now) >= self.job.idle_partition_timeout
        at_end = self.bounded and all(ends.get(place, 0) >= end for place, end in listed.items())
        controls = leave_out(controls, self.job.tables)
        known = skip_to_known(self.job.schema.skip_to_known)
        folded = (number, controls, ends, listed, rules, known, named_after)
        refuse_hidden(controls, self.mode)
        begun = self._told(controls)
        if self.mode is None:
            read = as_read(advance(begun, *folded).progress, at_end=at_end, waited=waited, hidden=hides(controls))
            self.mode = self._settled(read)
            begun = self._told(controls)
        if self.mode == "arrival":
            if any(event.kind == "watermark" for event in controls) and not hides(controls):
                log.warning("there are watermarks: a new job would run in mode barrier, which is exact")
            registered = None if self.registry is None else self.registry.tables(controls)
            begun, controls = without_ddl(self.progress, controls, self.protocol)
            arrived = (number, controls, ends, listed, rules, registered, known, named_after)
            advanced = self._asked(begun, lambda progress: advance_arrived(progress, *arrived))
        else:
            advanced = self._asked(begun, lambda progress: advance(progress, *folded))
        if advanced.rejects:
            advanced = self._decode_rejects(number, advanced, now)
        if advanced.late:
            advanced = with_late_rows(self.job, self.log, number, advanced)
        resolved = max(advanced.resolved, plan.resolved or 0)
        if self.mode == "arrival" and plan.resolved is not None:
            resolved = plan.resolved
        ddls = self._due(advanced.progress, resolved)
        refused = next((ddl for ddl in ddls if self._is_refused(ddl)), None)
        if refused is not None:
            resolved = min(resolved, refused.change.commit_ts - 1)
            resolved = resolved if self.mode == "arrival" else max(resolved, self.progress.applied)
            ddls = self._due(advanced.progress, resolved)
        return msgspec.structs.replace(advanced, resolved=resolved), ddls, refused

    def _asked(self, begun: Progress, fold: Callable[[Progress], Advanced]) -> Advanced:
        """Fold once, and again with what the upstream tells of the schemas that were missing."""
        advanced, upstream = fold(begun), self.job.source.upstream
        if advanced.missing and upstream is not None:
            advanced = fold(with_asked_schemas(begun, advanced.missing, upstream))
        return advanced

    def _told(self, controls: Sequence[Control]) -> Progress:
        return self.progress if self.registry is None else self.registry.told(self.progress, controls, self.mode)

    def _settled(self, mode: Mode | None) -> Mode | None:
        """Tell what was decided. Raises: UsageError where the run asks for what the mode does not have."""
        if mode == "arrival":
            log.warning(
                "mode arrival: %s without watermarks; tables follow the messages, and equal the source at no known "
                "commitTs while changes come",
                self.protocol,
            )
            if self.until_ts is not None:
                raise UsageError("--until-ts needs watermarks, and this job is in mode arrival: there are none")
        return mode

    def _due(self, progress: Progress, resolved: int) -> list[QueuedDdl]:
        """The DDLs to apply, with their schemas."""
        states = {(table.schema, table.name): table for table in progress.tables}
        sanitised = PROTOCOLS[self.protocol].traits.sanitised_names
        return with_schemas(due(progress.ddls, resolved), states, progress.schemas, sanitised=sanitised)

    def _is_refused(self, ddl: QueuedDdl) -> bool:
        change = ddl.change
        skipped = any(skip.matches(change.commit_ts, change.query) for skip in self.job.skip_ddl)
        return not skipped and isinstance(action(change), Refused)

    def _decode_rejects(self, number: int, advanced: Advanced, now: float) -> Advanced:
        rejects = advanced.rejects
        first = rejects[0]
        where = f"topic {first.topic}, partition {first.partition}, offset {first.offset}"
        if len(rejects) > self.job.max_rejects:
            message = (
                f"{len(rejects)} messages of one batch cannot be read as {self.protocol}, more than "
                f"max-rejects = {self.job.max_rejects}; the first: {where}: {first.reason}"
            )
            raise EnvironmentFault(message)
        self.log.keep_rejects(number, "decode", rejects, now)
        text = f"a message cannot be read: {first.reason} ({where})"
        if self.job.on_reject == "stop":
            message = (
                f"{text}; {len(rejects)} such in this batch, kept in {self.log.dead_letters}; nothing of the batch is "
                f"applied. Mend the source, or set on-reject under [job] to quarantine or continue"
            )
            raise RejectedMessage(message)
        log.error("%s", text)
        topics = {reject.topic for reject in rejects}
        tables = tuple(
            self._touched(table, text) if topics & set(table.topics) or not table.topics else table
            for table in advanced.progress.tables
        )
        progress = msgspec.structs.replace(
            advanced.progress, tables=tables, rejected=advanced.progress.rejected + len(rejects)
        )
        return msgspec.structs.replace(advanced, progress=progress)

    def _touched(self, table: TableState, reason: str) -> TableState:
        """A table of a topic with an unreadable message: it may have been this table's last change."""
        since = table.diverged_since or table.applied
        quarantined = (table.quarantined or reason) if self.job.on_reject == "quarantine" else table.quarantined
        return msgspec.structs.replace(table, quarantined=quarantined, diverged_since=since, clean=False)

    def _touch_new(self, work: Batch, advanced: Advanced) -> None:
        """Tables that came with the batch itself may miss what its unreadable messages say, too."""
        topics = {reject.topic for reject in advanced.rejects}
        for name, table in work.states.items():
            if topics and table.clean and (topics & set(table.topics) or not table.topics):
                text = f"a message cannot be read: {advanced.rejects[0].reason}"
                work.states[name] = self._touched(table, text)

    def _work(self, number: int, progress: Progress) -> Batch:
        states: dict[TableName, TableState] = {(table.schema, table.name): table for table in progress.tables}
        held = held_tables(states)
        return Batch(
            job=self.job,
            sink=self.sink,
            log=self.log,
            batch=number,
            protocol=self.protocol,
            arrival=self.mode == "arrival",
            position=position(self.progress.generation, number),
            registry=self.registry,
            states=states,
            pending=tuple(rows for rows in progress.pending if (rows.schema, rows.name) not in held),
            schemas={(known.schema, known.name, known.key): known.table for known in progress.schemas},
            now=time.time(),
        )

    def _commit(self, number: int, advanced: Advanced, work: Batch, ddls: Sequence[QueuedDdl]) -> None:
        now = time.time()
        retention = self.job.log_retention
        for name, mark in work.marks.items():
            state = work.states.get(name)
            if mark is not None and state is not None:
                work.states[name] = msgspec.structs.replace(state, snapshot_id=self.sink.snapshot_id(name))
        counted = msgspec.structs.replace(
            advanced.progress,
            mode=self.mode or "",
            rows=advanced.progress.rows + work.applied_rows,
            ddls_applied=advanced.progress.ddls_applied + work.ddls,
            rejected=advanced.progress.rejected + work.rejected,
            zero_dates=advanced.progress.zero_dates + work.zero_dates,
        )
        keep = retention.seconds or 0.0
        if work.arrival:
            progress = committed_arrived(counted, number, work.states, advanced.resolved, ddls, now, keep)
        else:
            progress = committed(counted, number, work.states, advanced.resolved, now, keep)
        self.store.save(progress)
        self.progress = progress
        if progress.regressions > REGRESSIONS_TO_WARN * max(1, len(progress.partitions)):
            log.warning("watermarks went back %d times: a second changefeed on the topic?", progress.regressions)
        if number % PRUNE_EVERY == 0:
            self.log.forget(forget_before(progress, retention.batches, retention.seconds, now))

    def _after(self, advanced: Advanced, refused: QueuedDdl | None) -> None:
        """What stops the job once everything before it is applied and committed."""
        if refused is not None:
            change = refused.change
            why = action(change)
            assert isinstance(why, Refused), "that is why it was chosen"
            message = (
                f"a DDL cannot be replayed: {why.why}\n  SQL: {change.query}\n  at commitTs {change.commit_ts}, topic "
                f"{refused.topic}, partition {refused.partition}, offset {refused.offset}; all before it is applied.\n"
                f"  To skip exactly this one, under [job]: {skip_ddl_line(change.commit_ts, change.query)}"
            )
            raise UnsupportedDdl(message)
        waited = time.time() - self.progress.schema_wait_since
        if advanced.missing and self.progress.schema_wait_since and waited >= self.job.schema_timeout:
            first = min(advanced.missing, key=lambda rows: rows.min_ts)
            message = (
                f"{describe_missing(first)}. No DDL or BOOTSTRAP with it came in {waited:.0f} s (schema-timeout). "
                f"Ways out: [schema] file with its CREATE TABLE, upstream under [source], a BOOTSTRAP, or [schema] "
                f'skip-to-known = ["{first.schema}.{first.name}"], which leaves these rows out'
            )
            raise SchemaMissing(message)

    def _timed(self, phase: str) -> Timer:
        return Timer(self.seconds, phase)


def _generation(spark: SparkSession, job: Job, plan: Plan | None) -> int:
    """A generation that the change log does not hold yet, as the state folder is new, or was lost; but that of
    ``plan`` if it is of a first batch, which was never committed."""
    log_table = ChangeLog(spark, job.sink.catalog, job.name, 0).table
    with sink_faults("the change log cannot be read"):
        highest = spark.sql(f"SELECT max(generation) FROM {log_table}").collect()[0][0]
    newest = 0 if highest is None else int(highest)
    if plan is not None and plan.batch == 1 and plan.generation >= newest:
        return plan.generation
    return newest + 1


__all__ = ["Steps"]
