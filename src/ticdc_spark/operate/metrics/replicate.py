"""The metrics of ``replicate``. Names and labels are in ``docs/reference/metrics.md``.

Most describe the last committed progress of the job, so they continue after a restart. Lags are computed on each
request, so they grow while a job is stuck.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import version
from typing import TypeAlias, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from ticdc_spark.config.job import Job
from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_physical_ms, tso_time
from ticdc_spark.operate.lag import slowest_partition
from ticdc_spark.operate.live_files import live_files
from ticdc_spark.operate.retention import headroom_of
from ticdc_spark.operate.table_status import tables_status
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.retry import CONNECTIONS
from ticdc_spark.replicate.run.watch import Maintained, Watcher
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import ConditionName
from ticdc_spark.sinks.capabilities import SinkConflict
from ticdc_spark.sinks.upkeep import TableFiles
from ticdc_spark.spark.decode.control import OPS

PREFIX = "ticdc_spark_replicate_"
CONDITIONS: tuple[ConditionName, ...] = get_args(ConditionName)
HOLDS = ("partition", "schema", "ddl", "reject")
PHASES = ("scan", "advance", "apply", "commit", "snapshot")
OTHERS = ("", "")
"""The labels of all tables without a series of their own."""

_Family: TypeAlias = type[CounterMetricFamily] | type[GaugeMetricFamily]
_FILES: tuple[tuple[str, str, Callable[[TableFiles], int]], ...] = (
    ("table_bytes", "Bytes of a table's files", lambda made: made.bytes),
    ("table_files", "Data files and files of deletes", lambda made: made.files + made.delete_files),
    ("table_snapshots", "Snapshots that can be read", lambda made: made.snapshots),
)


class ReplicateMetrics:
    """What a run has reported so far. Threads may collect metrics at any time."""

    def __init__(self, job: Job, clock: Callable[[], float] = time.time) -> None:
        self._job, self._clock = job, clock
        self._most = job.metrics.table_series
        self._lock = threading.Lock()
        self._report: BatchReport | None = None
        self._phase = "starting"
        self._fault = ""
        self._counts: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._retries: Counter[str] = Counter()
        self._maintained: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._messages_of: Counter[TableName] = Counter()
        self._commits_of: Counter[TableName] = Counter()
        self._files: dict[TableName, TableFiles] = {}

    @property
    def watcher(self) -> Watcher:
        """The watcher that receives the events of a run."""
        return Watcher(phase=self._begin, committed=self._commit, trouble=self._trouble, maintained=self._maintain)

    def not_ready(self) -> str:
        """Why the job does no work; ``""``: it works."""
        with self._lock:
            if self._fault:
                return self._fault
            return "" if self._report is not None else f"no batch is done yet: {self._phase}"

    def _begin(self, phase: str, _batch: int) -> None:
        with self._lock:
            self._phase = phase

    def _commit(self, report: BatchReport) -> None:
        with self._lock:
            self._report, self._fault = report, ""
            if len(self._files) > len(report.progress.tables):
                self._files = live_files(self._files, report.progress)
            self._counts["messages"] += report.messages
            self._counts["batches"] += report.messages > 0
            self._counts["conflicts"] += report.conflicts
            self._commits_of.update(report.commits)
            for table, read in report.read.items():
                self._messages_of[table] += read.messages
                self._counts["bytes"] += read.bytes
                self._rows.update(dict(zip(OPS, read.rows, strict=True)))
            for phase, seconds in report.phases.items():
                self._seconds[phase] += seconds

    def _trouble(self, fault: EnvironmentFault) -> None:
        with self._lock:
            self._fault = str(fault)
            self._retries.update(kind.__name__ for kind in CONNECTIONS if isinstance(fault, kind))
            self._counts["conflicts"] += isinstance(fault, SinkConflict)

    def _maintain(self, upkeep: Maintained) -> None:
        with self._lock:
            self._maintained["failed" if upkeep.fault else "done" if upkeep.result.done else "nothing"] += 1
            if upkeep.result.after is not None:
                self._files[upkeep.table] = upkeep.result.after
            self._seconds["maintenance"] += upkeep.seconds

    def collect(self) -> Iterator[Metric]:
        """The current metrics, for a registry of ``prometheus_client``."""
        with self._lock:
            report, of_run, files = self._report, [*self._of_run()], dict(self._files)
            messages, commits = dict(self._messages_of), dict(self._commits_of)
        yield from of_run
        if report is not None:
            yield from self._of_job(report)
            yield from self._of_tables(report.progress, files, messages, commits)

    def _of_run(self) -> Iterator[Metric]:
        mode = "" if self._report is None else self._report.progress.mode
        about = {"version": version("ticdc-spark"), "job": self._job.name, "mode": mode}
        yield InfoMetricFamily(f"{PREFIX}job", "The job.", value=about)
        yield _gauge("up", "1 while the job can do its work, 0 while a connection fails.", not self._fault)
        yield _counter("messages", "Messages that this process has read.", self._counts["messages"])
        about_bytes = "About the bytes of the messages with rows that this process has read, from samples."
        yield _counter("message_bytes", about_bytes, self._counts["bytes"])
        rows: dict[str, float] = {op: self._rows[op] for op in OPS}
        yield _counters("rows_read", "Rows that this process has read, by operation in the message.", "operation", rows)
        yield _counter("batches", "Batches with messages that this process has committed.", self._counts["batches"])
        yield _counter("commits", "Commits of this process to tables.", self._commits_of.total())
        conflicts = "Commits of this process that were done again, since another writer committed first."
        yield _counter("commit_conflicts", conflicts, self._counts["conflicts"])
        spent = {phase: self._seconds[phase] for phase in (*PHASES, "maintenance")}
        yield _counters("phase_seconds", "Seconds that this process spent, by phase.", "phase", spent)
        retries = {fault.__name__: self._retries[fault.__name__] for fault in CONNECTIONS}
        yield _counters("retries", "Faults of connections after which the job tried again.", "fault", retries)
        looked = {result: self._maintained[result] for result in ("done", "nothing", "failed")}
        yield _counters("maintenance", "Looks at the files of a table, by result.", "result", looked)

    def _of_job(self, report: BatchReport) -> Iterator[Metric]:
        progress, slowest = report.progress, slowest_partition(report.progress)
        counters = progress.counters
        received = 0 if slowest is None else slowest.watermark
        known = {"committed": progress.applied, "received": received}
        behind = {of: tso_time.lag(ts, self._clock()) for of, ts in known.items() if ts}
        if progress.applied:
            at = tso_physical_ms(progress.applied) / 1000
            yield _gauge("resolved_timestamp_seconds", "All tables equal the source at this time.", at)
        if behind:
            yield _gauges("lag_seconds", "How far the tables and the messages are behind now.", "of", behind)
        yield _gauge("last_commit_timestamp_seconds", "When the progress was saved last.", progress.committed_at)
        if report.epoch is not None:
            yield _gauge("owner_epoch", "The owner's epoch: each start of the job has a higher one.", report.epoch)
        if report.left is not None:
            yield _gauge("unread_messages", "Messages that are there and not read yet.", report.left)
        if (headroom := headroom_of(progress, report.retention, self._clock())) is not None:
            left = "Time until Kafka may delete the oldest message that the job still needs."
            yield _gauge("retention_headroom_seconds", left, headroom.seconds)
            yield _gauge("retention_headroom_ratio", "The same, as a share of the topic's retention.", headroom.share)
        yield _counter("changes", "Row changes applied.", counters.rows)
        yield _counter("ddls", "DDL applied.", counters.ddls)
        yield _counter("replays", "Changes that came again and were excluded.", counters.replays)
        yield _counter("late_rows", "Rows at or below what their table had applied, and no replays.", counters.late)
        yield _counter("dead_letters", "Messages and rows that cannot be read.", counters.rejected)
        yield _counter("zero_dates", "Zero or impossible dates that became NULL.", counters.zero_dates)
        waiting = sum(rows.waiting for rows in progress.pending)
        yield _gauge("waiting_changes", "Row changes that are read and not applied yet.", waiting)
        yield _gauge("waiting_ddls", "DDL that is read and not applied yet.", len(progress.ddls))
        held = {kind: float(progress.hold.kind == kind) for kind in HOLDS}
        yield _gauges("held", "1 for what keeps the resolved ts from rising.", "by", held)

    def _of_tables(
        self,
        progress: Progress,
        files: Mapping[TableName, TableFiles],
        messages: Mapping[TableName, int],
        commits: Mapping[TableName, int],
    ) -> Iterator[Metric]:
        counts = Counter(table.condition for table in tables_status(progress))
        states: dict[str, float | None] = {condition: counts[condition] for condition in CONDITIONS}
        yield _gauges("tables", "Tables by state.", "state", states)
        rows = {table.full_name: table.rows for table in progress.tables if not table.is_gone}
        named = frozenset(sorted(rows)[: self._most])
        yield _by_table(CounterMetricFamily, "table_changes", "Row changes applied.", named, rows)
        what = "Messages with rows of the table that this process has read."
        yield _by_table(CounterMetricFamily, "table_messages", what, named, messages)
        yield _by_table(CounterMetricFamily, "table_commits", "Commits of this process to the table.", named, commits)
        there = live_files(files, progress)
        for name, what, of in _FILES:
            found = {table: of(made) for table, made in there.items()}
            what = f"{what}, when maintenance last looked at them."
            yield _by_table(GaugeMetricFamily, name, what, named, found)


def _by_table(
    family: _Family, name: str, what: str, named: Collection[TableName], values: Mapping[TableName, int]
) -> Metric:
    """One value for each of the ``named`` tables, and the sum of all others."""
    shared: Counter[TableName] = Counter()
    for table in sorted(values):
        shared[table if table in named else OTHERS] += values[table]
    metric = family(f"{PREFIX}{name}", what, labels=["schema", "table"])
    for labels, value in shared.items():
        metric.add_metric(list(labels), value)
    return metric


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", what, value=float(value))


def _counter(name: str, what: str, value: float) -> Metric:
    return CounterMetricFamily(f"{PREFIX}{name}", what, value=float(value))


def _gauges(name: str, what: str, label: str, values: Mapping[str, float | None]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}{name}", what, labels=[label])
    for value, number in values.items():
        if number is not None:
            family.add_metric([value], number)
    return family


def _counters(name: str, what: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}{name}", what, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
