"""A large table is read while its rows change, by a process that is killed on the way; the lake ends as the table.

``--side replicate``: a changefeed sends what changes, and ``replicate`` with a section ``[snapshot]`` reads the table.
``--side changefeed``: a changefeed with ``snapshot = "initial"`` reads and sends it; ``replicate --once`` follows.

MariaDB → changefeed → Kafka → replicate → Iceberg, all on this machine. Whoever reads is killed with SIGKILL whenever
another part of the rows is there. At the end the rows of each million of keys are counted, and their CRCs added up and
xored, in the database and in the lake: a row that is lost, is there twice or has another value is an error. Of each run
are shown: how long it took, and the peak memory of its Python, its JVM and its Python workers.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import pymysql
from tests.integration.circle import process
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server

from benchmarks.measure import Measured, measured
from benchmarks.servers import servers
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.config.load import load_identity, load_job
from ticdc_spark.mysql import tso
from ticdc_spark.operate.status import job_status
from ticdc_spark.replicate.state.store import progress_of
from ticdc_spark.sinks.iceberg.lake import open_lake
from ticdc_spark.spark.session.session import stop_session

TABLE = """CREATE TABLE big.t (id BIGINT PRIMARY KEY, customer INT, amount DECIMAL(12,2), note VARCHAR(100),
created DATETIME)"""
ROWS = """INSERT INTO big.t SELECT seq * 2, seq % 5000, seq * 1.37, CONCAT('order number ', seq),
'2024-03-01 12:00:00' + INTERVAL seq SECOND FROM mysql.seq_{first}_to_{last}"""
CRC = "CRC32(CONCAT_WS('|', id, {customer}, {amount}, {note}, {created}))"
GROUPED = "SELECT id DIV 1000000, COUNT(*), SUM({crc}), BIT_XOR({crc}) FROM {table} GROUP BY 1 ORDER BY 1"
NAMES = ("customer", "amount", "note", "created")
FEED = """
[filter]
rules = ["big.*"]
[sink]
dispatchers = [{{matcher = ["big.*"], partition = "index-value"}}]
[ticdc-spark]
changefeed-id = "feed"
sink-uri = "kafka://{servers}/big?protocol=simple&partition-num=4"
source = "{source}"
snapshot-parallelism = 2
snapshot-chunk-rows = {chunk}
{more}
[ticdc-spark.spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "1g"
"""
JOB = """
[job]
name = "big"
commit-interval = "2s"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["big"]
protocol = "simple"
{more}
[sink]
kind = "iceberg"
warehouse = "lake"
[spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "2g"
"""
_AT_ONCE = 250_000
_PATIENCE = 7200.0


def fill(server: Server, rows: int) -> None:
    """Make the table, of which no binlog tells."""
    ends = [*range(0, rows, _AT_ONCE), rows]
    parts = [ROWS.format(first=first + 1, last=last) for first, last in pairwise(ends)]
    server.execute("SET sql_log_bin = 0", "CREATE DATABASE big CHARACTER SET utf8mb4", TABLE, *parts)


class Writer(Thread):
    """One transaction after the other on random rows, about so many a second, until it is stopped."""

    def __init__(self, server: Server, rows: int, rate: float) -> None:
        super().__init__(daemon=True)
        self._connection = pymysql.connect(host="127.0.0.1", port=server.port, user="root", autocommit=True)
        self._most, self._pause = rows * 2, 1 / rate
        self.over = Event()
        self.done = 0

    def run(self) -> None:
        rand = random.Random(1)
        with self._connection, self._connection.cursor() as cursor:
            while not self.over.wait(self._pause):
                key, other = rand.randrange(self._most), rand.randrange(self._most)
                cursor.execute(
                    rand.choice(
                        (
                            f"INSERT IGNORE INTO big.t (id, customer, note) VALUES ({key}, {other % 97}, 'new')",
                            f"UPDATE big.t SET amount = amount + 1, note = 'new' WHERE id BETWEEN {key} AND {key + 3}",
                            f"DELETE FROM big.t WHERE id BETWEEN {key} AND {key + 1}",
                            f"UPDATE IGNORE big.t SET id = {other} WHERE id = {key & ~1}",
                        )
                    )
                )
                self.done += 1

    def stop(self) -> None:
        self.over.set()
        self.join()


class Way:
    """The servers, the files of both commands, and how far they are."""

    def __init__(self, folder: Path, server: Server, broker: Broker, side: str, chunk: int) -> None:
        self.folder, self.server = folder, server
        self.feed, self.job = folder / "feed.toml", folder / "job.toml"
        initial = 'snapshot = "initial"' if side == "changefeed" else ""
        self.feed.write_text(FEED.format(servers=broker.servers, source=server.uri, chunk=chunk, more=initial))
        upstream = (
            f'[snapshot]\nupstream = "{server.uri}"\nparallelism = 2\nchunk-rows = {chunk}'
            if side == "replicate"
            else ""
        )
        self.job.write_text(JOB.format(servers=broker.servers, more=upstream))

    def started(self) -> bool:
        """Whether the changefeed has noted where it begins."""
        return read_stored(self.folder / "feed.state") is not None

    def sent(self) -> int:
        """Rows that the changefeed has read; -1: all."""
        stored = read_stored(self.folder / "feed.state")
        return 0 if stored is None else stored.reading.total if stored.unread else -1

    def gathered(self) -> int:
        """Rows that ``replicate`` has read; -1: all."""
        progress = progress_of(load_job(self.job))
        for table in () if progress is None else progress.tables:
            if table.load is not None:
                return table.load.gathered
            return -1 if table.origin == "snapshot" else 0
        return 0

    def feed_reached(self, millis: int) -> bool:
        """Whether the changefeed has sent all up to a time, and what is needed to trust what it has read."""
        stored = read_stored(self.folder / "feed.state")
        return stored is not None and not stored.unread and stored.commit_ts > max(tso(millis), stored.reading.settles)

    def lake_reached(self, millis: int) -> bool:
        """Whether the lake has all up to a time, and equals the source by the job's own account."""
        status = job_status(load_identity(self.job))
        (table,) = status.tables
        return status.resolved_ts > tso(millis) and table.condition == "clean"

    def now(self) -> int:
        """Milliseconds of the server's clock."""
        return int(self.server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0][0])


@contextmanager
def shown(folder: Path, name: str, what: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of the commands; what it took is printed at the end."""
    with process(folder / f"{name}.log", name, *arguments) as started, measured(started.pid) as used:
        yield started
    print(f"  {what:34} {used.seconds:7.0f} s   {memory(used)}", flush=True)


def memory(used: Measured) -> str:
    """Peaks in MB."""
    parts = {"Python": used.driver, "JVM": used.jvm, "workers": used.workers}
    return ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in parts.items() if size)


def wait(reached: Callable[[], bool], *those: subprocess.Popen[bytes], folder: Path) -> None:
    """Until something is so. Raises: RuntimeError where a process ends before."""
    deadline = time.monotonic() + _PATIENCE
    while not reached():
        if any(one.poll() is not None for one in those) or time.monotonic() > deadline:
            logs = (path.read_text(errors="replace")[-2000:] for path in folder.glob("*.log"))
            raise RuntimeError("a process ended, or the time is over:\n" + "\n".join(logs))
        time.sleep(0.2)


def killed(way: Way, name: str, file: Path, rows: int, kills: int, done: Callable[[], int]) -> None:
    """Run the command again and again; it is killed whenever another part of the rows is read."""
    rand = random.Random(7)
    for at in range(1, kills + 1):
        with shown(way.folder, name, f"{name} until kill {at}", str(file)) as started:
            wait(partial(_there, done, rows * at // (kills + 1)), started, folder=way.folder)
            time.sleep(rand.uniform(0, 0.5))  # somewhere in the next wave
            started.kill()
        stored = done()
        print(f"    {stored:,} rows were stored", flush=True)
        if stored <= 0:
            raise SystemExit("it was not killed on the way: take more rows")


def _there(done: Callable[[], int], rows: int) -> bool:
    return not 0 <= done() < rows


def read_by_replicate(way: Way, writer: Writer, rows: int, kills: int) -> None:
    """The table by ``replicate``'s full read, its changes by a changefeed."""
    with shown(way.folder, "changefeed", "changefeed (changes)", str(way.feed)) as feed:
        wait(way.started, feed, folder=way.folder)
        writer.start()
        killed(way, "replicate", way.job, rows, kills, way.gathered)
        with shown(way.folder, "replicate", "replicate to the end", str(way.job)) as job:
            began = time.monotonic()
            wait(lambda: way.gathered() < 0, feed, job, folder=way.folder)
            print(f"    all is read after {time.monotonic() - began:.0f} s of this run", flush=True)
            writer.stop()
            millis = way.now()
            wait(lambda: way.lake_reached(millis), feed, job, folder=way.folder)
            job.terminate()
            job.wait(120)
        feed.terminate()
        feed.wait(60)


def read_by_changefeed(way: Way, writer: Writer, rows: int, kills: int) -> None:
    """The table by a changefeed; then everything by ``replicate``."""
    writer.start()
    killed(way, "changefeed", way.feed, rows, kills, way.sent)
    with shown(way.folder, "changefeed", "changefeed to the end", str(way.feed)) as feed:
        began = time.monotonic()
        wait(lambda: way.sent() < 0, feed, folder=way.folder)
        print(f"    all is read after {time.monotonic() - began:.0f} s of this run", flush=True)
        writer.stop()
        millis = way.now()
        wait(lambda: way.feed_reached(millis), feed, folder=way.folder)
        time.sleep(2)  # for the watermark
        feed.terminate()
        feed.wait(60)
    with shown(way.folder, "replicate", "replicate --once", str(way.job), "--once") as job:
        if job.wait():
            raise RuntimeError((way.folder / "replicate.log").read_text()[-3000:])


def check(way: Way) -> int:
    """Compare the lake with the database; gives the rows of both. Raises: SystemExit where they differ"""
    plain = {name: f"IFNULL({name}, '~')" for name in NAMES}
    there = way.server.execute(GROUPED.format(crc=CRC.format(**plain), table="big.t"))
    session = open_lake(way.job)
    try:
        cast = {name: f"COALESCE(CAST({name} AS STRING), '~')" for name in NAMES}
        found = session.sql(GROUPED.format(crc=CRC.format(**cast), table="lake.big.t")).collect()
    finally:
        stop_session(session)
    wanted, got = [tuple(map(int, row)) for row in there], [tuple(map(int, row)) for row in found]
    if wanted != got:
        different = [f"{a} {b}" for a, b in zip(wanted, got, strict=False) if a != b]
        raise SystemExit(f"the lake is not the table: {len(wanted)} and {len(got)} groups, {different[:5]}")
    return sum(row[1] for row in wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rate", type=float, default=100, help="transactions a second meanwhile")
    parser.add_argument("--side", choices=("replicate", "changefeed"), default="replicate")
    parser.add_argument("--folder", type=Path, help="where everything lies; by default where temporary files do")
    options = parser.parse_args()
    more = ("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M")
    with servers(*more, folder=options.folder) as (server, broker, folder):
        began = time.monotonic()
        fill(server, options.rows)
        print(f"{options.rows:,} rows, filled in {time.monotonic() - began:.0f} s; {os.cpu_count()} processors")
        chunk = max(min(options.rows // (options.kills + 1) // 6, 100_000), 1)
        way, writer = Way(folder, server, broker, options.side, chunk), Writer(server, options.rows, options.rate)
        began = time.monotonic()
        try:
            side = read_by_replicate if options.side == "replicate" else read_by_changefeed
            side(way, writer, options.rows, options.kills)
        finally:
            writer.over.set()
        took = time.monotonic() - began
        rows = check(way)
        print(
            f"the lake is the table: {rows:,} rows, killed {options.kills} times, {writer.done:,} transactions "
            f"meanwhile, {took:,.0f} s"
        )


if __name__ == "__main__":
    sys.exit(main())
