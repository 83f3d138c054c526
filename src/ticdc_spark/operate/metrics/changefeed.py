"""The metrics of ``changefeed``. Names and labels are in ``docs/reference/metrics.md``."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from ticdc_spark.capture.binlog.kept import Kept
from ticdc_spark.changefeed.report import Report
from ticdc_spark.errors import SinkFault, SourceFault
from ticdc_spark.mysql import tso_physical_ms, tso_time

PREFIX = "ticdc_spark_changefeed_"
OTHERS = ("", "")
"""The labels of all tables without series of their own."""
_FAULTS = (SourceFault.__name__, SinkFault.__name__)


class ChangefeedMetrics:
    """The last report of a run. Call it with each report. Threads may collect metrics at any time."""

    def __init__(self, name: str, clock: Callable[[], float] = time.time, table_series: int = 200) -> None:
        """``table_series``: how many tables have series of their own."""
        self._name, self._clock, self._most = name, clock, table_series
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._kept: Kept | None = None

    def note_kept(self, kept: Kept | None) -> None:
        """Note what the server keeps of its binlog; ``None``: not known."""
        with self._lock:
            self._kept = kept

    def __call__(self, report: Report) -> None:
        with self._lock:
            self._report = report

    def not_ready(self) -> str:
        """Why nothing is sent; ``""``: changes are sent."""
        with self._lock:
            return "nothing is reported yet: starting" if self._report is None else self._report.outage

    def collect(self) -> Iterator[Metric]:
        """The current metrics, for a registry of ``prometheus_client``."""
        with self._lock:
            report, kept = self._report, self._kept or Kept()
        about = {"version": version("ticdc-spark"), "changefeed": self._name}
        yield InfoMetricFamily(f"{PREFIX}changefeed", "The changefeed.", value=about)
        if report is None:
            return
        yield _gauge("up", "1 while Kafka acknowledges what is sent, 0 while it does not.", not report.outage)
        yield CounterMetricFamily(f"{PREFIX}rows", "Rows that this process has sent.", value=report.rows)
        yield CounterMetricFamily(f"{PREFIX}messages", "Messages that this process has sent.", value=report.messages)
        what = "Bytes of these messages, before Kafka's client compresses them."
        yield CounterMetricFamily(f"{PREFIX}message_bytes", what, value=report.bytes)
        yield CounterMetricFamily(f"{PREFIX}ddls", "DDL that this process has sent.", value=report.ddls)
        yield self._retries(report)
        yield self._by_table(report)
        yield _gauge("unacknowledged_rows", "Rows that Kafka has not acknowledged.", report.waiting)
        yield _gauge("reading_tables", "1 while rows are read that tables already have.", bool(report.reading))
        lag = tso_time.lag(report.saved, self._clock()) if report.saved else None
        if lag is not None:
            at = tso_physical_ms(report.saved) / 1000
            yield _gauge("checkpoint_timestamp_seconds", "All up to this time is acknowledged and stored.", at)
            yield _gauge("lag_seconds", "How far the checkpoint is behind now.", lag)
            if kept.seconds is not None:
                what = "Time until the server may purge the binlog that the changefeed needs."
                yield _gauge("retention_headroom_seconds", what, kept.seconds - lag)
        if kept.older is not None and kept.newer is not None:
            yield _gauge("binlog_older_bytes", "Binlog that the server keeps before the checkpoint.", kept.older)
            yield _gauge("binlog_unread_bytes", "Binlog that the server has after the checkpoint.", kept.newer)

    def _retries(self, report: Report) -> Metric:
        what = "How often this process tried again after a fault."
        family = CounterMetricFamily(f"{PREFIX}retries", what, labels=["fault"])
        for fault in _FAULTS:
            family.add_metric([fault], report.retries.get(fault, 0))
        return family

    def _by_table(self, report: Report) -> Metric:
        """Rows of the first tables by name, and the sum of all others."""
        named = frozenset(sorted({(one.schema, one.table) for one in report.counted})[: self._most])
        shared: Counter[tuple[str, str, str]] = Counter()
        for one in report.counted:
            name = (one.schema, one.table)
            shared[(*(name if name in named else OTHERS), one.op)] += one.rows
        what = "Rows that this process has sent, by table and operation."
        family = CounterMetricFamily(f"{PREFIX}table_rows", what, labels=["schema", "table", "operation"])
        for labels, rows in sorted(shared.items()):
            family.add_metric(list(labels), rows)
        return family


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", what, value=float(value))
