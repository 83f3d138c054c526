"""What a run of a job has reported for the page: the last batch, what it does now, and its latest actions."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_time
from ticdc_spark.operate.live_files import live_files
from ticdc_spark.operate.page.samples import Sample, Samples
from ticdc_spark.replicate.report import BatchReport, KeptLetter
from ticdc_spark.replicate.run.beats import in_phase, in_trouble, with_report
from ticdc_spark.replicate.run.watch import Maintained, Watcher
from ticdc_spark.replicate.state.progress import QueuedDdl, Status
from ticdc_spark.sinks.upkeep import TableFiles

_MOST = 50
"""Number of kept DDLs, dead letters and upkeeps, each."""


class AppliedDdl(msgspec.Struct, frozen=True):
    """A DDL of a committed batch."""

    at: float
    """Time in seconds since the epoch."""
    ddl: QueuedDdl


class MaintainedAt(msgspec.Struct, frozen=True):
    """An upkeep of a table's files, and when it ended."""

    at: float
    upkeep: Maintained


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run has reported, at one moment. Times are in seconds since the epoch."""

    report: BatchReport | None = None
    """The report of the last batch; ``None``: no batch is complete yet."""
    beat: Status | None = None
    """The run's status, as in a heartbeat; ``None``: another process runs the job."""
    samples: tuple[Sample, ...] = ()
    ddls: tuple[AppliedDdl, ...] = ()
    """Newest first, as are the following ones."""
    letters: tuple[KeptLetter, ...] = ()
    maintained: tuple[MaintainedAt, ...] = ()
    changed: Mapping[TableName, float] = {}
    """Times when changes of a table were last applied."""
    files: Mapping[TableName, TableFiles] = {}
    """The files of a table at its last upkeep."""


class JobHistory:
    """Watches a run. Threads may read it at any time."""

    def __init__(self, told: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.time) -> None:
        """``told``: called after each event of the run; it must return at once."""
        now = clock()
        self._told, self._clock = told, clock
        self._lock = threading.Lock()
        self._beat = Status(state="pending", at=now, started_at=now, pid=os.getpid(), phase="starting")
        self._report: BatchReport | None = None
        self._samples = Samples()
        self._ddls: deque[AppliedDdl] = deque(maxlen=_MOST)
        self._letters: deque[KeptLetter] = deque(maxlen=_MOST)
        self._maintained: deque[MaintainedAt] = deque(maxlen=_MOST)
        self._changed: dict[TableName, float] = {}
        self._files: dict[TableName, TableFiles] = {}

    @property
    def watcher(self) -> Watcher:
        """The watcher that receives the events of a run."""
        return Watcher(
            phase=self._begin,
            committed=self._commit,
            trouble=self._trouble,
            maintained=self._maintain,
            suspected=self._suspect,
        )

    def told(self) -> Told:
        """What the run has reported so far."""
        with self._lock:
            return Told(
                report=self._report,
                beat=msgspec.structs.replace(self._beat, at=self._clock()),
                samples=self._samples.all(),
                ddls=tuple(reversed(self._ddls)),
                letters=tuple(reversed(self._letters)),
                maintained=tuple(reversed(self._maintained)),
                changed=dict(self._changed),
                files=dict(self._files),
            )

    def _begin(self, phase: str, batch: int) -> None:
        with self._lock:
            self._beat = in_phase(self._beat, phase, batch)
        self._told()

    def _commit(self, report: BatchReport) -> None:
        now, progress = self._clock(), report.progress
        with self._lock:
            before = None if self._report is None else self._report.progress
            if before is not progress:
                rows = {} if before is None else {one.full_name: one.rows for one in before.tables}
                for table in progress.tables:
                    name = table.full_name
                    if before is not None and table.rows > rows.get(name, 0):
                        self._changed[name] = now
            if before is not None:
                self._samples.add(now, tso_time.lag(before.applied, now), before.counters.rows)
            self._samples.add(now, tso_time.lag(progress.applied, now), progress.counters.rows)
            self._ddls.extend(AppliedDdl(now, ddl) for ddl in report.ddls)
            # After an outage the letters of a report start from scratch; until then it repeats the newest ones.
            self._letters.extend([letter for letter in report.letters if letter not in self._letters])
            self._report = report
            if len(self._files) > len(progress.tables):
                self._files = live_files(self._files, progress)
            self._beat = with_report(self._beat, report)
        self._told()

    def _trouble(self, fault: EnvironmentFault) -> None:
        with self._lock:
            self._beat = in_trouble(self._beat, fault, self._clock())
        self._told()

    def _suspect(self, why: str) -> None:
        with self._lock:
            state = "warning" if why else "normal"
            self._beat = msgspec.structs.replace(self._beat, state=state, error=why or None)
        self._told()

    def _maintain(self, upkeep: Maintained) -> None:
        with self._lock:
            self._maintained.append(MaintainedAt(self._clock(), upkeep))
            if upkeep.result.after is not None:
                self._files[upkeep.table] = upkeep.result.after
        self._told()
