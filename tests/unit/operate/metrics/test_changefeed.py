"""The metrics of ``changefeed``."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.status_examples import NOW, TSO
from tests.unit.operate.metrics.test_replicate import PAGE, documented
from ticdc_spark.changefeed.report import Report
from ticdc_spark.operate.metrics.changefeed import PREFIX, ChangefeedMetrics

SENT = Report(rows=7, messages=5, waiting=2, rows_per_second=1.0, saved=TSO)


def samples(of: ChangefeedMetrics) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(of)  # type: ignore[arg-type]
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_the_lag_is_that_of_now_and_an_outage_shows() -> None:
    now = [NOW]
    of = ChangefeedMetrics("shop", lambda: now[0])
    assert "starting" in of.not_ready()
    of(SENT)
    before = samples(of)
    now[0] += 30
    assert samples(of)[f"{PREFIX}lag_seconds"] - before[f"{PREFIX}lag_seconds"] == pytest.approx(30)
    assert (before[f"{PREFIX}rows_total"], before[f"{PREFIX}up"], of.not_ready()) == (7, 1, "")
    of(Report(rows=7, messages=5, waiting=2, rows_per_second=0.0, saved=TSO, outage="broker:9092 refuses"))
    assert (samples(of)[f"{PREFIX}up"], of.not_ready()) == (0, "broker:9092 refuses")


def test_the_page_has_every_metric_and_no_other() -> None:
    of = ChangefeedMetrics("shop", lambda: NOW)
    of(SENT)
    assert documented(PAGE.read_text(encoding="utf-8"), "changefeed") == set(samples(of))
