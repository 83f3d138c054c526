"""How fast a changefeed sends the rows that a table has: MariaDB → tasks → Kafka, all on this machine.

Rows a second from the first range to the last acknowledgement, by the clock and by the processors' time of Python and
the JVM, without server and broker; Spark's start not counted:

- one process: the same ranges one after the other in this process, without Spark.
- 1 task, 2 tasks: on Spark, as many ranges side by side.
- plain Spark: what one would write by hand, JDBC → ``to_json`` → the Kafka sink, in as many ranges, two side by side.
  Its messages are the rows alone, without envelope, schema and filter, in partitions as Kafka's client chooses them.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import NamedTuple

from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, struct, to_json
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server

from benchmarks.binlog import ROWS, TABLE
from benchmarks.measure import processor_seconds
from benchmarks.servers import servers
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.loop import begin
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changefeed.snapshot.plan import PartSent
from ticdc_spark.changefeed.snapshot.reads import TableReads
from ticdc_spark.changefeed.snapshot.rounds import Sender
from ticdc_spark.changefeed.snapshot.send import SendJob, send_part
from ticdc_spark.changefeed.snapshot.tasks import SparkSender
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.spark.session.session import coordinates, open_session, stop_session
from ticdc_spark.topics.kafka_reader import TopicReader

_JDBC = "org.mariadb.jdbc:mariadb-java-client:3.5.3"


class Spent(NamedTuple):
    """What sending rows took: seconds by the clock and of processors."""

    rows: int
    clock: float
    cpu: float


class Here:
    """Sends in this process."""

    def __call__(self, job: SendJob) -> Sequence[PartSent]:
        return [send_part(job, number) for number in range(len(job.parts))]

    def close(self) -> None:
        return


class Bench:
    """The servers, and the table that is read."""

    def __init__(self, server: Server, broker: Broker, folder: Path, rows: int, chunk_rows: int) -> None:
        self.server, self.broker, self.folder = server, broker, folder
        self._rows, self._chunk_rows = rows, chunk_rows
        self._servers = (server.pid, broker.pid)
        self._topics = count(1)

    def fill(self) -> None:
        self.server.execute(
            "CREATE DATABASE bench CHARACTER SET utf8mb4",
            TABLE,
            "CREATE TABLE bench.warm LIKE bench.t",
            ROWS.format(first=1, last=self._rows),
            "INSERT INTO bench.warm SELECT * FROM bench.t LIMIT 4000",
        )

    def feed(self, protocol: str, tasks: int, sender: Sender, table: str) -> Spent:
        """A changefeed's tables as they are."""
        folder = self.folder / f"feed{next(self._topics)}"
        folder.mkdir()
        file = folder / "feed.toml"
        file.write_text(
            f'[filter]\nrules = ["bench.{table}"]\n'
            '[sink]\ndispatchers = [{matcher = ["*.*"], partition = "index-value"}]\n'
        )
        uri = f"kafka://{self.broker.servers}/{folder.name}?protocol={protocol}&partition-num=4"
        feed = load_changefeed(file, uri, {"snapshot": "initial"})
        chunk = self._chunk_rows if table == "t" else 1000
        feed = replace(feed, snapshot=replace(feed.snapshot, parallelism=tasks, chunk_rows=chunk))
        topics = Topics(feed.kafka)
        reads = TableReads(feed, self.server.uri, sender)
        with StateFolder(
            folder / "state", changefeed="bench", target=folder.name, protocol=protocol, source="binlog"
        ) as state:
            begin(BinlogCapture(self.server.uri), state, None, reads)
            topics.facts(folder.name)
            cpu, began = self._cpu(), time.perf_counter()
            rows, _ = reads.finish_round(state, topics, Event(), lambda _: None)
            return Spent(rows, time.perf_counter() - began, self._cpu() - cpu)

    def plain(self, spark: SparkSession, table: str) -> Spent:
        """The same rows by Spark's JDBC source and Kafka sink."""
        topic = self.broker.create_topic(f"plain{next(self._topics)}", 4)
        cpu, began = self._cpu(), time.perf_counter()
        rows = (
            spark.read.format("jdbc")
            .option("url", f"jdbc:mysql://127.0.0.1:{self.server.port}/bench?permitMysqlScheme=true")
            .option("driver", "org.mariadb.jdbc.Driver")
            .option("dbtable", table)
            .option("user", "root")
            .option("password", "")
            .option("fetchsize", "5000")
            .option("partitionColumn", "id")
            .option("lowerBound", "1")
            .option("upperBound", str(self._rows + 1))
            .option("numPartitions", str(max(self._rows // self._chunk_rows, 2)))
            .load()
        )
        messages = rows.select(col("id").cast("string").alias("key"), to_json(struct("*")).alias("value"))
        options = {"kafka.bootstrap.servers": self.broker.servers, "topic": topic}
        messages.write.format("kafka").options(**options).save()
        clock, spent = time.perf_counter() - began, self._cpu() - cpu
        with TopicReader(self.broker.servers, {}) as kafka:
            ends = kafka.places(kafka.partitions([topic]), "end")
        return Spent(sum(ends.values()), clock, spent)

    def _cpu(self) -> float:
        return processor_seconds(without=self._servers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--chunk-rows", type=int, default=25_000)
    parser.add_argument("--protocols", default="simple,canal-json")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {sys.platform}; rows a second: by the clock, of processor time\n")
    with servers() as (server, broker, folder):
        settings = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
        spark = open_session("bench", settings, (*coordinates("kafka"), _JDBC))
        try:
            bench = Bench(server, broker, folder, options.rows, options.chunk_rows)
            bench.fill()
            compare(bench, spark, options)
        finally:
            stop_session(spark)


def compare(bench: Bench, spark: SparkSession, options: argparse.Namespace) -> None:
    """Measure each subject in turn, and print it."""
    some = load_changefeed(None, f"kafka://{bench.broker.servers}/t?protocol=simple", {})
    on_spark = SparkSender(some)  # joins the session
    subjects: dict[str, Callable[[str], Spent]] = {"plain Spark": lambda table: bench.plain(spark, table)}
    for protocol in options.protocols.split(","):
        for tasks in (1, 2):
            named = f"{protocol}, {tasks} task{'s' * (tasks > 1)}"
            subjects[named] = partial(bench.feed, protocol, tasks, on_spark)
        subjects[f"{protocol}, one process"] = partial(bench.feed, protocol, 1, Here())
    for subject in subjects.values():
        subject("warm")
    for _ in range(options.rounds):
        for named, subject in subjects.items():
            spent = subject("t")
            assert spent.rows == options.rows, spent
            print(f"  {named:26} {spent.rows / spent.clock:10,.0f} {spent.rows / spent.cpu:10,.0f}", flush=True)


if __name__ == "__main__":
    main()
