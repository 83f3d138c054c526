"""A binlog to acknowledged messages: a changefeed in each protocol beside Debezium's own connector on Kafka Connect.

Both read the same rows of the same MariaDB, which are there before they start, and write to the same broker, all on
this machine. What is measured is the process alone, without server and broker, from a fifth of the messages on (the
start of a JVM and the warming up of its compiler are mostly before) to the last: rows a second by the clock, and by the
processors' time of the process, all threads, its compiler and garbage collection included. Debezium is first and last.

With ``--latency``: 1,000 commits a second of a row each; from the commit's return to the time at which the broker
appends the message (its clock is this machine's).
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pymysql
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, TopicPartition
from msgspec.structs import replace
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from tests.support.native_debezium import PROBE, Connectors

from benchmarks.binlog import TABLE, fill
from benchmarks.servers import servers
from ticdc_spark.capture.base import CaptureState
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.changefeed.progress import StateFolder

FEEDS = {
    "simple": "simple",
    "open-protocol": "open-protocol",
    "canal-json": "canal-json&enable-tidb-extension=true",
    "avro": "avro&enable-tidb-extension=true",
    "debezium": "debezium",
    "debezium, no schema": "debezium&debezium-disable-schema=true",
    "debezium-avro": "debezium-avro",
}
_SETTINGS = {"tombstones.on.delete": "false", "topic.creation.default.message.timestamp.type": "LogAppendTime"}
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_BARE = {
    "key.converter": _JSON,
    "value.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
NATIVE = {"native": _SETTINGS, "nativebare": {**_SETTINGS, **_BARE}}
LABELS = {"native": "Debezium", "nativebare": "Debezium, no schema"}
FEED = """[filter]
rules = ["bench.*"]
[sink]
dispatchers = [{{matcher = ["*.*"], topic = "{topic}_{{schema}}_{{table}}"}}]
[ticdc-spark]
changefeed-id = "bench"
sink-uri = "kafka://{servers}/{topic}?protocol={protocol}&partition-num=1{registry}"
source = "{source}"
state = "state"
"""
MARK = "a row that is timed with {} and what follows"
_QUIET = 5.0
_LONG = 120.0
_FEW = 10
"""Messages that may be watermarks of the quiet seconds."""
_WARM = 0.2


class Sample(NamedTuple):
    """How far a process is at a moment."""

    clock: float
    cpu: float
    messages: int


def cpu(pid: int) -> float:
    """Seconds of the processors' time that a process has used, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_offset(consumer: Consumer, topic: str) -> int:
    """How many messages a topic's one partition has; 0 if there is no such topic yet."""
    if topic not in consumer.list_topics(timeout=10).topics:
        return 0
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
    except KafkaException:  # it is being made
        return 0


def watched(broker: Broker, topic: str, pid: int) -> tuple[float, float, int]:
    """Seconds by the clock and of processors, and messages, of the part that is measured; ends when it is quiet."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "bench"})
    first = end_offset(consumer, topic)
    samples = [Sample(time.monotonic(), cpu(pid), 0)]
    while not done(samples):
        time.sleep(0.02)
        samples.append(Sample(time.monotonic(), cpu(pid), end_offset(consumer, topic) - first))
    consumer.close()
    total = samples[-1].messages - _FEW
    warm, last = (next(one for one in samples if one.messages >= total * part) for part in (_WARM, 1))
    return last.clock - warm.clock, last.cpu - warm.cpu, samples[-1].messages


def done(samples: list[Sample]) -> bool:
    """Whether only watermarks have come for some seconds, or nothing for long: then the process has failed."""
    last = samples[-1]
    before = next((one for one in reversed(samples) if last.clock - one.clock > _QUIET), None)
    if last.clock - samples[0].clock > _LONG and last.messages <= _FEW:
        raise RuntimeError("nothing comes")
    return before is not None and before.messages > _FEW and last.messages - before.messages <= _FEW


@contextmanager
def changefeed(folder: Path, server: Server, broker: Broker, protocol: str, state: CaptureState) -> Iterator[int]:
    """A changefeed that goes on from a state; gives the process's id."""
    folder.mkdir()
    registry = f"&schema-registry=file:{folder / 'schemas.json'}" if "avro" in protocol.partition("&")[0] else ""
    file = folder / "feed.toml"
    file.write_text(
        FEED.format(topic=folder.name, servers=broker.servers, protocol=protocol, registry=registry, source=server.uri)
    )
    name = protocol.partition("&")[0]
    with StateFolder(
        folder / "state", changefeed="bench", target=folder.name, protocol=name, source="binlog"
    ) as opened:
        opened.save(state, {}, 0)
    command = [sys.executable, "-c", "from ticdc_spark.cli import main; main()", "changefeed", str(file)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process.pid
        except BaseException:
            print((folder / "log").read_text()[-2000:], file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait(60)


def compare(server: Server, broker: Broker, folder: Path, rows: int, at_once: int, feeds: list[str]) -> None:
    """Measure each protocol and Debezium on the same rows, and print them."""
    connect = {}
    for name, settings in NATIVE.items():
        made = Connectors(folder / f"{name}-{at_once}", server, broker, {f"{name}{at_once}": settings}, "bench")
        made.start()
        made.stop()
        shutil.copytree(made.folder, folder / f"{name}-{at_once}-begun", symlinks=True)
        connect[name] = made
    state = fill(server, rows, at_once)
    events = rows * 2

    def debezium(name: str) -> None:
        made = connect[name]
        for kept in (folder / f"{name}-{at_once}-begun").iterdir():
            if kept.is_file() and kept.suffix not in (".properties", ".log"):
                shutil.copy(kept, made.folder / kept.name)
        pid = made.launch()
        try:
            show(LABELS[name], events, watched(broker, f"{name}{at_once}.bench.t", pid))
        finally:
            made.stop()

    print(f"{at_once} rows a transaction, {events:,} row changes", flush=True)
    for name in NATIVE:
        debezium(name)
    for at, name in enumerate(feeds):
        topic = f"feed{at_once}-{at}"
        with changefeed(folder / topic, server, broker, FEEDS[name], state) as pid:
            show(name, events, watched(broker, f"{topic}_bench_t", pid))
    for name in NATIVE:
        debezium(name)


def show(name: str, events: int, measured: tuple[float, float, int]) -> None:
    """Print rows a second; a message may have several rows."""
    clock, processors, messages = measured
    part = events * (1 - _WARM)
    print(f"  {name:24} {part / clock:10,.0f} {part / processors:10,.0f}   {messages:,} messages", flush=True)


def latency(server: Server, broker: Broker, folder: Path, seconds: int, rate: int) -> None:
    """From a commit's return to its message in the broker, milliseconds."""
    server.execute("DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench CHARACTER SET utf8mb4", TABLE)
    state = BinlogCapture(server.uri).begin()
    print(f"latency at {rate} commits a second, {seconds} s: p50, p99, largest (ms); commits a second reached")

    def debezium(settings: dict[str, str], name: str) -> None:
        made = Connectors(folder / name, server, broker, {name: {**_SETTINGS, **settings}}, "bench")
        made.start()
        try:
            measure_latency(server, broker, f"{name}.bench.t", seconds, rate)
        finally:
            made.stop()

    subjects: dict[str, Callable[[], None]] = {
        "Debezium": lambda: debezium({}, "late"),
        "Debezium, poll.interval.ms=10": lambda: debezium({"poll.interval.ms": "10"}, "latequick"),
    }
    for label, subject in subjects.items():
        print(f"  {label:32}", end="", flush=True)
        subject()
    for name in ("simple", "debezium"):
        topic = f"late-{name}"
        broker.create_topic(f"{topic}_bench_t", 1, {"message.timestamp.type": "LogAppendTime"})
        print(f"  {name:32}", end="", flush=True)
        now = BinlogCapture(server.uri).begin()
        with changefeed(folder / topic, server, broker, FEEDS[name], replace(now, tables=state.tables)):
            time.sleep(5)
            measure_latency(server, broker, f"{topic}_bench_t", seconds, rate)


def measure_latency(server: Server, broker: Broker, topic: str, seconds: int, rate: int) -> None:
    """Commit for some seconds, wait for the messages, and print; the same before, so that all are warm."""
    timed(server, broker, topic, 2 * seconds, rate)
    late, reached = timed(server, broker, topic, seconds, rate)
    p99 = late[int(len(late) * 0.99)]
    print(f"{statistics.median(late):8.0f} {p99:8.0f} {late[-1]:8.0f}   {reached:8,.0f}", flush=True)


def timed(server: Server, broker: Broker, topic: str, seconds: int, rate: int) -> tuple[list[float], float]:
    """How long each message took, the shortest first, and how many commits a second there were."""
    first = 1 + (server.execute("SELECT MAX(id) FROM bench.t")[0][0] or 0)
    committed: list[float] = []
    connection = pymysql.connect(host="127.0.0.1", port=server.port, user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        began = time.time()
        for at in range(seconds * rate):
            ahead = began + at / rate - time.time()
            if ahead > 0:
                time.sleep(ahead)
            cursor.execute(f"INSERT INTO bench.t (id, note) VALUES ({first + at}, '{MARK.format(first)}')")
            committed.append(time.time())
    arrived = read_times(broker, topic, first, len(committed))
    late = sorted((there - at) * 1000 for at, there in zip(committed, arrived, strict=True))
    return late, len(committed) / (committed[-1] - committed[0])


def read_times(broker: Broker, topic: str, first: int, count: int) -> list[float]:
    """When the broker appended each of the last messages with rows, in their order; waits for them."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "bench", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[float] = []
    mark = MARK.format(first).encode()
    deadline = time.monotonic() + 120
    while len(found) < count and time.monotonic() < deadline:
        for one in consumer.consume(5000, timeout=1):
            if one.error() is None and mark in (one.value() or b""):
                kind, at = one.timestamp()
                assert kind == TIMESTAMP_LOG_APPEND_TIME
                found.append(at / 1000)
    consumer.close()
    assert len(found) == count, (len(found), count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000, help="inserted; each is then updated or deleted")
    parser.add_argument("--feeds", default=";".join(FEEDS), help="protocols, separated by semicolons")
    parser.add_argument("--shapes", default="1000,1", help="rows a transaction")
    parser.add_argument("--latency", type=int, default=0, help="seconds; then only latency is measured")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {sys.platform}; rows a second: by the clock, of processor time\n")
    with servers() as (server, broker, folder):
        server.execute("CREATE DATABASE bench", f"CREATE DATABASE IF NOT EXISTS {PROBE}")
        if options.latency:
            latency(server, broker, folder, options.latency, 1000)
            return
        feeds = [one for one in FEEDS if one in options.feeds.split(";")]
        for shape in map(int, options.shapes.split(",")):
            compare(server, broker, folder, options.rows // (4 if shape == 1 else 1), shape, feeds)


if __name__ == "__main__":
    main()
