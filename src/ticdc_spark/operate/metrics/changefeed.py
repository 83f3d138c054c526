"""The metrics of ``changefeed``. Names and labels are in ``docs/reference/metrics.md``."""

import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from ticdc_spark.changefeed.report import Report
from ticdc_spark.mysql import tso_physical_ms, tso_time

PREFIX = "ticdc_spark_changefeed_"


class ChangefeedMetrics:
    """The last report of a run. Call it with each report. Threads may collect metrics at any time."""

    def __init__(self, name: str, clock: Callable[[], float] = time.time) -> None:
        self._name, self._clock = name, clock
        self._lock = threading.Lock()
        self._report: Report | None = None

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
            report = self._report
        about = {"version": version("ticdc-spark"), "changefeed": self._name}
        yield InfoMetricFamily(f"{PREFIX}changefeed", "The changefeed.", value=about)
        if report is None:
            return
        yield _gauge("up", "1 while Kafka acknowledges what is sent, 0 while it does not.", not report.outage)
        yield CounterMetricFamily(f"{PREFIX}rows", "Rows that this process has sent.", value=report.rows)
        yield CounterMetricFamily(f"{PREFIX}messages", "Messages that this process has sent.", value=report.messages)
        yield _gauge("unacknowledged_rows", "Rows that Kafka has not acknowledged.", report.waiting)
        yield _gauge("reading_tables", "1 while rows are read that tables already have.", bool(report.reading))
        lag = tso_time.lag(report.saved, self._clock()) if report.saved else None
        if lag is not None:
            at = tso_physical_ms(report.saved) / 1000
            yield _gauge("checkpoint_timestamp_seconds", "All up to this time is acknowledged and stored.", at)
            yield _gauge("lag_seconds", "How far the checkpoint is behind now.", lag)


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", what, value=float(value))
