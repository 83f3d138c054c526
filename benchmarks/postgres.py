"""A job that catches up in tables of PostgreSQL, beside staging by Spark's JDBC writer and a merge written by hand.

    python -m benchmarks.postgres [--tables 4] [--rows 200000] [--changes 400000] [--batch-rows 200000]

The rows that the tables have before are brought in first and not counted. The baseline opens the messages of a batch
once, has four tables written at a time, and takes the rows over as the job does: DELETE, then INSERT … ON CONFLICT. It
orders nothing across batches, follows no DDL, and cannot be restarted. Processor time includes that of the server.
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
from tests.support.postgres_server import PostgresServer, running_postgres

from benchmarks.accounts import AccountsConfig
from benchmarks.baselines import THREADS, columns_of, images_typed, newest
from benchmarks.job import batches_of, shown
from benchmarks.measure import Measured
from benchmarks.topic import RecordedAccounts, link_topic, recorded_accounts
from ticdc_spark.clients.postgres import connect, connection_options, quoted
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Offsets, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.replicate import loop
from ticdc_spark.sinks.postgres.types import PostgresTypes, definition
from ticdc_spark.spark.session.session import cores, open_session
from ticdc_spark.spark.sources.files import RecordedTopicSource
from ticdc_spark.spark.types import LakeOptions

_DRIVER = "org.postgresql:postgresql:42.7.14"
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
kind = "postgres"
uri = "{uri}"
"""
_OURS, _THEIRS = "ours", "Spark's JDBC writer and a merge"


class Bench:
    """One workload: its topic, the server, what was found."""

    def __init__(self, spark: SparkSession, server: PostgresServer, topic: RecordedAccounts, folder: Path) -> None:
        self.spark, self.server, self.topic, self.folder = spark, server, topic, folder
        self.found: dict[str, Measured] = {}
        self.changes = 0

    def run(self, batch_rows: int) -> None:
        """Measure both."""
        self._clear()
        self.job(batch_rows)
        self._clear()
        self.baseline(batch_rows)

    def _clear(self) -> None:
        for name in {table.schema for table in self.topic.tables} | {"_ticdc_spark"}:
            self.server.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")

    def job(self, batch_rows: int) -> None:
        """Measure the job."""
        topic, file = self.folder / "ours" / "topic", self.folder / "ours" / "job.toml"
        link_topic(self.topic.before, topic)
        file.write_text(_JOB.format(batch_rows=500_000, topic=topic.absolute(), uri=self.server.uri))
        loop.run(load_job(file), once=True)
        link_topic(self.topic.changes, topic)
        file.write_text(_JOB.format(batch_rows=batch_rows, topic=topic.absolute(), uri=self.server.uri))
        with shown(_OURS, self.found):
            self.changes = loop.run(load_job(file), once=True).changes
        self._check(_OURS)

    def baseline(self, batch_rows: int) -> None:
        """Measure what one would write by hand."""
        topic = self.folder / "theirs" / "topic"
        link_topic(self.topic.before, topic)
        for table in self.topic.tables:
            columns = PostgresTypes().columns(table, handle_key(table), LakeOptions())
            made = ", ".join(definition(column) for column in columns)
            keys = ", ".join(quoted(column.name) for column in columns if column.key)
            self.server.execute(
                f"CREATE SCHEMA IF NOT EXISTS {quoted(table.schema)}",
                f"CREATE TABLE {quoted(table.schema)}.{quoted(table.name)} ({made}, PRIMARY KEY ({keys}))",
            )
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
        connection = connect(connection_options(self.server.uri))
        with connection, connection.transaction():
            for table in self.topic.tables:
                for statement in _merge(table):
                    connection.execute(statement)

    def _stage(self, opened: Any, table: Table) -> None:
        columns = columns_of(table)
        changes = images_typed(opened.where(sf.col("table") == table.name), table, columns)
        net = newest(changes, columns)
        net.write.format("jdbc").mode("overwrite").options(
            url=f"jdbc:postgresql://127.0.0.1:{self.server.port}/copies",
            driver="org.postgresql.Driver",
            user="postgres",
            dbtable=f"stage_{table.name}",
            truncate="true",
            batchsize="10000",
            reWriteBatchedInserts="true",
        ).save()

    def _check(self, name: str) -> None:
        rows, visits = {}, {}
        for table in self.topic.tables:
            sql = f"SELECT count(*), coalesce(sum(visits), 0) FROM {quoted(table.schema)}.{quoted(table.name)}"
            rows[table.name], visits[table.name] = (int(number) for number in self.server.execute(sql)[0])
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


def _merge(table: Table) -> list[str]:
    """The statements that take staged rows over."""
    columns = PostgresTypes().columns(table, handle_key(table), LakeOptions())
    target, place = f"{quoted(table.schema)}.{quoted(table.name)}", f"public.stage_{table.name}"
    names = [quoted(column.name) for column in columns]
    keys = [quoted(column.name) for column in columns if column.key]
    on = " AND ".join(f"t.{name} = s.{name}" for name in keys)
    cast = ", ".join(f"{quoted(column.name)}::{column.type.name}" for column in columns)
    update = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name not in keys)
    return [
        f"DELETE FROM {target} t USING {place} s WHERE {on} AND s.type = 'DELETE'",
        (
            f"INSERT INTO {target} ({', '.join(names)}) SELECT {cast} FROM {place} WHERE type <> 'DELETE' "
            f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {update}"
        ),
    ]


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser("benchmarks.postgres", description=(__doc__ or "").split("\n", 1)[0])
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
    spark = open_session("bench", {"spark.sql.extensions": ""}, [_DRIVER])
    spark.sparkContext.setLogLevel("ERROR")
    with running_postgres() as server, tempfile.TemporaryDirectory(prefix="ticdc-bench-") as folder:
        print("warming up", file=sys.stderr)
        Bench(spark, server, first, Path(folder, "first")).run(20_000)
        server.execute(*(f"DROP TABLE IF EXISTS public.stage_{table.name}" for table in first.tables))
        print("measuring", file=sys.stderr)
        bench = Bench(spark, server, topic, Path(folder, "measured"))
        bench.run(arguments.batch_rows)
    master = str(spark.sparkContext.master)
    print(
        f"{cores(master)} cores ({master}), Spark {pyspark.__version__}, Python {platform.python_version()}, "
        f"batches of {arguments.batch_rows:,} messages, {config.tables} tables of {config.rows:,} rows: "
        f"{bench.changes:,} changes\n"
    )
    print(bench.report())
    spark.stop()


if __name__ == "__main__":
    main()
