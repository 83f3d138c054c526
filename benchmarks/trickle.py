"""``make bench-trickle``: what a job costs while little comes, and when its changes are visible.

    python -m benchmarks.trickle [--rate 50] [--tables 3] [--seconds 600] [--commit-interval 10s]

A broker, and a job of its own process over it. A change's commit_ts is the time at which it is sent; it is visible from
the first snapshot of its table that has it. The first minute, in which the JVM warms up, is not counted; nor is what is
older than upkeep leaves every snapshot of.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from confluent_kafka import Producer
from tests.support.kafka_broker import Broker

from benchmarks.accounts import Accounts, AccountsConfig
from benchmarks.measure import processor_seconds, resident_of
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Bootstrap, Change, RowChange, SchemaChange, Watermark
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.sinks.iceberg.lake import open_lake
from ticdc_spark.sinks.iceberg.stamps import MARK

JOB = """\
[job]
name = "trickle"
commit-interval = "{interval}"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["accounts"]
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "lake"
"""
PARTITIONS = 2
WARM_UP = 60.0
EVERY_SNAPSHOT = 25 * 60.0
"""Seconds back from the end within which upkeep, which keeps all of half an hour, has removed no snapshot."""


class Clock:
    """Timestamps of now, which always rise."""

    def __init__(self) -> None:
        self.latest = 0

    def __call__(self) -> int:
        self.latest = max(self.latest + 1, int(time.time() * 1000) << 18)
        return self.latest


class Feed:
    """Sends changes at a rate, and a watermark a second, until it is stopped."""

    def __init__(self, servers: str, config: AccountsConfig, rate: float) -> None:
        self.clock = Clock()
        self.accounts = Accounts(config, self.clock)
        self.sent: dict[str, list[int]] = {table.name: [] for table in self.accounts.tables}
        """The commit_ts of changes, by table."""
        self._rate = rate
        self._encoder = encoder(SimpleConfig())
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for change in self.accounts.before():
            self._send(change)
        self._producer.flush()

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        began = marked = time.monotonic()
        count = 0
        while not self._stop.wait(0.01):
            now = time.monotonic()
            while count < (now - began) * self._rate:
                count += 1
                change = self.accounts.change()
                self._send(change)
                if isinstance(change, RowChange):
                    self.sent[change.table.name].append(change.commit_ts)
            if now - marked >= 1.0:
                marked = now
                self._send(Watermark(self.clock()))
            self._producer.poll(0)
        self._producer.flush()

    def _send(self, change: Change) -> None:
        for partition, encoded in self._messages(change):
            self._producer.produce("accounts", value=encoded.value, key=encoded.key, partition=partition)

    def _messages(self, change: Change) -> Iterator[tuple[int, Encoded]]:
        match change:
            case RowChange():
                row = change.after or change.before or {}
                (encoded,) = self._encoder.rows([change])
                yield crc32(str(row["id"]).encode()) % PARTITIONS, encoded
            case Watermark():
                yield from self._everywhere(self._encoder.watermark(change.commit_ts))
            case Bootstrap():
                yield from self._everywhere(self._encoder.bootstrap(change.table))
            case SchemaChange():
                yield from self._everywhere(self._encoder.ddl(change))

    def _everywhere(self, encoded: Encoded | None) -> Iterator[tuple[int, Encoded]]:
        if encoded is not None:
            for partition in range(PARTITIONS):
                yield partition, encoded


class Sample(NamedTuple):
    """A job at a moment."""

    at: float
    cpu: float
    memory: int


class Commit(NamedTuple):
    """A snapshot: the commit_ts up to which it has changes, and when it was made, in ms since the epoch."""

    mark: int
    ms: int


def watch(job: subprocess.Popen[bytes], seconds: float) -> list[Sample]:
    """A sample every five seconds. Raises SystemExit if the job ends."""
    samples: list[Sample] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        samples.append(Sample(time.monotonic(), processor_seconds(job.pid), resident_of(job.pid)))
        if job.poll() is not None:
            raise SystemExit(f"the job ended: {job.returncode}")
        time.sleep(5)
    return samples


def latencies(sent: list[int], commits: list[Commit], since_ms: int) -> list[float]:
    """Seconds from a change to the snapshot that has it; changes that no snapshot has are left out."""
    marks = [commit.mark for commit in commits]
    found = []
    for ts in sent:
        at = bisect_left(marks, ts)
        if ts >> 18 >= since_ms and at < len(commits):
            found.append((commits[at].ms - (ts >> 18)) / 1000)
    return found


def report(job_file: Path, feed: Feed, samples: list[Sample], since_ms: int) -> str:
    """The results in Markdown."""
    since_ms = max(since_ms, int((time.time() - EVERY_SNAPSHOT) * 1000))
    session = open_lake(load_job(job_file))
    session.sparkContext.setLogLevel("ERROR")
    seen: list[float] = []
    shapes = []
    for table in feed.accounts.tables:
        name = f"lake.`{table.schema}`.`{table.name}`"
        rows = session.sql(f"SELECT summary['{MARK}'], unix_millis(committed_at) FROM {name}.snapshots").collect()
        commits = sorted(Commit(int(mark.split(":")[0]), ms) for mark, ms in rows if mark)
        files = session.sql(f"SELECT count(*) FROM {name}.files").collect()[0][0]
        shapes.append(f"{len(rows)} snapshots and {files} files")
        seen += latencies(feed.sent[table.name], commits, since_ms)
    first = next(sample for sample in samples if sample.at - samples[0].at >= WARM_UP)
    last = samples[-1]
    minutes = (last.at - first.at) / 60
    memory = [f"{sample.memory >> 20:,} MB" for sample in _each(samples, first.at)]
    cuts = statistics.quantiles(seen, n=100)
    lines = [
        f"- {len(seen)} changes in {minutes:.1f} minutes; visible after {cuts[49]:.1f} s (p50), {cuts[98]:.1f} s (p99)",
        f"- {(last.cpu - first.cpu) / (last.at - first.at):.2f} of a core",
        f"- memory, every ten minutes: {', '.join(memory)}",
        f"- a table has {', '.join(shapes)}",
    ]
    return "\n".join(lines)


def _each(samples: list[Sample], since: float) -> list[Sample]:
    """One sample for each ten minutes, and the last."""
    found = []
    for sample in samples:
        if sample.at >= since + 600 * len(found):
            found.append(sample)
    return [*found, samples[-1]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.trickle", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rate", type=float, default=50, help="changes a second")
    parser.add_argument("--tables", type=int, default=3)
    parser.add_argument("--rows", type=int, default=3000, help="that all tables together have before")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--commit-interval", default="10s")
    parser.add_argument("--more", default="", help="further lines of the job file, behind [sink]")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark and print it."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="ticdc-bench-") as folder:
        broker = Broker(Path(folder, "kafka"), java_options=())
        broker.start()
        process = None
        try:
            broker.create_topic("accounts", PARTITIONS)
            feed = Feed(broker.servers, AccountsConfig(tables=arguments.tables, rows=arguments.rows), arguments.rate)
            job_file = Path(folder, "job.toml")
            text = JOB.format(interval=arguments.commit_interval, servers=broker.servers)
            job_file.write_text(text + arguments.more.replace("\\n", "\n"))
            command = [str(Path(sys.executable).with_name("ticdc-spark")), "replicate", str(job_file)]
            with feed:
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
                since_ms = int((time.time() + WARM_UP) * 1000)
                samples = watch(process, arguments.seconds)
            process.terminate()
            process.wait(120)
            print(f"{arguments.rate:g} changes/s, {arguments.tables} tables, {arguments.commit_interval}:\n")
            print(report(job_file, feed, samples, since_ms))
        finally:
            if process is not None:
                process.kill()
            broker.stop()


if __name__ == "__main__":
    main()
