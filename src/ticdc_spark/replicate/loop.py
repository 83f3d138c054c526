"""The loop of ``replicate``: reach, scan, decide, apply, commit, batch after batch."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.errors import EnvironmentFault, os_reason
from ticdc_spark.model import Offsets
from ticdc_spark.replicate.report import NOT_ALL_APPLIED, BatchReport, Summary
from ticdc_spark.replicate.resources import RunEnd
from ticdc_spark.replicate.run.executors import ExecutorProbe
from ticdc_spark.replicate.run.heartbeat import Heartbeat
from ticdc_spark.replicate.run.job_file import RunningJob
from ticdc_spark.replicate.run.open import open_steps, spark_starts
from ticdc_spark.replicate.run.outage import silent
from ticdc_spark.replicate.run.pace import Pace
from ticdc_spark.replicate.run.preflight import stop_at_fault
from ticdc_spark.replicate.run.retention import Retention
from ticdc_spark.replicate.run.retry import RetryPolicy
from ticdc_spark.replicate.run.upkeep import UpkeepScheduler
from ticdc_spark.replicate.run.watch import Watcher, together
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.store import acquire
from ticdc_spark.replicate.step import Steps
from ticdc_spark.sinks.registry import sink_kind
from ticdc_spark.sinks.states import open_state
from ticdc_spark.spark.session.session import jvm_is_gone

log = logging.getLogger(__name__)


def run(
    job: Job,
    *,
    once: bool = False,
    until_ts: int | None = None,
    watchers: Sequence[Watcher] = (),
    stop: threading.Event | None = None,
) -> Summary:
    """Replicate until stopped; with ``once``, up to where the topics end now; with ``until_ts``, until all tables are
    at it.

    Raises: DecisionNeeded and its subclasses (exit 4); EnvironmentFault and its subclasses (exit 1), those of
    connections only after ``retry-for``. Progress from before an error stays committed, and the next run continues
    from there.
    """
    stop, running = stop or threading.Event(), RunningJob(job)
    with os_faults():
        sink_kind(job).place(job)  # A wrong password is an error at once, before Spark starts.
    with spark_starts(job) as start, closing(open_state(job.sink, job.name, job.spark)) as states:
        heartbeat = Heartbeat(states, lambda: silent(running.job.source), ExecutorProbe())
        heartbeat.suspected = together(watchers).suspected
        with heartbeat, os_faults():
            with acquire(states, job.name, this_process(job.owner), stop=stop) as store:
                heartbeat.start(store.held.owner.token, store.check)
                log.info("state: %s, epoch %d", states.where, store.held.epoch)
                stop_at_fault(job, log.info)

                def opened(job: Job) -> Steps | None:
                    return open_steps(job, store, start(job), end, stop)

                end = RunEnd(bounded=once or until_ts is not None, until_ts=until_ts)
                run_state = _RunState(
                    running,
                    heartbeat,
                    UpkeepScheduler(job),
                    together((heartbeat.watcher, *watchers)),
                    once=once,
                    until_ts=until_ts,
                    stop=stop,
                    epoch=store.held.epoch,
                )
                summary = _run(run_state, opened)
            heartbeat.end(
                "finished" if summary.finished else "stopped", exit_code=NOT_ALL_APPLIED if summary.held else 0
            )
    return summary


@contextmanager
def os_faults() -> Iterator[None]:
    """Turn every OSError into a fault of the environment.

    Raises: EnvironmentFault
    """
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(os_reason(error)) from error


def _run(run_state: "_RunState", opened: Callable[[Job], Steps | None]) -> Summary:
    """Do turns until the last one. After a connection's fault or a change of the job file, open everything again, as a
    restart of the job would."""
    started = time.monotonic()
    retries = RetryPolicy(run_state.job.name, run_state.job.retry_for)
    steps = opened(run_state.job)
    if steps is None:
        return Summary(progress=Progress(job=run_state.job.name))
    begun = progress = steps.progress
    before = {table.full_name: table.snapshot_id for table in begun.tables}
    log.info("first batch: number %d", begun.batch + 1)
    goes_on, in_batch, unread = True, steps.in_batch, ""
    try:
        while goes_on and not run_state.stop.is_set():
            try:
                if not in_batch and (changed := run_state.running.changed()) is not None:
                    _close(steps)
                    steps = None
                    steps = run_state.running.take_over(changed, opened)
                    run_state.upkeep = UpkeepScheduler(run_state.job)
                    retries.retry_for = run_state.job.retry_for
                    run_state.targets = None  # The topics may have changed.
                steps = opened(run_state.job) if steps is None else steps
                if steps is None:
                    break
                goes_on = run_state.turn(steps)
                in_batch = False
                progress, unread = steps.progress, steps.source.unread
                retries.worked()
                if run_state.finished and steps.sink.capabilities.upkeep:
                    written = {table.full_name: table.snapshot_id for table in progress.tables}
                    touched = [name for name, snapshot in written.items() if snapshot != before.get(name)]
                    run_state.upkeep.finish(steps.sink, progress, touched, run_state.watcher)
            except EnvironmentFault as fault:
                pause = None if jvm_is_gone() else retries.pause_after(fault)
                if pause is None:
                    raise
                run_state.watcher.trouble(fault)
                in_batch = in_batch if steps is None else steps.in_batch
                _close(steps)
                steps = None
                run_state.stop.wait(pause)
    finally:
        _close(steps)
    return Summary(
        progress=progress,
        batches=progress.batch - begun.batch,
        changes=progress.counters.rows - begun.counters.rows,
        ddls=progress.counters.ddls - begun.counters.ddls,
        seconds=time.monotonic() - started,
        finished=run_state.finished,
        unread=unread,
    )


def _close(steps: Steps | None) -> None:
    if steps is None or jvm_is_gone():
        return
    steps.source.close()
    if steps.registry is not None:
        steps.registry.close()


@dataclass(slots=True)
class _RunState:
    """The state of a run between batches."""

    running: RunningJob
    heartbeat: Heartbeat
    upkeep: UpkeepScheduler
    watcher: Watcher
    once: bool
    until_ts: int | None
    stop: threading.Event
    epoch: int | None = None
    """The owner's epoch."""
    finished: bool = False
    targets: Offsets | None = None
    """With ``once``: how far it reads."""
    requests_looked_for: float = field(default_factory=time.monotonic)
    """When requests were last looked for. A start takes requests, too."""
    quiet_since: float = field(default_factory=time.monotonic)
    pace: Pace = field(default_factory=Pace)
    retention: Retention = field(default_factory=Retention)

    @property
    def job(self) -> Job:
        """The job, with its current job file."""
        return self.running.job

    def turn(self, steps: Steps) -> bool:
        """Do one batch, and wait until the next one is due. Returns: whether there is a next one"""
        if self.once and self.targets is None:
            self.targets = steps.ends()
        began = time.monotonic()
        # A request may rely on what its author has just written into the job file.
        if not self.running.is_settling and began - self.requests_looked_for >= self.heartbeat.store.pause:
            self.requests_looked_for = began
            steps.take_requests()
        loads = steps.load(self.watcher.phase)
        report = steps.batch(self.targets, self.watcher.phase)
        self.pace.add(report.messages, report.seconds)
        report = msgspec.structs.replace(
            report, rate=self.pace.rate, retention=self.retention.of(steps.source), epoch=self.epoch
        )
        self.watcher.committed(report)
        if steps.sink.capabilities.upkeep:
            self.upkeep.turn(steps.sink, report.progress, self.watcher)
        if self.until_ts is not None and report.progress.applied >= self.until_ts:
            self.finished = True
        elif self.targets is not None:
            self.finished = not report.left and self._is_over(steps, report, loads)
        elif loads != "worked":
            if not report.left and self.until_ts is not None and steps.source.is_recorded:
                return False  # The recording ends before until_ts.
            self._wait(report, began)
        return not self.finished

    def _is_over(self, steps: Steps, report: BatchReport, loads: str) -> bool:
        """Whether a run with ``once`` has reached its end."""
        if loads == "worked" or report.messages:
            self.quiet_since = time.monotonic()
        waits = loads == "waits" and time.monotonic() - self.quiet_since < self.job.idle_partition_timeout
        if loads == "worked" or (waits and not steps.source.is_recorded):
            # A full read can begin once the feed has reached its base: read on until then.
            self.targets = steps.ends() if waits else self.targets
            self.stop.wait(self.job.poll_interval if waits else 0)
            return False
        if steps.is_due:
            return False
        further = steps.lagging(self.targets or {})
        self.targets = further or self.targets
        return further is None

    def _wait(self, report: BatchReport, began: float) -> None:
        """Wait for the next batch: not at all if a full one is there, otherwise ``commit-interval`` after this one."""
        pause = 0.0 if report.left else self.job.poll_interval
        if report.messages and self.until_ts is None and not report.full:
            pause = max(pause, began + self.job.commit_interval - time.monotonic())
        if pause > 0:
            self.watcher.phase("waiting", report.progress.batch)
            self.stop.wait(pause)
