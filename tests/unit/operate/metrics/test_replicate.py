"""The metrics of ``replicate``: what they say, how many there are, and that the page has them all."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.status_examples import NOW, TSO, WELL
from ticdc_spark.config.job import MetricsKeys
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SinkFault, SourceFault
from ticdc_spark.operate.metrics.replicate import PREFIX, ReplicateMetrics
from ticdc_spark.replicate.report import BatchReport, TableRead
from ticdc_spark.replicate.run.watch import Maintained
from ticdc_spark.replicate.state.progress import Counters, Hold, PartitionState, Progress
from ticdc_spark.replicate.state.table import TableState, diverge, quarantine
from ticdc_spark.sinks.capabilities import SinkConflict
from ticdc_spark.sinks.upkeep import TableFiles, UpkeepResult
from ticdc_spark.spark.decode.control import OPS

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"
RULES = Path(__file__).parents[4] / "monitoring" / "alerts.yaml"


def metrics(tmp_path: Path, now: list[float] | None = None, **keys: Any) -> ReplicateMetrics:
    """``now``: what the clock shows."""
    path = tmp_path / "shop.toml"
    path.write_text(
        '[job]\nname = "shop"\n[source]\nkind = "kafka"\nbootstrap-servers = "broker:9092"\ntopics = ["shop"]\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
    )
    job = msgspec.structs.replace(load_job(path), metrics=MetricsKeys(**keys))
    return ReplicateMetrics(job, lambda: now[0] if now else NOW)


def samples(of: ReplicateMetrics) -> dict[str, float]:
    """By name and labels, as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(of)  # type: ignore[arg-type]
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[sample.name.removeprefix(PREFIX) + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def report(progress: Progress = WELL, **more: Any) -> BatchReport:
    return BatchReport(progress=progress, **more)


def test_lags_grow_while_nothing_is_committed(tmp_path: Path) -> None:
    partition = PartitionState(topic="shop", partition=0, offset=10, watermark=TSO + (40_000 << 18))
    now = [NOW]
    of = metrics(tmp_path, now)
    of.watcher.committed(report(msgspec.structs.replace(WELL, applied=TSO, partitions=(partition,))))
    before = samples(of)
    now[0] += 30
    after = samples(of)
    for what in ("lag_seconds{of=committed}", "lag_seconds{of=received}"):
        assert after[what] - before[what] == pytest.approx(30)
    assert before["lag_seconds{of=committed}"] - before["lag_seconds{of=received}"] == pytest.approx(40, abs=0.01)
    assert after["resolved_timestamp_seconds"] == before["resolved_timestamp_seconds"]


def test_counts_of_a_run_are_added_up_and_those_of_the_job_are_the_progress(tmp_path: Path) -> None:
    of = metrics(tmp_path)
    for _ in range(2):
        of.watcher.committed(
            report(msgspec.structs.replace(WELL, counters=Counters(rows=70)), messages=5, phases={"scan": 0.5}, left=9)
        )
    of.watcher.maintained(Maintained(table=("s", "a"), seconds=2.0, result=UpkeepResult(done=("compacted",))))
    of.watcher.maintained(Maintained(table=("s", "a"), seconds=1.0, fault="another writer was faster"))
    found = samples(of)
    assert (found["messages_total"], found["batches_total"], found["changes_total"]) == (10, 2, 70)
    assert (found["phase_seconds_total{phase=scan}"], found["phase_seconds_total{phase=maintenance}"]) == (1, 3)
    assert (found["maintenance_total{result=done}"], found["maintenance_total{result=failed}"]) == (1, 1)
    assert found["unread_messages"] == 9


def test_what_this_process_read_and_committed_is_added_up(tmp_path: Path) -> None:
    of, orders = metrics(tmp_path), ("shop", "orders")
    read = {orders: TableRead(messages=5, bytes=700, rows=(3, 2, 1, 0))}
    tables = (TableState(schema="shop", name="orders", rows=6),)
    for _ in range(2):
        progress = msgspec.structs.replace(WELL, tables=tables)
        of.watcher.committed(report(progress, messages=9, read=read, commits={orders: 3}, conflicts=1, epoch=4))
    found = samples(of)
    assert [found[f"rows_read_total{{operation={op}}}"] for op in OPS] == [6, 4, 2, 0]
    assert (found["message_bytes_total"], found["commits_total"], found["commit_conflicts_total"]) == (1400, 6, 2)
    assert found["table_messages_total{schema=shop,table=orders}"] == 10
    assert found["table_commits_total{schema=shop,table=orders}"] == 6
    assert found["owner_epoch"] == 4


def test_a_conflict_that_ends_a_batch_is_a_fault_of_the_sink_and_counts(tmp_path: Path) -> None:
    of = metrics(tmp_path)
    of.watcher.trouble(SinkConflict("another writer changed s.a"))
    of.watcher.trouble(SinkFault("the catalog does not answer"))
    found = samples(of)
    assert (found["retries_total{fault=SinkFault}"], found["commit_conflicts_total"]) == (2, 1)


def test_tables_are_counted_by_state_and_what_holds_back_is_named(tmp_path: Path) -> None:
    plain = TableState(schema="s", name="a", rows=3)
    tables = (
        plain,
        quarantine(msgspec.structs.replace(plain, name="b"), "a bad row"),
        diverge(msgspec.structs.replace(plain, name="c"), 9, "skipped"),
    )
    of = metrics(tmp_path)
    of.watcher.committed(report(msgspec.structs.replace(WELL, tables=tables, hold=Hold(kind="ddl", what="a DDL"))))
    found = samples(of)
    assert [found[f"tables{{state={state}}}"] for state in ("unverified", "quarantined", "diverged", "clean")] == [
        1,
        1,
        1,
        0,
    ]
    assert (found["held{by=ddl}"], found["held{by=partition}"]) == (1, 0)


@pytest.mark.parametrize("name", ["table_changes_total", "table_messages_total", "table_commits_total"])
@pytest.mark.parametrize(("most", "series"), [(2, 3), (10_000, 5_000), (0, 1)])
def test_so_many_tables_have_series_of_their_own_and_no_change_is_lost(
    tmp_path: Path, most: int, series: int, name: str
) -> None:
    tables = tuple(TableState(schema="s", name=f"t{at:05}", rows=2) for at in range(5_000))
    read = {one.full_name: TableRead(messages=2, bytes=1, rows=(0, 0, 0, 0)) for one in tables}
    of = metrics(tmp_path, table_series=most)
    progress = msgspec.structs.replace(WELL, tables=tables)
    of.watcher.committed(report(progress, read=read, commits={one.full_name: 2 for one in tables}))
    found = {one: value for one, value in samples(of).items() if one.startswith(name)}
    assert (len(found), sum(found.values())) == (series, 10_000)


def test_tables_that_are_gone_or_excluded_share_a_series(tmp_path: Path) -> None:
    of, live = metrics(tmp_path), TableState(schema="s", name="a")
    read = {("s", name): TableRead(messages=2, bytes=1, rows=(2, 0, 0, 0)) for name in ("a", "dropped", "excluded")}
    of.watcher.committed(report(msgspec.structs.replace(WELL, tables=(live,)), read=read))
    found = {one: value for one, value in samples(of).items() if one.startswith("table_messages")}
    assert found == {"table_messages_total{schema=s,table=a}": 2, "table_messages_total{schema=,table=}": 4}


def test_the_files_of_a_table_are_as_maintenance_left_them(tmp_path: Path) -> None:
    tables = tuple(TableState(schema="s", name=f"t{at}") for at in range(4))
    of = metrics(tmp_path, table_series=2)
    for at in range(5):
        made = TableFiles(bytes=1000, files=3, delete_files=at, snapshots=7)
        of.watcher.maintained(Maintained(table=("s", f"t{at}"), seconds=1.0, result=UpkeepResult(after=made)))
    of.watcher.committed(report(msgspec.structs.replace(WELL, tables=tables)))
    found = {name: value for name, value in samples(of).items() if name.startswith("table_files")}
    named = {f"table_files{{schema=s,table=t{at}}}": 3 + at for at in range(2)}
    assert found == {**named, "table_files{schema=,table=}": 3 + 2 + 3 + 3}, "t4 is no table of the job"
    assert samples(of)["table_bytes{schema=,table=}"] == 2000
    assert samples(of)["table_snapshots{schema=s,table=t0}"] == 7


def test_a_job_is_ready_from_its_first_batch_on_but_not_while_a_connection_fails(tmp_path: Path) -> None:
    of = metrics(tmp_path)
    of.watcher.phase("scan", 1)
    assert "scan" in of.not_ready()
    of.watcher.committed(report())
    assert of.not_ready() == ""
    of.watcher.trouble(SourceFault("no broker answers"))
    assert (of.not_ready(), samples(of)["up"]) == ("no broker answers", 0)
    of.watcher.committed(report())
    assert (of.not_ready(), samples(of)["up"], samples(of)["retries_total{fault=SourceFault}"]) == ("", 1, 1)


def names(of: ReplicateMetrics) -> set[str]:
    """Of all metrics, as in a query."""
    return {PREFIX + name.partition("{")[0] for name in samples(of)}


def documented(page: str, command: str) -> set[str]:
    """The names in the table of a command."""
    section = page.partition(f"## Metrics of `{command}`")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `([a-z_]+)(?:\{[^`]*\})?` \|", section, re.MULTILINE)
    return {f"ticdc_spark_{command}_{name}" for name in found}


def full(tmp_path: Path) -> ReplicateMetrics:
    of = metrics(tmp_path)
    partition = PartitionState(topic="shop", partition=0, offset=10, end=11, watermark=TSO)
    progress = msgspec.structs.replace(WELL, partitions=(partition,), tables=(TableState(schema="s", name="a"),))
    read = {("s", "a"): TableRead(messages=1, bytes=1, rows=(1, 0, 0, 0))}
    commits = {("s", "a"): 1}
    of.watcher.committed(report(progress, left=0, retention={"shop": 86_400.0}, epoch=1, read=read, commits=commits))
    of.watcher.maintained(Maintained(table=("s", "a"), seconds=1.0, result=UpkeepResult(after=TableFiles())))
    return of


def test_the_page_has_every_metric_and_no_other(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert documented(text, "replicate") == names(full(tmp_path))


def test_every_metric_of_the_alerts_is_there(tmp_path: Path) -> None:
    used = set(re.findall(r"ticdc_spark_[a-z_]+", RULES.read_text(encoding="utf-8")))
    there = names(full(tmp_path)) | documented(PAGE.read_text(encoding="utf-8"), "changefeed")
    assert used and used <= there


def test_every_metric_of_the_dashboard_is_there_and_no_panel_covers_another(tmp_path: Path) -> None:
    dashboard = json.loads((RULES.parent / "dashboard.json").read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    used = {
        name for panel in panels for one in panel["targets"] for name in re.findall(r"ticdc_spark_[a-z_]+", one["expr"])
    }
    there = names(full(tmp_path)) | documented(PAGE.read_text(encoding="utf-8"), "changefeed")
    assert used and used <= there
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_has_a_runbook_that_is_there() -> None:
    runbooks = re.findall(r"runbook: (docs/[a-z-]+/[a-z-]+\.md)#([a-z-]+)", RULES.read_text(encoding="utf-8"))
    assert len(runbooks) == RULES.read_text(encoding="utf-8").count("- alert:")
    for page, anchor in runbooks:
        titles = re.findall(r"^#+ (.+)$", (RULES.parents[1] / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
