"""The time from a commit in the database to its message, and to the commit that brings it into the lake.

MariaDB → ``changefeed`` (Simple) → Kafka → ``replicate`` → Iceberg, all on this machine; rows are inserted one a
transaction, some transactions a second. A row's message is there when the broker appends it. A row is visible from the
commit of the snapshot that added the file in which it lies (nothing is compacted meanwhile). Both clocks are this
machine's. Once with the defaults of ``replicate``, and once with a short ``commit-interval``.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pymysql
from tests.integration.circle import process

from benchmarks.binlog import TABLE
from benchmarks.changefeed_binlog import MARK, changefeed, read_times
from benchmarks.servers import Servers, servers
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.config.load import load_identity
from ticdc_spark.errors import TicdcSparkError
from ticdc_spark.operate.status import job_status
from ticdc_spark.sinks.iceberg.lake import open_lake
from ticdc_spark.spark.session.session import stop_session

JOB = """
[job]
name = "late"
{more}
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}_bench_t"]
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "lake"
[upkeep]
enabled = false
[spark]
"spark.master" = "local[2]"
"""
SHORT = 'commit-interval = "{}"\npoll-interval = "100ms"'
_PATIENCE = 300.0
VISIBLE = """SELECT row.id, snapshot.committed_at FROM (SELECT id, _file FROM lake.bench.t WHERE id >= {first}) row
JOIN lake.bench.t.entries entry ON entry.data_file.file_path = row._file AND entry.status < 2
JOIN lake.bench.t.snapshots snapshot ON snapshot.snapshot_id = entry.snapshot_id ORDER BY row.id"""


def commit(server_port: int, first: int, count: int, rate: int) -> list[float]:
    """Insert rows, one a transaction; gives when each commit returned, in seconds since the epoch."""
    committed: list[float] = []
    connection = pymysql.connect(host="127.0.0.1", port=server_port, user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        began = time.time()
        for at in range(count):
            ahead = began + at / rate - time.time()
            if ahead > 0:
                time.sleep(ahead)
            cursor.execute(f"INSERT INTO bench.t (id, note) VALUES ({first + at}, '{MARK.format(first)}')")
            committed.append(time.time())
    return committed


def applied(job: Path) -> int:
    """Rows that the job has applied; 0 before it has begun."""
    try:
        return job_status(load_identity(job)).changes
    except TicdcSparkError:
        return 0


def measure(those: Servers, name: str, more: str, seconds: int, rate: int) -> None:
    """Run both commands, warm them up, and print."""
    server, broker, top = those
    server.execute("DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench CHARACTER SET utf8mb4", TABLE)
    folder = top / name
    topic = f"{name}_bench_t"
    broker.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    with changefeed(folder, server, broker, "simple", BinlogCapture(server.uri).begin()):
        job = folder / "job.toml"
        job.write_text(JOB.format(more=more, servers=broker.servers, topic=name))
        with process(folder / "job.log", "replicate", str(job)) as started:
            total = 0
            for length in (2 * seconds, seconds):
                first = total + 1
                committed = commit(server.port, first, length * rate, rate)
                total += len(committed)
                deadline = time.monotonic() + _PATIENCE
                while applied(job) < total:
                    if started.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError((folder / "job.log").read_text()[-3000:])
                    time.sleep(0.2)
            sent = read_times(broker, topic, first, len(committed))
            started.terminate()
            started.wait(120)
    session = open_lake(job)
    try:
        rows = session.sql(VISIBLE.format(first=first)).collect()
    finally:
        stop_session(session)
    assert [int(row[0]) for row in rows] == [*range(first, total + 1)], "every row lies in one file"
    seen = [row[1].timestamp() for row in rows]
    reached = len(committed) / (committed[-1] - committed[0])
    print(f"  {name}: {len(committed):,} commits at {reached:,.0f} a second, {len(set(seen))} commits of the lake")
    show("message", committed, sent)
    show("lake", committed, seen)


def show(what: str, committed: Sequence[float], there: Sequence[float]) -> None:
    """Print how late it was."""
    late = sorted((at - before) * 1000 for before, at in zip(committed, there, strict=True))
    p50, p99 = (late[int(len(late) * part)] for part in (0.5, 0.99))
    print(f"    commit → {what:8} {p50:8,.0f} {p99:8,.0f} {late[-1]:8,.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rate", type=int, default=1000, help="commits a second")
    parser.add_argument("--commit-interval", default="1s", help="the short one")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {sys.platform}; p50, p99, largest, in milliseconds\n")
    with servers() as those:
        measure(those, "defaults", "", options.seconds, options.rate)
        measure(those, "short", SHORT.format(options.commit_interval), options.seconds, options.rate)


if __name__ == "__main__":
    main()
