"""What is served of metrics and health."""

from __future__ import annotations

import logging
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from tests.unit.operate.test_serving import HERE, TOKEN, get
from ticdc_spark.cli.replicate import watching
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.metrics.server import metrics_routes
from ticdc_spark.operate.serving import serving
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher, together
from ticdc_spark.replicate.state.progress import Counters, Progress


class Some:
    """Metrics of something that is ready, or not."""

    why = ""

    def not_ready(self) -> str:
        return self.why

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("rows", "Rows.", value=7)


def test_metrics_and_health_are_served_until_the_run_ends() -> None:
    some = Some()
    with serving(HERE, metrics_routes(some), "listen") as place:
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


def test_health_needs_no_token_and_says_why_only_to_one_who_has_it() -> None:
    some = Some()
    some.why = "table `shop`.`orders`"
    known = f"Bearer {TOKEN}"
    with serving(HERE, metrics_routes(some), "listen", TOKEN) as place:
        assert get(place, "/metrics")[0] == 401
        assert get(place, "/metrics", Authorization=known)[0] == 200
        assert get(place, "/healthz") == (200, "ok\n")
        assert get(place, "/readyz") == (503, "not ready\n")
        assert get(place, "/readyz", Authorization=known) == (503, "table `shop`.`orders`\n")


def job_with(folder: Path, metrics: str) -> Path:
    path = folder / "shop.toml"
    path.write_text(
        '[job]\nname = "shop"\n[source]\nkind = "kafka"\nbootstrap-servers = "broker:9092"\ntopics = ["shop"]\n'
        f'[sink]\nkind = "iceberg"\nwarehouse = "lake"\n[metrics]\n{metrics}\n'
    )
    return path


@contextmanager
def run_of(path: Path) -> Iterator[tuple[list[Watcher], tuple[str, int]]]:
    """What watches a run of a job file, and where its metrics are on this machine."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("ticdc_spark.cli.replicate")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with watching(load_job(path)) as watchers:
            (line,) = [message for message in messages if message.startswith("metrics: ")]
            yield watchers, ("127.0.0.1", int(line.rpartition(":")[2].partition("/")[0]))
    finally:
        logger.removeHandler(handler)


def test_a_run_serves_metrics_and_its_page_where_the_job_file_says(tmp_path: Path) -> None:
    with run_of(job_with(tmp_path, 'listen = "127.0.0.1:0"')) as (watchers, place):
        told = together(watchers)
        told.phase("scan", 1)
        assert get(place, "/readyz") == (503, "no batch is done yet: scan\n")
        told.committed(BatchReport(progress=Progress(job="shop", counters=Counters(rows=7))))
        assert get(place, "/readyz")[0] == 200
        assert "ticdc_spark_replicate_changes_total 7.0" in get(place, "/metrics")[1]
        status, page = get(place, "/")
        assert status == 200 and "7 applied" in page


def test_where_others_reach_it_the_page_is_served_with_a_token_only(tmp_path: Path) -> None:
    with run_of(job_with(tmp_path, 'listen = "0.0.0.0:0"')) as (_, place):
        assert [get(place, path)[0] for path in ("/metrics", "/", "/status.json")] == [200, 404, 404]
    with run_of(job_with(tmp_path, f'listen = "0.0.0.0:0"\ntoken = "{TOKEN}"')) as (_, place):
        assert [get(place, path)[0] for path in ("/metrics", "/", "/status.json")] == [401, 401, 401]
        assert get(place, "/", Authorization=f"Bearer {TOKEN}")[0] == 200


def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\[metrics\] token: .*16 characters") as found:
        load_job(job_with(tmp_path, 'token = "short-token"'))
    assert "short-token" not in str(found.value)
