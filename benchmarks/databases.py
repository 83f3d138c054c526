"""A job that catches up in tables of a database, beside staging by Spark's JDBC writer and a merge written by hand.

    python -m benchmarks.databases postgres|mysql [--tables 4] [--rows 200000] [--changes 400000] [--batch-rows 200000]

The rows that the tables have before are brought in first and not counted. The baseline opens the messages of a batch
once, has four tables written at a time, and takes the rows over as the job does, in one transaction: DELETE, then an
INSERT that updates what is there. It orders nothing across batches, follows no DDL, and cannot be restarted. Processor
time includes that of the server. ``mysql`` is a MariaDB.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyspark
from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from benchmarks.accounts import AccountsConfig
from benchmarks.baselines import THREADS, columns_of, images_typed, newest
from benchmarks.database_targets import Database, started
from benchmarks.job import batches_of, shown
from benchmarks.measure import Measured
from benchmarks.topic import RecordedAccounts, link_topic, recorded_accounts
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Offsets, Table
from ticdc_spark.replicate import loop
from ticdc_spark.spark.session.session import cores, open_session
from ticdc_spark.spark.sources.files import RecordedTopicSource

_JOB = """\
[job]
name = "bench"
batch-rows = {batch_rows}
batch-bytes = "64 GiB"
[source]
kind = "files"
path = "{topic}"
protocol = "simple"
[sink]
kind = "{kind}"
uri = "{uri}"
"""
_OURS, _THEIRS = "ours", "Spark's JDBC writer and a merge"


class Bench:
    """One workload: its topic, the server, what was found."""

    def __init__(self, spark: SparkSession, database: Database, topic: RecordedAccounts, folder: Path) -> None:
        self.spark, self.database, self.topic, self.folder = spark, database, topic, folder
        self.found: dict[str, Measured] = {}
        self.changes = 0

    def run(self, batch_rows: int) -> None:
        """Measure both."""
        self._clear()
        self.job(batch_rows)
        self._clear()
        self.baseline(batch_rows)

    def _clear(self) -> None:
        self.database.clear({table.schema for table in self.topic.tables} | {"_ticdc_spark"})

    def job(self, batch_rows: int) -> None:
        """Measure the job."""
        topic, file = self.folder / "ours" / "topic", self.folder / "ours" / "job.toml"
        link_topic(self.topic.before, topic)
        keys = {"topic": topic.absolute(), "kind": self.database.kind, "uri": self.database.uri}
        file.write_text(_JOB.format(batch_rows=500_000, **keys))
        loop.run(load_job(file), once=True)
        link_topic(self.topic.changes, topic)
        file.write_text(_JOB.format(batch_rows=batch_rows, **keys))
        with shown(_OURS, self.found):
            self.changes = loop.run(load_job(file), once=True).changes
        self._check(_OURS)

    def baseline(self, batch_rows: int) -> None:
        """Measure what one would write by hand."""
        topic = self.folder / "theirs" / "topic"
        link_topic(self.topic.before, topic)
        for table in self.topic.tables:
            self.database.create(table)
        source = RecordedTopicSource(self.spark, topic)
        for start, end in list(batches_of(source, {}, 500_000)):
            self._batch(source, start, end)
        loaded = source.end_offsets()
        link_topic(self.topic.changes, topic)
        bounds = list(batches_of(source, loaded, batch_rows))
        with shown(_THEIRS, self.found):
            for start, end in bounds:
                self._batch(source, start, end)
        self._check(_THEIRS)

    def _batch(self, source: RecordedTopicSource, start: Offsets, end: Offsets) -> None:
        envelope = "type string, `table` string, commitTs bigint, data string, old string"
        opened = (
            source.read(start, end)
            .select(sf.from_json(sf.col("value").cast("string"), envelope).alias("m"))
            .select("m.*")
            .where(sf.col("type").isin("INSERT", "UPDATE", "DELETE"))
            .persist(StorageLevel.MEMORY_AND_DISK)
        )
        opened.count()
        try:
            with ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(lambda table: self._stage(opened, table), self.topic.tables))
        finally:
            opened.unpersist()
        self.database.merge(self.topic.tables)

    def _stage(self, opened: Any, table: Table) -> None:
        columns = columns_of(table)
        changes = images_typed(opened.where(sf.col("table") == table.name), table, columns)
        net = newest(changes, columns)
        options = {**self.database.options(table), "truncate": "true", "batchsize": "10000"}
        net.write.format("jdbc").mode("overwrite").options(**options).save()

    def _check(self, name: str) -> None:
        rows, visits = {}, {}
        for table in self.topic.tables:
            rows[table.name], visits[table.name] = self.database.counts(table)
        if (rows, visits) != (self.topic.rows, self.topic.visits):
            raise SystemExit(f"{name}: wrong result: {rows}, {visits}; {self.topic.rows}, {self.topic.visits}")

    def report(self) -> str:
        """The results in Markdown."""
        theirs = self.found[_THEIRS]
        lines = ["| | changes/s | seconds | processor µs a change | beside it, clock | processors |"]
        lines.append("|---|---:|---:|---:|---:|---:|")
        for name, one in self.found.items():
            clock, cpu = theirs.seconds / one.seconds, theirs.cpu / one.cpu
            lines.append(
                f"| {name} | {self.changes / one.seconds:,.0f} | {one.seconds:.1f} "
                f"| {one.cpu / self.changes * 1e6:.1f} | {clock:.2f} | {cpu:.2f} |"
            )
        return "\n".join(lines) + "\n"


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser("benchmarks.databases", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("kind", choices=("postgres", "mysql"))
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--rows", type=int, default=200_000, help="that all tables together have before")
    parser.add_argument("--changes", type=int, default=400_000)
    parser.add_argument("--batch-rows", type=int, default=200_000, help="messages of a batch")
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"), help="where topics are kept")
    arguments = parser.parse_args()
    config = AccountsConfig(
        tables=arguments.tables, rows=arguments.rows, changes=arguments.changes, insert_share=0.2, update_share=0.7
    )
    topic = recorded_accounts(config, arguments.cache)
    first = recorded_accounts(AccountsConfig(rows=20_000, changes=20_000), arguments.cache)
    with started(arguments.kind) as database, tempfile.TemporaryDirectory(prefix="ticdc-bench-") as folder:
        spark = open_session("bench", {"spark.sql.extensions": ""}, [database.driver])
        spark.sparkContext.setLogLevel("ERROR")
        print("warming up", file=sys.stderr)
        Bench(spark, database, first, Path(folder, "first")).run(20_000)
        print("measuring", file=sys.stderr)
        bench = Bench(spark, database, topic, Path(folder, "measured"))
        bench.run(arguments.batch_rows)
    master = str(spark.sparkContext.master)
    print(
        f"{arguments.kind}: {cores(master)} cores ({master}), Spark {pyspark.__version__}, "
        f"Python {platform.python_version()}, batches of {arguments.batch_rows:,} messages, "
        f"{config.tables} tables of {config.rows:,} rows: {bench.changes:,} changes\n"
    )
    print(bench.report())
    spark.stop()


if __name__ == "__main__":
    main()
