"""``make bench-catch-up``: a job that catches up in tables that have rows already, beside the tuned baseline.

    python -m benchmarks.catch_up [--tables 4] [--rows 1000000] [--changes 4000000] [--batch-rows 500000]
    python -m benchmarks.catch_up --tables 1 --rows 0 --mix insert-only --transaction 10000000 --changes 10000000

The rows that the tables have before are brought in first and not counted. Prints Markdown: the clock, processor time,
and what it costs to read the lake afterwards. Upkeep is on, as by default, and counted.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from benchmarks import baselines
from benchmarks.accounts import AccountsConfig
from benchmarks.job import PHASES, batches_of, open_lake, phases_of, shown, write_job
from benchmarks.measure import Measured, measured
from benchmarks.topic import RecordedAccounts, link_topic, recorded_accounts
from ticdc_spark.config.load import load_job
from ticdc_spark.replicate import loop
from ticdc_spark.sinks.iceberg.kind import EXTENSIONS
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.spark.session.session import coordinates, cores, open_session
from ticdc_spark.spark.sources.files import RecordedTopicSource

_LOAD_ROWS = 500_000
_HEADINGS = (
    "| | changes/s | seconds | processor µs a change | beside the baseline, clock | processors | JVM, peak MB "
    "| Python workers | reading afterwards, s |"
)


class CatchUp:
    """One workload: its topic, where lakes are made, what was found."""

    def __init__(
        self, spark: SparkSession, topic: RecordedAccounts, batch_rows: int, folder: Path, more: str = ""
    ) -> None:
        """``more``: of the job file, behind the keys of the sink."""
        self.more = more
        self.spark = spark
        self.topic = topic
        self.batch_rows = batch_rows
        self.folder = folder
        self.found: dict[str, Measured] = {}
        self.reads: dict[str, Measured] = {}
        self.phases: dict[str, dict[str, float]] = {}
        self.changes = 0

    def job(self, writer: str) -> None:
        """Measure a job with one of the writers."""
        name = f"ours, writer {writer}"
        folder = self.folder / name
        topic = folder / "topic"
        link_topic(self.topic.before, topic)
        loop.run(load_job(write_job(folder, topic, _LOAD_ROWS, writer=writer, more=self.more)), once=True)
        link_topic(self.topic.changes, topic)
        job = load_job(write_job(folder, topic, self.batch_rows, writer=writer, more=self.more))
        phases = self.phases[name] = {}
        with shown(name, self.found), phases_of(phases):
            summary = loop.run(job, once=True)
        self.changes = summary.changes
        self._read(name, open_lake(str(folder / "lake")))
        shutil.rmtree(folder)

    def tuned(self) -> None:
        """Measure the tuned baseline."""
        folder = self.folder / "tuned"
        topic = folder / "topic"
        link_topic(self.topic.before, topic)
        (folder / "lake").mkdir()
        sink = open_lake(str(folder / "lake"))
        baselines.create(sink, self.topic.tables)
        source = RecordedTopicSource(sink.catalog.spark, topic)
        baselines.tuned(source, sink, self.topic.tables, list(batches_of(source, {}, _LOAD_ROWS)))
        loaded = source.end_offsets()
        link_topic(self.topic.changes, topic)
        bounds = list(batches_of(source, loaded, self.batch_rows))
        with shown("tuned baseline", self.found):
            baselines.tuned(source, sink, self.topic.tables, bounds)
        self._read("tuned baseline", sink)
        shutil.rmtree(folder)

    def _read(self, name: str, sink: IcebergSink) -> None:
        """Count and add up every table, and compare with the truth."""
        for turn in ("warm", "measured"):
            rows, visits = {}, {}
            with measured() as result:
                for table in self.topic.tables:
                    lake = sink.catalog.spark.table(sink.catalog.sql_name((table.schema, table.name)))
                    (found,) = lake.selectExpr("count(*)", "coalesce(sum(visits), 0)", "sum(balance)").collect()
                    rows[table.name], visits[table.name] = found[0], found[1]
            if (rows, visits) != (self.topic.rows, self.topic.visits):
                raise SystemExit(f"{name}: wrong result: {rows}, {visits}; {self.topic.rows}, {self.topic.visits}")
            if turn == "measured":
                self.reads[name] = result

    def report(self, title: str) -> str:
        """The results in Markdown."""
        theirs = self.found.get("tuned baseline")
        lines = [
            f"### {title}",
            "",
            _HEADINGS,
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for name, result in self.found.items():
            clock, cpu = (
                (f"{theirs.seconds / result.seconds:.2f}", f"{theirs.cpu / result.cpu:.2f}") if theirs else ("", "")
            )
            lines.append(
                f"| {name} | {self.changes / result.seconds:,.0f} | {result.seconds:.1f} "
                f"| {result.cpu / self.changes * 1e6:.1f} | {clock} | {cpu} | {result.jvm >> 20:,} "
                f"| {result.workers >> 20:,} | {self.reads[name].seconds:.2f} |"
            )
        lines.append("")
        for name, phases in self.phases.items():
            spent = ", ".join(f"{phase} {phases.get(phase, 0.0):.1f}" for phase in PHASES)
            lines.append(f"{name}, seconds: {spent}.")
        return "\n".join(lines) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.catch_up", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--rows", type=int, default=1_000_000, help="that all tables together have before")
    parser.add_argument("--changes", type=int, default=4_000_000)
    parser.add_argument("--batch-rows", type=int, default=500_000, help="messages of a batch")
    parser.add_argument("--mix", choices=("update-heavy", "insert-only"), default="update-heavy")
    parser.add_argument("--transaction", type=int, default=1, help="changes of one commitTs")
    parser.add_argument("--scattered", action="store_true", help="keys all over BIGINT, instead of rising")
    parser.add_argument("--writer", choices=("python", "spark"), action="append", help="of [job]")
    parser.add_argument("--format-version", type=int, choices=(2, 3), default=2, help="of our tables")
    parser.add_argument("--without-baseline", action="store_true")
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"), help="where topics are kept")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark and print it."""
    arguments = _arguments()
    inserts, updates = (1.0, 0.0) if arguments.mix == "insert-only" else (0.2, 0.7)
    config = AccountsConfig(
        tables=arguments.tables,
        rows=arguments.rows,
        changes=arguments.changes,
        scattered=arguments.scattered,
        insert_share=inserts,
        update_share=updates,
        transaction=arguments.transaction,
    )
    small = AccountsConfig(rows=20_000, changes=20_000)
    print("making topics …", file=sys.stderr)
    topic, first = recorded_accounts(config, arguments.cache), recorded_accounts(small, arguments.cache)
    spark = open_session("bench", {"spark.sql.extensions": EXTENSIONS}, coordinates("iceberg", "sqlite"))
    spark.sparkContext.setLogLevel("ERROR")
    more = f"[sink.table-properties]\nformat-version = {arguments.format_version}\n"
    with tempfile.TemporaryDirectory(prefix="ticdc-bench-") as folder:
        print("warming up", file=sys.stderr)
        _run(CatchUp(spark, first, 20_000, Path(folder, "warm-up"), more), arguments)
        print("measuring", file=sys.stderr)
        bench = CatchUp(spark, topic, arguments.batch_rows, Path(folder, "measured"), more)
        _run(bench, arguments)
    master = spark.sparkContext.master
    print(
        f"{cores(str(master))} cores ({master}), Spark {pyspark.__version__}, Python {platform.python_version()}, "
        f"batches of {arguments.batch_rows:,} messages.\n"
    )
    print(bench.report(f"{arguments.mix}, {config.tables} tables of {config.rows:,} rows: {bench.changes:,} changes"))
    spark.stop()


def _run(bench: CatchUp, arguments: argparse.Namespace) -> None:
    for writer in arguments.writer or ["python"]:
        bench.job(writer)
    if not arguments.without_baseline:
        bench.tuned()


if __name__ == "__main__":
    main()
