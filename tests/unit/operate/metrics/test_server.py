"""The server of metrics and health."""

from __future__ import annotations

import logging
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from ticdc_spark.cli.replicate import watching
from ticdc_spark.config.load import load_job
from ticdc_spark.config.values import Address
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.metrics.server import served
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import together
from ticdc_spark.replicate.state.progress import Counters, Progress


class Some:
    """Metrics of something that is ready, or not."""

    why = ""

    def not_ready(self) -> str:
        return self.why

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("rows", "Rows.", value=7)


def get(place: tuple[str, int], path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{place[0]}:{place[1]}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_and_health_are_served_until_the_run_ends() -> None:
    some = Some()
    with served(Address("127.0.0.1", 0), some, "listen") as place:
        status, text = get(place, "/metrics")
        assert status == 200 and "rows 7.0" in text
        assert get(place, "/healthz") == (200, "ok\n")
        assert get(place, "/readyz") == (200, "ok\n")
        some.why = "no broker answers"
        assert get(place, "/readyz") == (503, "no broker answers\n")
        assert get(place, "/healthz")[0] == 200
        assert get(place, "/other")[0] == 404
    with pytest.raises(urllib.error.URLError):
        get(place, "/metrics")


def test_one_who_asks_and_does_not_wait_is_no_error_of_the_job(capfd: pytest.CaptureFixture[str]) -> None:
    class Much(Some):
        def collect(self) -> Iterator[Metric]:
            yield GaugeMetricFamily("rows", "x" * 3_000_000, value=7)

    with served(Address("127.0.0.1", 0), Much(), "listen") as place:
        for _ in range(3):
            with socket.create_connection(place) as asking:
                asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                asking.send(b"GET /metrics HTTP/1.0\r\n\r\n")
                asking.recv(1)
        assert get(place, "/healthz") == (200, "ok\n")
    assert "Traceback" not in capfd.readouterr().err


def test_an_address_that_is_taken_is_named_with_its_key() -> None:
    with (
        served(Address("127.0.0.1", 0), Some(), "first") as (host, port),
        pytest.raises(UsageError, match=rf"job.toml: \[metrics\] listen: 127.0.0.1:{port} cannot be listened at"),
        served(Address(host, port), Some(), "job.toml: [metrics] listen"),
    ):
        pass


def test_a_run_serves_its_metrics_where_the_job_file_says(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(
        '[job]\nname = "shop"\n[source]\nkind = "kafka"\nbootstrap-servers = "broker:9092"\ntopics = ["shop"]\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n[metrics]\nlisten = "127.0.0.1:0"\n'
    )
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("ticdc_spark.cli.replicate")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with watching(load_job(path)) as watchers:
            (line,) = [message for message in messages if message.startswith("metrics: ")]
            told = together(watchers)
            told.phase("scan", 1)
            place = ("127.0.0.1", int(line.rpartition(":")[2].partition("/")[0]))
            assert get(place, "/readyz") == (503, "no batch is done yet: scan\n")
            told.committed(BatchReport(progress=Progress(job="shop", counters=Counters(rows=7))))
            assert get(place, "/readyz")[0] == 200
            assert "ticdc_spark_replicate_changes_total 7.0" in get(place, "/metrics")[1]
    finally:
        logger.removeHandler(handler)
