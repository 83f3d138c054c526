"""A job goes from a lost machine to its standby: every change is there once, whatever the former owner still tries.

A machine of its own is a namespace of processes, as a container has one: neither can see the processes of the other.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.mysql_member import read_table
from tests.integration.test_alerts import row
from tests.support.job_state import read
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from tests.support.simple_examples import ENCODER, USER
from ticdc_spark.config.load import load_identity
from ticdc_spark.operate.status import job_status
from ticdc_spark.replicate.state.owner import COMMIT_WINDOW, TTL
from ticdc_spark.sinks.iceberg import lake

UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
JOB = """
[job]
name = "shop"
poll-interval = "200ms"
commit-interval = "200ms"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
protocol = "simple"
[sink]
{sink}
[[history]]
tables = ["*.*"]
target = "old.{{table}}"
[spark]
"spark.master" = "local[1]"
"spark.driver.memory" = "1g"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
"""
BEGIN = 447984084414103554
EVERY = 0.2
"""Seconds between two rows."""


def can_unshare() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run([*UNSHARE, "true"], check=False).returncode


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_unshare(), reason="this machine gives no namespaces of processes"),
]


@pytest.mark.parametrize(("kind", "loss"), [("iceberg", "killed"), ("iceberg", "suspended"), ("mysql", "suspended")])
def test_the_standby_of_a_lost_machine_has_every_change_once(
    broker: Broker, topic_name: str, target: Server, spark: SparkSession, tmp_path: Path, kind: str, loss: str
) -> None:
    target.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in ("simple", "old", "_ticdc_spark")))
    sink = f'kind = "iceberg"\nwarehouse = "{tmp_path / "lake"}"'
    if kind == "mysql":
        sink = f'kind = "mysql"\nuri = "{target.uri}"'
    broker.create_topic(topic_name)
    text = JOB.format(servers=broker.servers, topic=topic_name, sink=sink)
    owner, standby = (Machine(tmp_path / name, text) for name in ("owner", "standby"))
    with rows_sent(broker, topic_name) as sent, owner.running() as first:
        until(lambda: changes(owner) > 20)
        with standby.running() as early:
            assert early.wait(120) == 4, standby.log()
        assert f"watching for {TTL + COMMIT_WINDOW:.0f} s" in standby.log()
        lost = read(owner.job_file).held
        assert lost is not None
        if loss == "killed":
            first.kill()  # and with it every process of the machine
        else:
            signalled(first.pid, signal.SIGSTOP)
        since = time.monotonic()
        with standby.running() as second:
            until(lambda: epoch(standby) > lost.epoch, lambda: second.poll() is None)
            assert time.monotonic() - since >= TTL + COMMIT_WINDOW, "the owner may still have committed"
            taken = changes(standby)
            until(lambda: changes(standby) > taken, lambda: second.poll() is None)
            if loss == "suspended":
                signalled(first.pid, signal.SIGCONT)
                assert first.wait(120) == 4, owner.log()
                assert "this process stops and writes nothing more" in owner.log()
            assert epoch(standby) == lost.epoch + 1
            last = sent()
            until(
                lambda: job_status(load_identity(standby.job_file)).resolved_ts >= last, lambda: second.poll() is None
            )
            signalled(second.pid, signal.SIGTERM)
            assert second.wait(120) == 0, standby.log()
    times = list(range(BEGIN + 1, last + 1))
    history, mirror = ("old", "user"), ("simple", "user")
    if kind == "mysql":
        found, rows = read_table(target, history), read_table(target, mirror)
    else:
        session = lake.open_lake(standby.job_file)
        found, rows = (lake.read_table(session, name).to_pylist() for name in (history, mirror))
    assert sorted(int(one["_tidb_commit_ts"]) for one in found) == times
    assert sorted(one["id"] for one in rows) == [at - BEGIN for at in times]


class Machine:
    """A folder with the job file, and the processes that run there."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir()
        self.job_file = folder / "job.toml"
        self.job_file.write_text(text)
        self._log = folder / "log"

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The job, on this machine, which ends with the context."""
        command = [*UNSHARE, sys.executable, "-c", "from ticdc_spark.cli import main; main()"]
        with (
            self._log.open("ab") as log,
            subprocess.Popen([*command, "replicate", self.job_file.name], cwd=self.job_file.parent, stderr=log) as job,
        ):
            try:
                yield job
            finally:
                signalled(job.pid, signal.SIGCONT)
                job.kill()


@contextmanager
def rows_sent(broker: Broker, topic: str) -> Iterator[Callable[[], int]]:
    """Send a row and a watermark again and again. Gives what ends it and returns the last commitTs."""
    times, stop, last = count(BEGIN + 1), threading.Event(), [BEGIN]

    def send() -> None:
        first = ENCODER.bootstrap(USER)
        assert first is not None
        broker.produce(topic, [(first.key, first.value)])
        while not stop.wait(EVERY):
            at = next(times)
            mark = ENCODER.watermark(at + 1)  # every row below it has come
            assert mark is not None
            broker.produce(topic, [(one.key, one.value) for one in (row(at - BEGIN, at), mark)])
            last[0] = at

    sender = threading.Thread(target=send)

    def end() -> int:
        stop.set()
        sender.join()
        return last[0]

    sender.start()
    try:
        yield end
    finally:
        end()


def signalled(root: int, number: signal.Signals) -> None:
    """Send a signal to every process of a machine, or to its job alone if it is to end."""
    found = descendants(root)
    for pid in found[:1] if number == signal.SIGTERM else found:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def descendants(root: int) -> list[int]:
    """The processes that a process has started, and those that they have, the oldest first."""
    found = [root]
    for pid in found:
        try:
            threads = [*Path(f"/proc/{pid}/task").iterdir()]
            found += [int(child) for one in threads for child in (one / "children").read_text().split()]
        except OSError:
            continue
    return found[1:]


def changes(machine: Machine) -> int:
    return job_status(load_identity(machine.job_file)).changes


def epoch(machine: Machine) -> int:
    held = read(machine.job_file).held
    assert held is not None
    return held.epoch


def until(holds: Callable[[], bool], lives: Callable[[], bool] = lambda: True) -> None:
    end = time.monotonic() + 300
    while not holds():
        assert lives(), "it has ended"
        assert time.monotonic() < end
        time.sleep(0.3)
