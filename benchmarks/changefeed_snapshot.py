"""How fast a changefeed sends the rows that a table has: MariaDB → tasks → Kafka, all on this machine.

Rows a second from the first range to the last acknowledgement, server and broker included, Spark's start not:

- one process: the same ranges one after the other in this process, without Spark.
- 1 task, 2 tasks: on Spark, as many ranges side by side.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Event

from msgspec.structs import replace
from tests.integration.binlog_stream import OPTIONS
from tests.kafka_broker import Broker
from tests.mariadb_server import Server, running

from benchmarks.binlog import ROWS, TABLE
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

FEED = '[filter]\nrules = ["{rules}"]\n[sink]\ndispatchers = [{{matcher = ["*.*"], partition = "index-value"}}]\n'


class Here:
    """Sends in this process."""

    def __call__(self, job: SendJob) -> Sequence[PartSent]:
        return [send_part(job, number) for number in range(len(job.parts))]

    def close(self) -> None:
        return


def measure(
    server: Server, broker: Broker, folder: Path, protocol: str, tasks: int, chunk_rows: int, rules: str, sender: Sender
) -> tuple[int, float]:
    """Rows that were sent, and seconds."""
    folder.mkdir()
    file = folder / "feed.toml"
    file.write_text(
        f'[filter]\nrules = ["{rules}"]\n[sink]\ndispatchers = [{{matcher = ["*.*"], partition = "index-value"}}]\n'
    )
    uri = f"kafka://{broker.servers}/{folder.name}?protocol={protocol}&partition-num=4"
    feed = load_changefeed(file, uri, {"snapshot": "initial"})
    feed = replace(feed, snapshot=replace(feed.snapshot, parallelism=tasks, chunk_rows=chunk_rows))
    topics = Topics(feed.kafka)
    reads = TableReads(feed, server.uri, sender)
    with StateFolder(folder / "state", changefeed="bench", target=folder.name, source="binlog") as state:
        begin(BinlogCapture(server.uri), state, None, reads)
        topics.facts(folder.name)
        began = time.perf_counter()
        rows, _ = reads.finish_round(state, topics, Event(), lambda _: None)
        return rows, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--chunk-rows", type=int, default=25_000)
    parser.add_argument("--protocols", default="simple,canal-json")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {sys.platform}; rows a second\n")
    with tempfile.TemporaryDirectory() as name, running(Path(name) / "m", *OPTIONS) as server:
        folder = Path(name)
        broker = Broker(folder / "kafka")
        broker.start()
        try:
            server.execute("CREATE DATABASE bench CHARACTER SET utf8mb4", TABLE, "CREATE TABLE bench.warm LIKE bench.t")
            server.execute(
                ROWS.format(first=1, last=options.rows), "INSERT INTO bench.warm SELECT * FROM bench.t LIMIT 4000"
            )
            subjects = {"one process": (1, None), "1 task": (1, "local[1]"), "2 tasks": (2, "local[2]")}
            for subject, (tasks, master) in subjects.items():
                some = load_changefeed(None, f"kafka://{broker.servers}/t?protocol=simple", {})
                spark = {"spark.master": master or "", "spark.driver.memory": "1g"}
                sender = SparkSender(replace(some, snapshot=replace(some.snapshot, spark=spark))) if master else Here()
                with closing(sender):
                    for protocol in options.protocols.split(","):
                        where = folder / f"{subject.replace(' ', '-')}-{protocol}"
                        few = where.with_name(f"{where.name}-warm")
                        measure(server, broker, few, protocol, tasks, 1000, "bench.warm", sender)
                        rows, seconds = measure(
                            server, broker, where, protocol, tasks, options.chunk_rows, "bench.t", sender
                        )
                        assert rows == options.rows, rows
                        print(f"  {subject:14} {protocol:12} {rows / seconds:10,.0f}", flush=True)
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
