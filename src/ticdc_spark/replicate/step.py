"""The steps of a running job. They hold the committed progress from one batch to the next."""

import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Offsets
from ticdc_spark.replicate.apply.columns import ColumnsGone
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.pipeline import (
    OpenJob,
    apply_batch,
    decide_batch,
    next_progress,
    reach,
    scan_batch,
    taken_ddls,
)
from ticdc_spark.replicate.plan.offsets import ends_now, is_read, known_offsets, lagging, may_advance
from ticdc_spark.replicate.plan.parked import expired, is_parked
from ticdc_spark.replicate.plan.pending import range_of
from ticdc_spark.replicate.report import BatchReport, tables_read
from ticdc_spark.replicate.scanning import learn_waiting
from ticdc_spark.replicate.skips import warn_of_old
from ticdc_spark.replicate.snapshot.from_topic import TopicReads
from ticdc_spark.replicate.snapshot.loader import Loader, Outcome
from ticdc_spark.replicate.snapshot.repairs import Repairs
from ticdc_spark.replicate.start import begin, is_interrupted, look_at_wanted, with_mark
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.requests import Repair, Request, repairs_of, take
from ticdc_spark.replicate.stops import stop_if_needed
from ticdc_spark.replicate.timer import Timer

log = logging.getLogger(__name__)
REGRESSIONS_TO_WARN = 10
"""If watermarks fall more often than this per partition, a second changefeed is suspected."""


class Steps:
    """The steps of a running job: batches, full reads between batches, and requests."""

    def __init__(self, job: OpenJob) -> None:
        self.open = job
        self.source, self.sink = job.resources.source, job.resources.sink
        self.store, self.registry = job.resources.store, job.resources.registry
        self.progress = begin(job.job, self.source, self.sink, self.store, job.protocol)
        warn_of_old(job.job, self.progress)
        job.decider.check_mode(job.mode(self.progress))
        if self.registry is not None:
            learn_waiting(job.resources.rows, self.registry, self.progress)
        self.loader: Loader | None = None
        self._repairs: Sequence[Repair] = ()
        """The repairs of rows that wait."""
        if job.resources.reader is not None and job.job.snapshot is not None:
            self.loader = Loader(job.job, job.job.snapshot, self.sink, job.resources.reader, job.batch)
            self._repairs = repairs_of(self.store)
        elif loads := [one for one in self.progress.tables if one.load is not None and not one.load.began]:
            names = ", ".join(f"{table.schema}.{table.name}" for table in loads)
            raise UsageError(f"{job.job.file}: [snapshot]: missing; a full read is under way: {names}")
        self.from_topic = TopicReads(job.job, self.source, self.sink, job.resources.rows, job.batch)
        self.is_due = True
        """There may be changes to apply without a new message: after a start, a request, a full read or an interrupted
        batch."""
        self._round: Offsets = {}
        """If partitions with DDL are read first: where this round of reading ends. They may grow without an end."""
        self.in_batch = is_interrupted(self.progress, self.store)
        """Whether tables may have changes of an unfinished batch."""

    def batch(self, targets: Offsets | None, beat: Callable[[str, int], None]) -> BatchReport:
        """Do one batch up to ``targets``, or to where the topics end now, and commit it."""
        job, before = self.open, self.progress
        began, looked_at, number = time.monotonic(), job.clock(), before.batch + 1
        phases: dict[str, float] = {}
        beat("source", number)
        reached = reach(job, before, targets or self._end_of_round())
        if reached.interrupted is None and not reached.messages and not self._may_advance():
            self.is_due = False
            return BatchReport(
                progress=before,
                left=0,
                looked_at=looked_at,
                letters=tuple(job.letters.newest),
                commits=job.commits.take(),
                conflicts=self._conflicts(),
            )
        beat("scan", number)
        with Timer(phases, "scan"):
            scanned = scan_batch(job, before, reached)
        failpoints.point("scan")
        beat("advance", number)
        with Timer(phases, "advance"):
            planned = decide_batch(job, before, reached, scanned)
        self.in_batch = True
        self.store.save_plan(planned.plan)
        failpoints.point("advance")
        beat("apply", number)
        with Timer(phases, "apply"):
            try:
                result = apply_batch(job, before, planned, all_tables=self.is_due)
            except ColumnsGone as gone:
                # The next start may find the columns again, and a stamp of this batch may be rolled back with it.
                if gone.marked is not None:
                    self.store.save(with_mark(before, gone.marked))
                raise
        failpoints.point("apply")
        with Timer(phases, "commit"):
            self._commit(next_progress(job, planned, result))
        failpoints.point("progress")
        self.in_batch = False
        # Without watermarks, an interrupted batch goes as far as its first try, and more may be due by now.
        self.is_due = reached.interrupted is not None and not is_resolving(reached.mode)
        stop_if_needed(job.job, self.progress, planned.decided, job.clock())
        wanted = targets or planned.latest_offsets
        return BatchReport(
            progress=self.progress,
            messages=reached.messages,
            left=sum(max(0, end - reached.end_offsets.get(place, 0)) for place, end in wanted.items()),
            full=reached.full,
            looked_at=looked_at,
            changes=result.rows,
            seconds=time.monotonic() - began,
            phases=phases,
            ddls=tuple(taken_ddls(planned, result)),
            letters=tuple(job.letters.newest),
            read=tables_read(scanned.spelled.controls),
            commits=job.commits.take(),
            conflicts=self._conflicts(),
        )

    def ends(self) -> Offsets:
        """Where the topics end now. Raises: SourceFault"""
        return ends_now(self.source, ddl_first=self.open.is_ddl_first(self.progress))

    def _end_of_round(self) -> Offsets | None:
        """Where a batch reads to without an end of the run; ``None``: to where the topics end now."""
        if not self.open.is_ddl_first(self.progress):
            return None
        if is_read(self.progress, self._round):
            self._round = self.ends()
        return self._round

    def take_requests(self) -> None:
        """Take the requests that wait. Raises: DecisionNeeded, EnvironmentFault"""
        reads, whole = self.loader is not None, not is_interrupted(self.progress, self.store)
        progress = take(self.store, self.progress, self.source.beginning_offsets, reads=reads, replays=whole)
        self._repairs = repairs_of(self.store) if reads else ()
        if progress is None:
            return
        self.progress = look_at_wanted(self.open.job, self.sink, progress, self.store)
        if self.loader is not None:
            self.loader.forget()
        self.is_due = True

    def load(self, beat: Callable[[str, int], None]) -> Outcome:
        """Advance full reads of tables as far as possible now. Raises: DecisionNeeded, EnvironmentFault"""
        from_topic = self.from_topic.wants(self.progress)
        if not from_topic and self.loader is None:
            return "idle"
        beat("snapshot", self.progress.batch)
        found: list[Outcome] = []
        if from_topic:
            found.append(self.from_topic.step(self.progress, self._keep))
        if self.loader is not None:
            found.append(self.loader.step(self.progress, self._keep, in_batch=self.in_batch))
            if self._repairs and not self.in_batch:
                found.append(Repairs(self.loader).step(self.progress, self._repairs, self._keep))
        done: Outcome = "worked" if "worked" in found else "waits" if "waits" in found else "idle"
        self.is_due |= done == "worked"
        return done

    def lagging(self, targets: Offsets) -> Offsets | None:
        """In a run to an end: where to read to next; ``None``: the run is over."""
        return lagging(self.source, self.progress, targets)

    def _conflicts(self) -> int:
        """How often another writer committed to a table first since the last report."""
        return sum(self.sink.conflicts.take().values())

    def _may_advance(self) -> bool:
        """Whether the resolved ts may rise without messages: by a changed job file, or by time."""
        job = self.open
        if job.end.until_ts is not None or (self.is_due and self.progress.batch):
            return True
        known = job.mode(self.progress) is not None
        return may_advance(job.job, self.progress, bounded=job.end.bounded, mode_known=known, now=job.clock())

    def _commit(self, progress: Progress) -> None:
        """Save the progress of a batch."""
        progress = self._without_expired(progress)
        if self.loader is not None:
            progress = self.loader.with_partial(progress)
        self._keep(progress)
        self.source.publish(known_offsets(progress))
        self.open.resources.rows.keep(map(range_of, progress.pending))
        if progress.counters.regressions > REGRESSIONS_TO_WARN * max(1, len(progress.partitions)):
            log.warning("watermarks went back %d times: is there a second changefeed?", progress.counters.regressions)

    def _without_expired(self, progress: Progress) -> Progress:
        """Remove the parked tables that can no longer come back."""
        gone = set(expired(self.open.job, progress.tables, progress.applied))
        for name in gone:
            log.info("removing `%s`.`%s`: it was parked longer than keep-dropped", *name)
            self.sink.drop(name)
            failpoints.point("ddl")
        gone |= {name for one in progress.tables if one.is_dropped and is_parked(name := one.full_name)}
        tables = tuple(one for one in progress.tables if one.full_name not in gone)
        return msgspec.structs.replace(progress, tables=tables)

    def _keep(self, progress: Progress, taken: Sequence[Request] = ()) -> None:
        """Save a progress. ``taken``: requests that are in it."""
        if self.sink.capabilities.atomic_tables:
            self.sink.commit_with(self.store.states)
        self.store.save(progress, taken)
        self.progress = progress
        self._repairs = [one for one in self._repairs if one not in taken]
