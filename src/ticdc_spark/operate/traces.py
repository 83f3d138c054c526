"""Traces of batches for an OpenTelemetry collector: a span for each batch, and one for each phase in it.

Headers, certificates and time-outs are the variables of OpenTelemetry, such as ``OTEL_EXPORTER_OTLP_HEADERS``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from ticdc_spark.errors import EnvironmentFault, UsageError
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

PREFIX = "ticdc_spark."
_WAITS = ("waiting", "upkeep")
"""Phases between batches."""


class BatchTraces:
    """Watches a run. A span is made when its batch is committed, or, with the error, when it fails."""

    def __init__(self, tracer: Tracer, clock: Callable[[], int] = time.time_ns) -> None:
        self._tracer, self._clock = tracer, clock
        self._phases: list[tuple[str, int]] = []
        """The phases of the current batch, each with its begin."""

    @property
    def watcher(self) -> Watcher:
        """The watcher that receives the events of a run."""
        return Watcher(phase=self._begin, committed=self._commit, trouble=self._trouble)

    def _begin(self, phase: str, _batch: int) -> None:
        if phase in _WAITS:
            self._phases = []
        else:
            self._phases.append((phase, self._clock()))

    def _commit(self, report: BatchReport) -> None:
        if report.messages or report.changes:
            progress, lag = report.progress, tso_time.lag(report.progress.applied, self._clock() / 1e9)
            about: dict[str, str | int | float] = {
                "batch": progress.batch,
                "messages": report.messages,
                "changes": report.changes,
                "resolved_ts": str(progress.applied),
            }
            self._emit(about | ({} if lag is None else {"lag_seconds": lag}), None)
        self._phases = []

    def _trouble(self, fault: EnvironmentFault) -> None:
        self._emit({}, fault)
        self._phases = []

    def _emit(self, about: dict[str, str | int | float], fault: EnvironmentFault | None) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        if not self._phases:
            return
        now = self._clock()
        whole = self._tracer.start_span(
            "batch",
            start_time=self._phases[0][1],
            attributes={f"{PREFIX}{name}": value for name, value in about.items()},
        )
        inside = set_span_in_context(whole)
        ends = [*(begin for _, begin in self._phases[1:]), now]
        for (phase, begin), end in zip(self._phases, ends, strict=True):
            self._tracer.start_span(phase, context=inside, start_time=begin).end(end)
        if fault is not None:
            whole.set_status(Status(StatusCode.ERROR, type(fault).__name__))
        whole.end(now)


@contextmanager
def traced(job: str, collector: str) -> Iterator[Watcher]:
    """A watcher that sends traces of a run to a collector in a separate thread. A collector that does not respond
    causes a warning.

    Raises: UsageError if OpenTelemetry is not installed
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise UsageError(
            "[metrics] traces: OpenTelemetry is not installed; install the package with its extra `traces`: "
            "pip install '.[traces]'"
        ) from error
    about = {"service.name": "ticdc-spark", "service.version": version("ticdc-spark"), f"{PREFIX}job": job}
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{collector}/v1/traces")))
    try:
        yield BatchTraces(provider.get_tracer("ticdc-spark")).watcher
    finally:
        provider.shutdown()
