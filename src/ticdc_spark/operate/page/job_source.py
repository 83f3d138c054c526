"""The data for the page of a job: from the run in this process, or from the state in the target."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from ticdc_spark.config.job import Identity
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import TicdcSparkError
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_time
from ticdc_spark.operate.held_back import HeldBack
from ticdc_spark.operate.page.job_history import JobHistory, Told
from ticdc_spark.operate.page.samples import Samples
from ticdc_spark.operate.status import JobStatus, Stored, status_of, stored
from ticdc_spark.operate.table_status import TableStatus, tables_status
from ticdc_spark.replicate.state.owner import Ownership, this_process
from ticdc_spark.replicate.state.progress import Progress

READ_EVERY = 2.0
"""Least seconds between two reads of a state, for any number of browsers."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job at one moment."""

    now: float
    status: JobStatus
    progress: Progress
    told: Told = Told()
    since: float | None = None
    """Since when the job has its ``state``, in seconds since the epoch; ``None``: unknown."""
    ddl_times: Mapping[TableName, int] = {}
    """The commit_ts of each table's last DDL."""


class JobSource(Protocol):
    """The source of a job's data, used by several threads."""

    def seen(self) -> Seen:
        """The current state of the job."""


class _Tables:
    """The status of the tables of a progress, cached: with 10,000 tables it takes a while, and only a batch changes
    it."""

    def __init__(self) -> None:
        self._last: tuple[Progress, tuple[TableStatus, ...]] | None = None

    def of(self, progress: Progress) -> tuple[TableStatus, ...]:
        last = self._last  # read once: another thread may replace it
        if last is None or last[0] is not progress:
            self._last = last = progress, tables_status(progress)
        return last[1]


class StateReader:
    """A job that another process runs, or none. Reads its state at most every ``READ_EVERY`` seconds."""

    def __init__(
        self,
        identity: Identity,
        clock: Callable[[], float] = time.time,
        read: Callable[[Identity], Stored] = stored,
    ) -> None:
        self._identity, self._clock, self._read = identity, clock, read
        self._lock = threading.Lock()
        self._samples = Samples()
        self._at = float("-inf")
        self._found: Stored | None = None
        self._fault = ""
        self._tables = _Tables()

    def seen(self) -> Seen:
        now = self._clock()
        found, fault = self.found(now)
        if found is None:
            return _unreadable(self._identity, fault, now)
        status = status_of(self._identity, found, now, self._tables.of(found.progress))
        return _seen(status, found.progress, Told(samples=self._samples.all()), _since(status, now), now)

    def found(self, now: float) -> tuple[Stored | None, str]:
        """The last state that was read, and why it cannot be read now."""
        with self._lock:
            if now - self._at >= READ_EVERY:
                self._at = now
                try:
                    self._found, self._fault = self._read(self._identity), ""
                except TicdcSparkError as error:
                    self._fault = redact(str(error))
                if self._found is not None:
                    progress = self._found.progress
                    self._samples.add(now, tso_time.lag(progress.applied, now), progress.counters.rows)
            return (None, self._fault) if self._fault else (self._found, "")


class RunningJob:
    """The job that this process runs. Before its first batch, the stored state is used."""

    def __init__(self, identity: Identity, history: JobHistory, clock: Callable[[], float] = time.time) -> None:
        self._identity, self._history, self._clock = identity, history, clock
        self._stored = StateReader(identity, clock)
        self._held = Ownership(job=identity.name, owner=this_process(), epoch=0)
        self._lock = threading.Lock()
        self._state, self._since = "", 0.0
        self._tables = _Tables()
        self._last: tuple[Told, Seen] | None = None

    def seen(self) -> Seen:
        now, told = self._clock(), self._history.told()
        with self._lock:
            # Several browsers get the same result.
            if self._last is None or now - self._last[1].now >= 1.0 or not _is_same(told, self._last[0]):
                self._last = told, self._look(told, now)
            return self._last[1]

    def _look(self, told: Told, now: float) -> Seen:
        if told.report is None:
            before, _ = self._stored.found(now)
            progress = before.progress if before is not None else Progress(job=self._identity.name)
        else:
            progress = told.report.progress
        found = Stored(progress=progress, beat=told.beat, held=self._held)
        status = status_of(self._identity, found, now, self._tables.of(progress))
        if status.state != self._state:
            self._state, self._since = status.state, now
        return _seen(status, progress, told, self._since, now)


def _is_same(one: Told, other: Told) -> bool:
    """Whether a run has reported nothing between two moments."""
    beats = [(beat.state, beat.phase, beat.batch, beat.error) for beat in (one.beat, other.beat) if beat is not None]
    return one.report is other.report and beats[:1] == beats[1:] and one.maintained == other.maintained


def _seen(status: JobStatus, progress: Progress, told: Told, since: float | None, now: float) -> Seen:
    times = {table.full_name: table.ddl_ts for table in progress.tables if table.ddl_ts}
    return Seen(now=now, status=status, progress=progress, told=told, since=since, ddl_times=times)


def _since(status: JobStatus, now: float) -> float | None:
    """Since when a job has ended; ``None``: it has not, or that is unknown."""
    if status.last_error is not None and status.state == "failed":
        return status.last_error.at
    if status.heartbeat_age is not None and not status.running:
        return now - status.heartbeat_age
    return None


def _unreadable(identity: Identity, fault: str, now: float) -> Seen:
    status = JobStatus(
        job=identity.name,
        state="warning",
        reason=f"the state of the job cannot be read: {fault}",
        next="make the target reachable; the page retries by itself",
        running=False,
        held_back_by=HeldBack(kind="none", what=""),
    )
    return _seen(status, Progress(job=identity.name), Told(), None, now)
