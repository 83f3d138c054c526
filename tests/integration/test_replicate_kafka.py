"""``replicate`` against a real broker, as its users run it: what comes and goes while it runs, and how it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.support.job_state import read
from tests.support.kafka_broker import Broker
from tests.workload import Truth, WorkloadConfig, dispatch, generate
from tests.workload.compare import compare
from ticdc_spark.config.load import load_identity
from ticdc_spark.model import Message
from ticdc_spark.operate.status import JobStatus, job_status
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate.state.processes import process

WORKLOAD = WorkloadConfig(
    seed=11,
    changes=1500,
    ddl_every=60,
    ddl_actions=("create_table", "drop_table", "rename_table", "add_column"),
    watermark_every=15,
    topic_per_table=True,
    partitions=2,
    duplicates=0.02,
)
REAL_PARTITIONS = 3
"""One more than TiCDC uses: the last gets no message at all."""
JOB = """
[job]
name = "kafka"
poll-interval = "200ms"
commit-interval = "200ms"
idle-partition-timeout = "2s"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topic-pattern = '{pattern}'
protocol = "simple"
"kafka.reconnect.backoff.max.ms" = "500"
[sink]
kind = "iceberg"
warehouse = "lake"
[spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "1g"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
"""


@pytest.mark.slow
def test_topics_and_the_broker_and_the_job_itself_come_and_go(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    sent, truth = _messages()
    topics = {topic for part in sent for topic in _topics(part)}
    early = _topics(sent[0])
    assert topics - early, "no topic appears later"
    job_file = tmp_path / "job.toml"
    job_file.write_text(JOB.format(servers=broker.servers, pattern=r"shop(_.+)?"))
    to_wait = len(sent) // 4

    for part in sent[:to_wait]:
        _send(broker, part)
    with _running(job_file) as first:
        _wait(first, job_file, lambda status: status.resolved_ts > 0 and status.changes > 0)
        status = job_status(load_identity(job_file))
        assert (status.state, status.running, status.pid) == ("normal", True, first.pid)
        for part in sent[to_wait : 2 * to_wait]:
            _send(broker, part)
        before = status.changes
        _wait(first, job_file, lambda status: status.changes > before)
        broker.restart()
        for part in sent[2 * to_wait : 3 * to_wait]:
            _send(broker, part)
        before = job_status(load_identity(job_file)).changes
        _wait(first, job_file, lambda status: status.changes > before)
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0, _log(job_file)
    status = job_status(load_identity(job_file))
    assert (status.state, status.running, status.last_error) == ("stopped", False, None)

    # The next job is killed at work, and the one after it starts while the killed one's JVM still lives.
    for part in sent[3 * to_wait : -1]:
        _send(broker, part)
    with _running(job_file) as second:
        _wait(second, job_file, lambda status: status.pid == second.pid and status.phase in ("scan", "apply"))
        jvm = _jvm(job_file)
        os.kill(jvm, signal.SIGSTOP)  # It would end by itself once its pipe is gone.
        second.kill()
        second.wait(30)
    try:
        status = job_status(load_identity(job_file))
        assert (status.state, status.running, status.pid) == ("failed", False, second.pid)
        assert "gone" in status.reason and "nothing is lost" in status.next
        _send(broker, sent[-1])
        with _running(job_file) as third:
            _wait(third, job_file, lambda _: "waiting for the JVM" in _log(job_file, third.pid))
            assert job_status(load_identity(job_file)).pid == second.pid, "it began beside a JVM that could commit"
            os.kill(jvm, signal.SIGCONT)
            _wait(third, job_file, lambda status: status.pid == third.pid and status.held_back_by.kind == "none")
            last = max(part[-1].timestamp or 0 for part in sent)
            _wait(third, job_file, lambda status: status.resolved_ts >> 18 >= last - 1 and not status.changes_waiting)
            third.send_signal(signal.SIGTERM)
            assert third.wait(60) == 0, _log(job_file)
    finally:
        if process(jvm) is not None:
            os.kill(jvm, signal.SIGKILL)
    wrong = {name: reported for name, reported in compare(job_file, truth).items() if reported}
    assert not wrong, wrong

    status = job_status(load_identity(job_file))
    assert {table.name for table in status.tables if table.condition == "clean"} >= {".".join(name) for name in truth}
    assert any(table.condition == "dropped" for table in status.tables)
    silent = {(one.topic, one.partition) for one in status.partitions if one.watermark_ts == 0}
    assert silent == {(topic, REAL_PARTITIONS - 1) for topic in topics}
    assert {one.idle for one in status.partitions if one.watermark_ts == 0} == {True}
    left = {one.topic for one in status.partitions if one.watermark_ts and one.idle}
    assert left and left < topics, "no topic was left without watermarks"


def test_a_topic_that_is_not_there_is_reported(broker: Broker, tmp_path: Path) -> None:
    """A topic that is not there is a fault outside, named with its cluster."""
    job_file = tmp_path / "job.toml"
    text = JOB.format(servers=broker.servers, pattern="-").replace("topic-pattern = '-'", 'topics = ["not-there"]')
    job_file.write_text(text)
    with _running(job_file) as job:
        assert job.wait(120) == 1
    assert f"error: Kafka at {broker.servers} has no topic 'not-there'" in _log(job_file, job.pid)
    status = job_status(load_identity(job_file))
    assert status.state == "failed" and status.last_error is not None and status.last_error.exit_code == 1


def _messages() -> tuple[list[list[Message]], Truth]:
    """The topic in parts, each with whole rounds of watermarks at its end; and the tables that it leads to."""
    events = generate(WORKLOAD)
    every = list(dispatch(events, WORKLOAD, encoder(SimpleConfig())))
    parts: list[list[Message]] = [[]]
    for marks, group in groupby(every, lambda message: b'"type":"WATERMARK"' in (message.value or b"")):
        parts[-1] += group
        if marks:
            parts.append([])
    if not parts[-1]:
        parts.pop()
    return parts, events.truth


def _topics(messages: Sequence[Message]) -> set[str]:
    return {message.topic for message in messages}


def _send(broker: Broker, messages: Sequence[Message]) -> None:
    """Send in this order over all partitions, as TiCDC does; a topic is made before its first message."""
    there = broker.admin.list_topics(timeout=30).topics
    for topic in sorted(_topics(messages) - set(there)):
        broker.create_topic(topic, REAL_PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, "log_level": 0})
    for message in messages:
        producer.produce(message.topic, message.value, message.key, message.partition)
    assert producer.flush(60) == 0


@contextmanager
def _running(job_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "from ticdc_spark.cli import main; main()", "replicate", str(job_file)]
    with (
        (job_file.parent / "log").open("ab") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as job,
    ):
        (job_file.parent / f"start.{job.pid}").write_text(str(log.tell()))
        try:
            yield job
        finally:
            if job.poll() is None:
                job.kill()


def _wait(job: "subprocess.Popen[bytes]", job_file: Path, reached: Callable[[JobStatus], bool]) -> None:
    deadline = time.monotonic() + 300
    while not reached(status := job_status(load_identity(job_file))):
        assert job.poll() is None, _log(job_file)
        assert time.monotonic() < deadline, f"{status}\n{_log(job_file)}"
        time.sleep(0.05)


def _jvm(job_file: Path) -> int:
    held = read(job_file).held
    assert held is not None and held.owner.jvm is not None
    return held.owner.jvm.pid


def _log(job_file: Path, pid: int | None = None) -> str:
    text = (job_file.parent / "log").read_bytes()
    start = job_file.parent / f"start.{pid}"
    return text[int(start.read_text()) if start.exists() else 0 :].decode(errors="replace")[-6000:]
