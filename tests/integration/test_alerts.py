"""Every alert fires by its fault, and ends by what its runbook says: a real job, a real broker, scraped over HTTP."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.alert_rules import Scraper, page_of
from tests.support.kafka_broker import Broker
from tests.support.local_server import free_port
from tests.support.simple_examples import ENCODER, ROW, USER
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded

JOB = """
[job]
name = "alerts"
poll-interval = "200ms"
commit-interval = "200ms"
retry-for = "10m"
on-reject = "quarantine"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["shop"]
protocol = "simple"
"kafka.reconnect.backoff.max.ms" = "500"
[sink]
kind = "iceberg"
warehouse = "lake"
[metrics]
listen = "127.0.0.1:{port}"
[spark]
"spark.master" = "local[1]"
"spark.driver.memory" = "1g"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
"""
COMMAND = (sys.executable, "-c", "from ticdc_spark.cli import main; main()")


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """One that the test may stop."""
    started = Broker(tmp_path / "kafka")
    started.start()
    try:
        yield started
    finally:
        started.kill()


def test_every_alert_fires_by_its_fault_and_ends_as_its_runbook_says(own_broker: Broker, tmp_path: Path) -> None:
    own_broker.create_topic("shop", config={"retention.ms": str(24 * 60_000)})
    job_file, port = tmp_path / "shop.toml", free_port()
    job_file.write_text(JOB.format(servers=own_broker.servers, port=port))
    scraper = Scraper(page_of(f"http://127.0.0.1:{port}/metrics"))
    send = Sender(own_broker)
    with running(job_file) as first:
        send(ENCODER.bootstrap(USER), row(1, ago(21.0)), ENCODER.watermark(ago(20.0)))
        wait(scraper, {"TicdcSparkLag", "TicdcSparkSourceSilent"})  # The changefeed is paused.
        send(UNREADABLE % ago(19.5), row(2, ago(19.0)), ENCODER.watermark(ago(0.0)))  # It runs again.
        still = {"TicdcSparkDeadLetters", "TicdcSparkTablesStandStill", "TicdcSparkRetention"}
        wait(scraper, still)
        job_file.write_text(job_file.read_text().replace("quarantine", "continue"))
        assert command("resume", job_file, "simple.user") == 0
        wait(scraper, {"TicdcSparkDeadLetters", "TicdcSparkTablesDiverged"})
        assert command("resume", job_file, "simple.user", "--clear-diverged") == 0
        scraper.later += 16 * 60.0
        wait(scraper, set())
        own_broker.stop()
        wait(scraper, {"TicdcSparkConnection"})
        own_broker.start()
        send(ENCODER.watermark(ago(0.0)))
        wait(scraper, set())
        first.kill()
        wait(scraper, {"TicdcSparkDown"})
    with running(job_file):
        send(ENCODER.watermark(ago(0.0)))
        wait(scraper, set())


UNREADABLE = (
    b'{"version":1,"database":"simple","table":"user","tableID":148,"type":"INSERT","commitTs":%d,'
    b'"buildTs":1708923662983,"schemaVersion":447984074911121426,"data":{"age":"old","id":"9"}}'
)


class Sender:
    """Sends messages to the one partition of the topic."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __call__(self, *messages: Encoded | bytes | None) -> None:
        pairs = [(None, one) if isinstance(one, bytes) else (one.key, one.value) for one in messages if one is not None]
        self._broker.produce("shop", pairs)


def ago(minutes: float) -> int:
    """The commitTs of a time."""
    return int((time.time() - 60 * minutes) * 1000) << 18


def row(key: int, commit_ts: int) -> Encoded:
    """An inserted row."""
    change = RowChange(op="insert", commit_ts=commit_ts, table=USER, before=None, after=ROW | {"id": str(key)})
    (found,) = ENCODER.rows([change])
    return found


def wait(scraper: Scraper, wanted: set[str]) -> None:
    """Scrape until exactly these alerts fire."""
    end = time.monotonic() + 90
    while True:
        scraper.scrape()
        if scraper.firing() == wanted:
            return
        assert time.monotonic() < end, f"{scraper.firing()} and not {wanted}"
        time.sleep(0.3)


def command(name: str, *arguments: object) -> int:
    """Run a command; returns its exit code."""
    return subprocess.run([*COMMAND, name, *map(str, arguments)], check=False).returncode


@contextmanager
def running(job_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The job, which is killed in the end."""
    with subprocess.Popen([*COMMAND, "replicate", str(job_file)], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()
