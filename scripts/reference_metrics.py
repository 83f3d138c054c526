"""The metrics of ``replicate`` and ``changefeed``, from the metrics that a run serves."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from prometheus_client.core import Metric
from tests.support.status_examples import NOW, TSO, WELL

from ticdc_spark.capture.binlog.kept import Kept
from ticdc_spark.changefeed.report import Report
from ticdc_spark.changefeed.sent import TableRows
from ticdc_spark.config.job import IcebergConfig, Job, KafkaSource
from ticdc_spark.operate.metrics import changefeed, replicate
from ticdc_spark.replicate.report import BatchReport, TableRead
from ticdc_spark.replicate.run.watch import Maintained
from ticdc_spark.replicate.state.progress import PartitionState
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.upkeep import TableFiles, UpkeepResult
from ticdc_spark.spark.decode.control import OPS


def replicate_metrics() -> list[str]:
    """One row for each metric."""
    source, sink = KafkaSource(bootstrap_servers="broker:9092", topics=("shop",)), IcebergConfig(warehouse="lake")
    job = Job(name="shop", file=Path("shop.toml"), source=source, sink=sink)
    partition = PartitionState(topic="shop", partition=0, offset=10, end=11, watermark=TSO)
    tables = (TableState(schema="shop", name="orders"),)
    of = replicate.ReplicateMetrics(job, lambda: NOW)
    progress = msgspec.structs.replace(WELL, partitions=(partition,), tables=tables)
    looked = UpkeepResult(after=TableFiles(files=1))
    of.watcher.maintained(Maintained(table=("shop", "orders"), seconds=1.0, result=looked))
    name = ("shop", "orders")
    report = BatchReport(
        progress=progress,
        left=0,
        retention={"shop": 604_800.0},
        epoch=1,
        read={name: TableRead(messages=1, bytes=100, rows=(1,) + (0,) * (len(OPS) - 1))},
        commits={name: 1},
    )
    of.watcher.committed(report)
    return _rows(of.collect(), replicate.PREFIX)


def changefeed_metrics() -> list[str]:
    """One row for each metric."""
    of = changefeed.ChangefeedMetrics("shop", lambda: NOW)
    counted = (TableRows("shop", "orders", "insert", 7),)
    of(Report(rows=7, messages=5, waiting=2, rows_per_second=1.0, saved=TSO, counted=counted))
    of.note_kept(Kept(older=1, newer=1, seconds=604_800.0))
    return _rows(of.collect(), changefeed.PREFIX)


def _rows(found: Iterable[Metric], prefix: str) -> list[str]:
    rows = []
    for metric in found:
        name = metric.name.removeprefix(prefix) + {"counter": "_total", "info": "_info"}.get(metric.type, "")
        labels = list(metric.samples[0].labels)
        if labels:
            name += "{" + ",".join(labels) + "}"
        values = dict.fromkeys(value for sample in metric.samples for value in sample.labels.values())
        words = ": " + ", ".join(f"`{value}`" for value in values) if len(labels) == 1 else ""
        rows.append(f"`{name}` | {metric.type} | {metric.documentation.rstrip('.')}{words}.")
    return rows
