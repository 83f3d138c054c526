"""``record`` against a real broker: what it copies, where it goes on, how it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.kafka_broker import Broker, Record
from tests.support.recorded_topics import Line, read_back
from ticdc_spark.cli import main
from ticdc_spark.topics import kafka_reader
from ticdc_spark.topics.manifest import list_recorded, spans

START = (sys.executable, "-c", "from ticdc_spark.cli import main; main()")


def _command(broker: Broker, topic: str, folder: Path, *more: str) -> list[str]:
    return [*START, "record", "--bootstrap-servers", broker.servers, "--topic", topic, *more, str(folder)]


def _record(broker: Broker, topic: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(broker, topic, folder, *more), capture_output=True, text=True, timeout=120, check=False
    )


def _messages(count: int, size: int = 20) -> list[Record]:
    return [(f"k{i}".encode() if i % 3 else None, f"{i}:".encode() * size if i % 5 else None) for i in range(count)]


def _places(lines: Sequence[Line]) -> list[tuple[str, int, int, bytes | None, bytes | None]]:
    return [(line.topic, line.partition, line.offset, line.key, line.value) for line in lines]


def _sent(
    topic: str, partition: int, records: Sequence[Record]
) -> list[tuple[str, int, int, bytes | None, bytes | None]]:
    return [(topic, partition, offset, key, value) for offset, (key, value) in enumerate(records)]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet"])
def test_copies_every_partition_and_goes_on_after_what_it_holds(
    broker: Broker, topic_name: str, folder: Path, kind: str
) -> None:
    broker.create_topic(topic_name, 2)
    records = _messages(250)
    broker.produce(topic_name, records[:200], 0)
    broker.produce(topic_name, records[:10], 1)
    first = _record(broker, topic_name, folder, "--format", kind, "--segment-rows", "90")
    assert first.returncode == 0, first.stderr
    assert "recorded 210 messages in 4 files" in first.stdout
    broker.produce(topic_name, records[200:], 0)
    second = _record(broker, topic_name, folder, "--format", kind)
    assert "recorded 50 messages in 1 files" in second.stdout, second.stderr
    nothing = _record(broker, topic_name, folder, "--format", kind)
    assert "recorded 0 messages in 0 files" in nothing.stdout, nothing.stderr
    assert _places(read_back(folder)) == _sent(topic_name, 0, records) + _sent(topic_name, 1, records[:10])


def test_a_kill_in_the_middle_loses_and_repeats_nothing(broker: Broker, topic_name: str, folder: Path) -> None:
    broker.create_topic(topic_name, 2)
    records = _messages(60_000, 30)
    for partition in (0, 1):
        broker.produce(topic_name, records, partition)
    more = ("--format", "jsonl", "--segment-rows", "5000")
    killed = 0
    for wanted in (2, 8):
        with subprocess.Popen(
            _command(broker, topic_name, folder, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            deadline = time.monotonic() + 60
            while process.poll() is None and len(list(folder.glob("messages-*"))) < wanted:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            process.kill()
        killed += process.returncode == -signal.SIGKILL
    held = sum(span.count for found in spans(list_recorded(folder)).values() for span in found)
    assert killed == 2 and 0 < held < 120_000, "the kills were not in the middle"
    finished = _record(broker, topic_name, folder, *more)
    assert finished.returncode == 0, finished.stderr
    assert f"recorded {120_000 - held:,} messages" in finished.stdout
    assert _places(read_back(folder)) == _sent(topic_name, 0, records) + _sent(topic_name, 1, records)
    assert not list(folder.glob(".*.tmp"))


def test_a_range_by_offset_and_by_time(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(30))
    time.sleep(0.05)
    between = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    time.sleep(0.05)
    broker.produce(topic_name, _messages(30))
    done = _record(broker, topic_name, tmp_path / "offsets", "--from", "10", "--to", "20", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    assert [line.offset for line in read_back(tmp_path / "offsets")] == list(range(10, 20))
    done = _record(broker, topic_name, tmp_path / "before", "--to", between)
    assert [line.offset for line in read_back(tmp_path / "before")] == list(range(30)), done.stderr
    done = _record(broker, topic_name, tmp_path / "after", "--from", f"{between}Z")
    assert [line.offset for line in read_back(tmp_path / "after")] == list(range(30, 60)), done.stderr


def test_until_stopped_keeps_what_arrived(broker: Broker, topic_name: str, folder: Path) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(10))
    command = _command(broker, topic_name, folder, "--until", "stopped", "--segment-rows", "15")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(folder.glob("messages-*")):
            assert time.monotonic() < deadline and process.poll() is None
            broker.produce(topic_name, _messages(10))
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        message, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    lines = read_back(folder)
    assert [line.offset for line in lines] == list(range(len(lines)))
    assert f"recorded {len(lines):,} messages" in message


def test_stopped_before_the_end_is_128_plus_the_signal(broker: Broker, topic_name: str, folder: Path) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(10))
    command = _command(broker, topic_name, folder, "--to", "1000", "--segment-rows", "10")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not list(folder.glob("messages-*")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM


def test_messages_that_retention_took_after_the_recording_are_an_error(
    broker: Broker, topic_name: str, folder: Path
) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(10))
    assert _record(broker, topic_name, folder).returncode == 0
    broker.produce(topic_name, _messages(10))
    broker.trim(topic_name, 0, 15)
    done = _record(broker, topic_name, folder)
    assert done.returncode == 4
    assert "begins at offset 15, and is to be read from 10 on" in done.stderr and "another folder" in done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("count", [3, 20])
def test_a_topic_that_was_created_again_is_not_recorded_behind_the_old_one(
    broker: Broker, topic_name: str, folder: Path, count: int, known: bool
) -> None:
    """A recording of an earlier version has no ids: its topic is not compared, and its end is."""
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(5))
    assert _record(broker, topic_name, folder).returncode == 0
    if not known:
        (folder / ".topics.json").unlink()
        if count == 20:
            assert _record(broker, topic_name, folder).returncode == 0  # takes the id
    broker.delete_topic(topic_name)
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(count))
    for _ in range(2):
        done = _record(broker, topic_name, folder)
        assert done.returncode == 4, done.stderr
        assert f"topic '{topic_name}'" in done.stderr and "another folder" in done.stderr
        if known or count == 20:
            assert "deleted and created again" in done.stderr and "partition 0 up to offset 5" in done.stderr
        else:
            assert "ends at offset 3, and was read up to 5" in done.stderr
    assert len(read_back(folder)) == 5


def test_a_topic_of_which_nothing_was_recorded_may_be_created_again(
    broker: Broker, topic_name: str, folder: Path
) -> None:
    broker.create_topic(topic_name)
    assert _record(broker, topic_name, folder).returncode == 0
    broker.delete_topic(topic_name)
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(5))
    assert _record(broker, topic_name, folder).returncode == 0
    assert len(read_back(folder)) == 5


@pytest.mark.parametrize("count", [3, 20])
def test_a_topic_that_is_created_again_while_it_is_recorded(
    broker: Broker, topic_name: str, folder: Path, count: int
) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(5))
    command = _command(broker, topic_name, folder, "--until", "stopped", "--segment-rows", "5")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(folder.glob("messages-*")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        broker.delete_topic(topic_name)
        broker.create_topic(topic_name)
        broker.produce(topic_name, _messages(count))
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 4, errors
    assert "deleted and created again" in errors and "Traceback" not in errors


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--from", "yesterday"), 2, "'yesterday' is not an offset"),
        (("-X", "no.such.option=1"), 2, "no.such.option"),
        (("-X", "nonsense"), 2, "key=value"),
        (("--topic", "no.such.topic"), 1, "has no topic 'no.such.topic'"),
        (("--bootstrap-servers", "127.0.0.1:1", "-X", "log_level=0"), 1, "Kafka at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_is_one_clear_error(
    broker: Broker,
    topic_name: str,
    folder: Path,
    more: tuple[str, ...],
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_reader, "_METADATA_SECONDS", 2.0)
    broker.create_topic(topic_name)
    done = CliRunner().invoke(main, _command(broker, topic_name, folder, *more)[len(START) :])
    assert (done.exit_code, done.stdout) == (code, "") and isinstance(done.exception, SystemExit)
    assert message in done.stderr and "Traceback" not in done.stderr


def test_a_second_recorder_is_refused(broker: Broker, topic_name: str, folder: Path) -> None:
    broker.create_topic(topic_name)
    with subprocess.Popen(
        _command(broker, topic_name, folder, "--until", "stopped"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while not (folder / ".lock").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.2)
        done = _record(broker, topic_name, folder)
        os.kill(process.pid, signal.SIGINT)
    assert done.returncode == 2 and "another recorder" in done.stderr
