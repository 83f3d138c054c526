"""``inspect`` and ``convert`` from a real broker, and what is followed while it grows."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.kafka_broker import Broker, Record
from tests.support.recorded_topics import read_back, write_json
from tests.unit.cli.test_inspect import CANAL, SIMPLE, ZONE, lines, topic

START = [sys.executable, "-c", "from ticdc_spark.cli import main; main()"]


def records() -> list[Record]:
    return [(one.key, one.value) for one in topic(SIMPLE)]


def test_topics_are_read_to_their_end(broker: Broker, topic_name: str, folder: Path) -> None:
    broker.create_topic(topic_name, 2)
    broker.produce(topic_name, records(), 0)
    broker.produce(topic_name, records(), 1)
    kafka = ["--bootstrap-servers", broker.servers, "--topic", topic_name]
    done = subprocess.run([*START, "inspect", "--json", *kafka], capture_output=True, text=True, timeout=60, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["kind"] for line in found if line["partition"] == 1] == [
        "ddl",
        "insert",
        "update",
        "delete",
        "watermark",
    ]
    assert len(found) == 10
    command = [*START, "convert", *kafka, "--to", "canal-json", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    # canal-json has its DDL in partition 0 only
    assert [line.partition for line in read_back(folder)] == [0] * 5 + [1] * 4
    missing = [*START, "inspect", "--bootstrap-servers", broker.servers, "--topic", "no.such"]
    done = subprocess.run(missing, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "no topic 'no.such'" in done.stderr


@contextmanager
def following(*arguments: str, stderr: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """``inspect --follow``; ended whatever happens, and by SIGINT even where a parent ignores it (``nohup … &``)."""
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [*START, "inspect", "--follow", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=default) as running:
        try:
            yield running
        finally:
            running.kill()


def test_a_topic_is_followed(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 1)
    kafka = ["--bootstrap-servers", broker.servers, "--topic", topic_name]
    with following(*kafka) as running:
        assert running.stdout is not None
        broker.produce(topic_name, records()[:2], 0)
        assert " ddl " in running.stdout.readline() and " insert " in running.stdout.readline()
        broker.produce(topic_name, records()[2:3], 0)
        assert " update " in running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == 0


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command whose output is read; ended whatever happens."""
    with subprocess.Popen([*START, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def test_a_broker_that_does_not_answer_is_one_line() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        kafka = ["--bootstrap-servers", f"127.0.0.1:{closed.getsockname()[1]}", "--topic", "t"]
        # Both wait for the broker at the same time.
        with started("inspect", *kafka) as quiet, started("-v", "inspect", *kafka) as verbose:
            shown, errors = quiet.communicate(timeout=60)
            _, reported = verbose.communicate(timeout=60)
    assert (quiet.returncode, shown) == (1, "")
    assert errors.count("\n") == 1
    assert re.search(
        r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d error: .*Kafka at 127.0.0.1:\d+: .*Connection refused", errors
    ), errors
    assert "rdkafka" in reported, "what the client logs is shown with the option"


@pytest.mark.slow
def test_a_broker_that_goes_away_while_a_topic_is_followed_is_reported(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "kafka")
    broker.start()
    try:
        broker.create_topic("shop", 1)
        broker.produce("shop", records()[:1], 0)
        kafka = ["--bootstrap-servers", broker.servers, "--topic", "shop"]
        with following(*kafka, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None and running.stderr is not None
            assert " ddl " in running.stdout.readline()
            broker.stop()
            line = running.stderr.readline()
            assert f"Kafka at {broker.servers}: " in line and "retrying" in line
            broker.start()
            broker.produce("shop", records()[1:2], 0)
            assert " insert " in running.stdout.readline(), "it goes on"
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=30) == 0
            assert not running.stderr.read(), "one report, not one a second"
    finally:
        broker.kill()


def test_rows_that_follow_an_old_schema(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 1)
    kafka = ["--bootstrap-servers", broker.servers, "--topic", topic_name]
    sent = records()
    broker.produce(topic_name, sent[:2], 0)
    with following(*kafka, "--protocol", "simple", "--from", "2", "--schemas-from", "beginning") as running:
        assert running.stdout is not None
        broker.produce(topic_name, sent[2:3], 0)
        assert " update " in running.stdout.readline(), "the first of two rows was before --from"
    with following(*kafka, "--from", "2", stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        line = running.stderr.readline()
    assert "rows of shop.t wait for their schema" in line
    assert "--schemas-from beginning" in line


def test_a_folder_is_followed(tmp_path: Path) -> None:
    sent = lines(topic(CANAL))
    write_json(tmp_path / "a.jsonl", sent[:2])
    with following("--source-timezone", ZONE, str(tmp_path)) as running:
        assert running.stdout is not None
        assert " ddl " in running.stdout.readline() and " insert " in running.stdout.readline()
        write_json(tmp_path / ".b.jsonl", sent[2:3]).rename(tmp_path / "b.jsonl")
        assert " update " in running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == 0
