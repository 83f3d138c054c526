"""Every alert fires by its fault, and ends by what its runbook says: a real job, a real broker, scraped over HTTP."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.support.alert_rules import Scraper, page_of, wait
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
"kafka.default.api.timeout.ms" = "5000"
"kafka.request.timeout.ms" = "5000"
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


@pytest.mark.slow
def test_files_that_are_gone_stop_maintenance_until_they_are_back(own_broker: Broker, tmp_path: Path) -> None:
    own_broker.create_topic("shop")
    job_file, port = tmp_path / "shop.toml", free_port()
    upkeep = '[upkeep]\ninterval = "1s"\nsmall-files = 5\n'
    job_file.write_text(JOB.format(servers=own_broker.servers, port=port) + upkeep)
    scraper, send = Scraper(page_of(f"http://127.0.0.1:{port}/metrics")), Sender(own_broker)
    stop = threading.Event()

    def change() -> None:
        """A new row again and again, so that the table needs its upkeep."""
        send(ENCODER.bootstrap(USER))
        for key in count(1):
            if stop.wait(1.0):
                return
            send(row(key, ago(0.0)), ENCODER.watermark(ago(0.0)))

    changes = threading.Thread(target=change)
    with running(job_file):
        changes.start()
        try:
            data = tmp_path / "lake" / "simple"
            until(lambda: any(data.rglob("*.parquet")))
            lost = next(data.rglob("*.parquet"))
            lost.rename(tmp_path / "backup")
            wait(scraper, {"TicdcSparkMaintenanceFails"}, 300)
            (tmp_path / "backup").rename(lost)
            done = tally(scraper, "done")
            until(lambda: tally(scraper, "done") > done)
            scraper.later += 6 * 3600.0
            wait(scraper, set())
        finally:
            stop.set()
            changes.join()


UNREADABLE = (
    b'{"version":1,"database":"simple","table":"user","tableID":148,"type":"INSERT","commitTs":%d,'
    b'"buildTs":1708923662983,"schemaVersion":447984074911121426,"data":{"age":"old","id":"9"}}'
)


class Sender:
    """Sends messages to the one partition of a topic."""

    def __init__(self, broker: Broker, topic: str = "shop") -> None:
        self._broker, self._topic = broker, topic

    def __call__(self, *messages: Encoded | bytes | None) -> None:
        pairs = [(None, one) if isinstance(one, bytes) else (one.key, one.value) for one in messages if one is not None]
        self._broker.produce(self._topic, pairs)


def ago(minutes: float) -> int:
    """The commitTs of a time."""
    return int((time.time() - 60 * minutes) * 1000) << 18


def row(key: int, commit_ts: int) -> Encoded:
    """An inserted row."""
    change = RowChange(op="insert", commit_ts=commit_ts, table=USER, before=None, after=ROW | {"id": str(key)})
    (found,) = ENCODER.rows([change])
    return found


def tally(scraper: Scraper, result: str) -> float:
    """How often upkeep has ended like this."""
    scraper.scrape()
    found = scraper.found[-1][1].get("ticdc_spark_replicate_maintenance_total", {})
    return sum(value for labels, value in found.items() if ("result", result) in labels)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def command(name: str, *arguments: object) -> int:
    """Run a command; returns its exit code."""
    return subprocess.run([*COMMAND, name, *map(str, arguments)], check=False).returncode


@contextmanager
def running(job_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The job, which is killed in the end."""
    command = [*COMMAND, "replicate", str(job_file)]
    with (job_file.parent / "log").open("ab") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()
