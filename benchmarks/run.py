"""``make bench``: rows a second of each step and of the whole job, beside what one would write without this package.

    python -m benchmarks.run [--changes 2000000] [--batch-rows 500000] [--workload insert-heavy]

Prints Markdown. Everything runs in one process and one JVM, one after another, on a recorded topic in Parquet; every
lake is compared with the row counts of the truth.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks import baselines
from benchmarks.job import PHASES, batches_of, open_lake, phases_of, shown, write_job
from benchmarks.measure import Measured
from benchmarks.topic import Recorded, configs, recorded
from ticdc_spark.changes.opening import Opening
from ticdc_spark.changes.ranges import RowRange, RowScan
from ticdc_spark.changes.scan import EVENTS_DDL, ScanPlan, scan
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Table
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.replicate import loop
from ticdc_spark.sinks.iceberg.kind import EXTENSIONS
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.spark.decode.control import ControlEvent, RowsRead
from ticdc_spark.spark.decode.raw import RawRows
from ticdc_spark.spark.decode.rows import read_rows, rows_ddl
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.session.session import coordinates, cores, open_session
from ticdc_spark.spark.sources.files import RecordedTopicSource
from ticdc_spark.spark.types import LakeColumn, LakeOptions


class Bench:
    """One workload under measurement: what is read, where lakes are made, what was found."""

    def __init__(self, spark: SparkSession, topic: Recorded, batch_rows: int, folder: Path) -> None:
        self.spark = spark
        self.topic = topic
        self.batch_rows = batch_rows
        self.folder = folder
        self.source = RecordedTopicSource(spark, topic.path)
        self.bounds = list(batches_of(self.source, {}, batch_rows))
        self.found: dict[str, Measured] = {}
        self.phases: dict[str, float] = defaultdict(float)
        self.job_rows = 0

    def sink(self, name: str) -> IcebergSink:
        warehouse = self.folder / name
        warehouse.mkdir(parents=True)
        return open_lake(str(warehouse))

    def check(self, name: str, sink: IcebergSink) -> None:
        """Every table has the rows that it should have."""
        counts = {
            table.name: sink.catalog.spark.table(sink.catalog.sql_name((table.schema, table.name))).count()
            for table in self.topic.tables
        }
        if counts != self.topic.rows:
            raise SystemExit(f"{name}: wrong result: {counts}, and should be {self.topic.rows}")

    def run(self) -> None:
        """Measure everything."""
        self.steps()
        self.whole_job()
        self.baseline("naive", baselines.naive)
        self.baseline("tuned", baselines.tuned)

    def steps(self) -> None:
        every = self.source.read(self.source.beginning_offsets(), self.source.end_offsets())
        with shown("scan", self.found):
            every.select(sf.sum(sf.length("value"))).collect()
        with shown("envelopes: ours", self.found):
            every.mapInArrow(scan(ScanPlan(opening=OPENING)), EVENTS_DDL).collect()
        envelope = "type string, `table` string, commitTs bigint, data string, old string"
        with shown("envelopes: from_json", self.found):
            _drain(every.select(sf.from_json(sf.col("value").cast("string"), envelope).alias("m")).select("m.*"))

        source = RecordedTopicSource(self.spark, self.topic.path)
        topic = SparkTopicRows(self.spark, source, OPENING)
        found: list[ControlEvent] = []
        with shown("scanning", self.found):
            for start, end in self.bounds:
                count = sum(last - start.get(place, 0) for place, last in end.items())
                found += topic.scan(ScanPlan(opening=OPENING), start, end, count)
        scans = {table.name: _scan_of(table, found) for table in self.topic.tables}
        with shown("rows: ours", self.found):
            for table in self.topic.tables:
                columns = baselines.columns_of(table)
                plan = _plan_of(table, columns)
                _drain(topic.raw(scans[table.name]).map(read_rows(plan), rows_ddl(columns)))
        images = ", ".join(f"`{name}` {kind}" for name, kind in _RAW.items())
        with shown("rows: from_json", self.found):
            for table in self.topic.tables:
                raw = topic.raw(scans[table.name]).map(_as_they_are, images)
                _drain(_parsed(table, raw))

    def whole_job(self) -> None:
        folder = self.folder / "job"
        job_file = write_job(folder, self.topic.path, self.batch_rows)
        with shown("whole job: ours", self.found), phases_of(self.phases):
            summary = loop.run(load_job(job_file), once=True)
        if summary.batches != len(self.bounds):
            raise SystemExit(f"the job did {summary.batches} batches, the baselines {len(self.bounds)}")
        self.job_rows = summary.changes
        self.check("job", open_lake(str(folder / "lake")))
        shutil.rmtree(folder)

    def baseline(self, name: str, run: Callable[..., None]) -> None:
        sink = self.sink(name)
        baselines.create(sink, self.topic.tables)
        with shown(f"whole job: {name}", self.found):
            run(RecordedTopicSource(sink.catalog.spark, self.topic.path), sink, self.topic.tables, self.bounds)
        self.check(name, sink)
        shutil.rmtree(self.folder / name)

    def report(self, workload: str) -> str:
        """The results in Markdown, ratios first."""
        changes = self.job_rows

        def ratio(what: str, theirs: str) -> str:
            mine, other = self.found[f"{what}: ours"], self.found[f"{what}: {theirs}"]
            return f"{other.seconds / mine.seconds:.2f} | {other.cpu / mine.cpu:.2f}"

        lines = [
            f"### {workload}: {changes:,} changes in {len(self.bounds)} batches",
            "",
            "| ours is … times as fast | by the clock | by processor time |",
            "|---|---:|---:|",
            f"| whole job, beside the naive baseline | {ratio('whole job', 'naive')} |",
            f"| whole job, beside the tuned baseline | {ratio('whole job', 'tuned')} |",
            f"| row images to typed columns, beside `from_json` + casts | {ratio('rows', 'from_json')} |",
            f"| messages to envelopes, beside `from_json` | {ratio('envelopes', 'from_json')} |",
            "",
            "| | rows/s | seconds | processor seconds | JVM, peak MB | Python driver | Python workers |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for name, result in self.found.items():
            memory = " | ".join(f"{size >> 20:,}" for size in (result.jvm, result.driver, result.workers))
            lines.append(
                f"| {name} | {changes / result.seconds:,.0f} | {result.seconds:.1f} | {result.cpu:.1f} | {memory} |"
            )
            if name == "whole job: ours":
                for phase in PHASES:
                    spent = self.phases[phase]
                    lines.append(f"| … of it: {phase} | {changes / max(spent, 1e-9):,.0f} | {spent:.1f} | | | | |")
                rest = result.seconds - sum(self.phases[phase] for phase in PHASES)
                lines.append(f"| … of it: everything else | | {rest:.1f} | | | | |")
        return "\n".join(lines) + "\n"


OPENING = Opening(protocol="simple")
_RAW = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "seq": "int",
    "op": "string",
    "schema_key": "string",
    "commit_ts": "bigint",
    "partial": "boolean",
    "before": "binary",
    "after": "binary",
    "checksum": "bigint",
    "corrupted": "boolean",
    "table_id": "bigint",
}


def _as_they_are(batches: Iterable[RawRows]) -> Iterator[pa.RecordBatch]:
    yield from (rows.to_arrow() for rows in batches)


def _scan_of(table: Table, found: Sequence[ControlEvent]) -> RowScan:
    mine = [one for one in found if isinstance(one, RowsRead) and one.table == table.name]
    return RowScan(
        table=(table.schema, table.name),
        ranges=tuple(RowRange(m.topic, m.partition, m.summary.first, m.summary.end, m.sent) for m in mine),
        above=0,
        upto=2**63 - 1,
        rows=sum(one.summary.rows for one in mine),
        bytes=sum(one.summary.bytes for one in mine),
    )


def _plan_of(table: Table, columns: Sequence[LakeColumn]) -> ReadPlan:
    return ReadPlan(
        protocol="simple",
        tables={str(table.version): table},
        columns=tuple(columns),
        options=ReadOptions(),
        lake=LakeOptions(),
        strict=True,
    )


def _parsed(table: Table, raw: DataFrame) -> DataFrame:
    """The rows of a table, typed by ``from_json`` and casts."""
    images = raw.select("*", sf.col("after").cast("string").alias("data"), sf.col("before").cast("string").alias("old"))
    schema = baselines.image_schema(table)
    places = ("op", "commit_ts", "offset", "seq")
    parsed = images.select(*places, sf.from_json("data", schema).alias("new"), sf.from_json("old", schema).alias("old"))
    cells = baselines.typed_columns(sf.col("old"), sf.col("new"), baselines.columns_of(table))
    return parsed.select(*places, *cells)


def _drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.run", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--changes", type=int, default=2_000_000, help="row changes of each workload")
    parser.add_argument("--batch-rows", type=int, default=500_000, help="messages of a batch")
    parser.add_argument("--workload", choices=list(configs(1, 0)), action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"), help="where topics are kept")
    parser.add_argument("--warm-up", type=int, default=20_000, help="changes of a first, uncounted round; 0: none")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark and print it."""
    arguments = _arguments()
    chosen = arguments.workload or list(configs(1, 0))
    print("making topics …", file=sys.stderr)
    topics = {name: recorded(configs(arguments.changes, arguments.seed)[name], arguments.cache) for name in chosen}
    options = {"spark.sql.extensions": EXTENSIONS}
    spark = open_session("bench", options, coordinates("iceberg", "sqlite"))
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="ticdc-bench-") as folder:
        if arguments.warm_up:
            print("warming up", file=sys.stderr)
            config = configs(arguments.warm_up, arguments.seed)["update-heavy"]
            Bench(spark, recorded(config, arguments.cache), 1_000_000, Path(folder, "warm-up")).run()
        master = spark.sparkContext.master
        print(
            f"{cores(master)} cores ({master}), Spark {pyspark.__version__}, Python {platform.python_version()}, "
            f"batches of {arguments.batch_rows:,} messages.\n"
        )
        for name, topic in topics.items():
            print(f"{name}: {topic.messages:,} messages, {topic.config.changes:,} changes", file=sys.stderr)
            bench = Bench(spark, topic, arguments.batch_rows, Path(folder, name))
            bench.run()
            print(bench.report(name))
    spark.stop()


if __name__ == "__main__":
    main()
