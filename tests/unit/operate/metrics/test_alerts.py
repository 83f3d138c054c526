"""The alerts on the files of tables, which no fault of a server can cause quickly; and how rules are evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.support.alert_rules import Scraper
from tests.support.status_examples import NOW, TSO, WELL
from tests.unit.operate.metrics.test_replicate import metrics
from ticdc_spark.changefeed.report import Report
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.operate.metrics.changefeed import ChangefeedMetrics
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.upkeep import UpkeepScheduler
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.upkeep import UpkeepResult

HOUR = 3600.0


class Files:
    """The upkeep of a lake of which files are missing, or none are."""

    def __init__(self) -> None:
        self.missing = True

    def look_after(self, *_: object) -> UpkeepResult:
        if self.missing:
            raise SinkFault("lake/s/a/data/1.parquet: not found")
        return UpkeepResult(done=("compacted 2 files",))


def test_maintenance_that_fails_again_and_again_fires_and_ends_once_it_works(tmp_path: Path) -> None:
    now, files, of = [NOW], Files(), metrics(tmp_path)
    scheduler = UpkeepScheduler(of._job, lambda: now[0])
    registry = CollectorRegistry()
    registry.register(cast(Any, of))
    scraper = Scraper(lambda: generate_latest(registry).decode())
    of.watcher.committed(BatchReport(progress=WELL))
    scraper.scrape()

    def turns(count: int) -> set[str]:
        """Look after a table that changes each hour."""
        for _ in range(count):
            now[0] += HOUR
            scraper.later += 0.5 * HOUR
            table = Table(schema="s", name="a", columns=(Column(name="id", type=ColumnType(name="int")),))
            state = TableState(schema="s", name="a", table=table, snapshot_id=int(now[0]))
            scheduler.turn(cast(Any, files), msgspec.structs.replace(WELL, tables=(state,)), of.watcher)
            scraper.scrape()
        return scraper.firing() - {"TicdcSparkLag", "TicdcSparkSourceSilent"}

    assert turns(5) == set()
    assert turns(3) == {"TicdcSparkMaintenanceFails"}
    files.missing = False
    assert turns(12) == set()


def page(*lines: str) -> str:
    """A page of metrics."""
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("pages", "fires"),
    [
        (["ticdc_spark_replicate_up 1"] * 2, set()),
        (["ticdc_spark_replicate_up 0"] * 2, {"TicdcSparkConnection"}),
        (["ticdc_spark_replicate_up 0", "ticdc_spark_replicate_up 1"], set()),
        (["ticdc_spark_replicate_up 1", "ticdc_spark_replicate_up 0"], set()),
        (["other 1"] * 2, {"TicdcSparkDown"}),
        (
            [
                'ticdc_spark_replicate_up 1\nticdc_spark_replicate_tables{state="quarantined"} 1',
            ],
            {"TicdcSparkTablesStandStill"},
        ),
    ],
)
def test_rules_are_evaluated_over_scrapes(pages: list[str], fires: set[str]) -> None:
    left = [page(*one.split("\n")) for one in pages]
    scraper = Scraper(lambda: left.pop(0))
    for _ in pages:
        scraper.scrape()
    assert scraper.firing() == fires


def test_a_counter_that_began_again_has_grown_from_zero() -> None:
    name = "ticdc_spark_replicate_dead_letters_total"
    left = [page("ticdc_spark_replicate_up 1", f"# TYPE {name[:-6]} counter", f"{name} {value}") for value in (7, 7, 1)]
    scraper = Scraper(lambda: left.pop(0))
    found = []
    for _ in range(3):
        scraper.scrape()
        found.append("TicdcSparkDeadLetters" in scraper.firing())
    assert found == [False, False, True]


def test_the_alerts_of_a_changefeed_fire_by_their_faults_and_end_with_them() -> None:
    now, sent = [NOW], Report(rows=7, messages=5, waiting=2, rows_per_second=1.0, saved=TSO)
    feed, is_down = ChangefeedMetrics("shop", lambda: now[0]), [False]

    def read() -> str:
        if is_down[0]:
            raise ConnectionRefusedError
        registry = CollectorRegistry()
        registry.register(cast(Any, feed))
        return generate_latest(registry).decode()

    scraper = Scraper(read, job="ticdc-spark-changefeed")

    def firing() -> set[str]:
        scraper.scrape()
        scraper.scrape()
        return {name for name in scraper.firing() if "Changefeed" in name}

    feed(sent)
    assert firing() == set()
    now[0] += 400
    assert firing() == {"TicdcSparkChangefeedLag"}
    feed(msgspec.structs.replace(sent, outage="broker:9092 refuses"))
    assert firing() == {"TicdcSparkChangefeedLag", "TicdcSparkChangefeedConnection"}
    is_down[0] = True
    assert firing() == {"TicdcSparkChangefeedDown"}
    is_down[0] = False
    feed(msgspec.structs.replace(sent, saved=TSO + (400_000 << 18)))
    assert firing() == set()
