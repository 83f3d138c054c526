"""Traces of batches, as a collector gets them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.status_examples import WELL
from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.operate.traces import BatchTraces, traced
from ticdc_spark.replicate.report import BatchReport


class Collector:
    """A collector that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.got.append((self.path, ExportTraceServiceRequest.FromString(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> list[Any]:
        """In the order of their begin; a whole before its parts."""
        found = [
            span
            for _, request in self.got
            for of in request.resource_spans
            for one in of.scope_spans
            for span in one.spans
        ]
        return sorted(found, key=lambda span: (span.start_time_unix_nano, bool(span.parent_span_id)))


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_a_batch_is_a_span_with_its_phases_inside(collector: Collector) -> None:
    with traced("shop", collector.url) as watcher:
        for phase in ("source", "scan", "apply"):
            watcher.phase(phase, 8)
        watcher.committed(BatchReport(progress=WELL, messages=5, changes=4))
        watcher.phase("waiting", 8)
        watcher.phase("source", 9)
        watcher.committed(BatchReport(progress=WELL))  # nothing came
    assert {path for path, _ in collector.got} == {"/v1/traces"}
    whole, *parts = collector.spans()
    assert [whole.name, *(one.name for one in parts)] == ["batch", "source", "scan", "apply"]
    assert {one.parent_span_id for one in parts} == {whole.span_id}
    assert [one.end_time_unix_nano for one in parts[:-1]] == [one.start_time_unix_nano for one in parts[1:]]
    assert (parts[0].start_time_unix_nano, parts[-1].end_time_unix_nano) == (
        whole.start_time_unix_nano,
        whole.end_time_unix_nano,
    )
    about = {one.key: one.value for one in whole.attributes}
    assert about["ticdc_spark.messages"].int_value == 5
    assert about["ticdc_spark.resolved_ts"].string_value == str(WELL.applied)
    of = collector.got[0][1].resource_spans[0].resource.attributes
    assert {one.key: one.value.string_value for one in of}["ticdc_spark.job"] == "shop"


def test_a_batch_that_fails_is_a_span_with_the_fault(collector: Collector) -> None:
    with traced("shop", collector.url) as watcher:
        watcher.phase("scan", 8)
        watcher.trouble(SourceFault("mysql://user:secret@db is away"))
        watcher.trouble(SourceFault("again"))
    whole, part = collector.spans()
    assert (whole.status.code, whole.status.message, part.name) == (2, "SourceFault", "scan")
    assert "secret" not in str(collector.got)


def test_a_collector_that_is_away_does_not_hold_a_run_back(caplog: pytest.LogCaptureFixture) -> None:
    with traced("shop", "http://127.0.0.1:1") as watcher:
        watcher.phase("scan", 8)
        watcher.committed(BatchReport(progress=WELL, messages=5))


def test_times_are_those_of_the_phases() -> None:
    ended: list[tuple[str, int | None, int | None]] = []

    class Span:
        def __init__(self, name: str, begin: int | None) -> None:
            self.name, self.begin = name, begin

        def end(self, at: int | None = None) -> None:
            ended.append((self.name, self.begin, at))

    class Tracer:
        def start_span(self, name: str, start_time: int | None = None, **_: object) -> Any:
            return Span(name, start_time)

    ticks = iter(range(10, 100, 10))
    of = BatchTraces(Tracer(), lambda: next(ticks))  # type: ignore[arg-type]
    of.watcher.phase("scan", 1)
    of.watcher.phase("apply", 1)
    of.watcher.committed(BatchReport(progress=msgspec.structs.replace(WELL, applied=0), messages=1))
    assert ended == [("scan", 10, 20), ("apply", 20, 40), ("batch", 10, 40)]


def test_without_opentelemetry_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(UsageError, match="extra `traces`"), traced("shop", "http://127.0.0.1:1"):
        pass
