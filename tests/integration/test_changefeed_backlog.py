"""A backlog that tasks send, against a real broker: killed, without its broker, from Kafka, and with a registry."""

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.changefeed.here import Here
from tests.integration.test_changefeed import (
    COMMAND,
    ZONE,
    changefeed,
    check_order,
    contents,
    count,
    messages,
    recorded,
)
from tests.support.apicurio_registry import Registry
from tests.support.kafka_broker import Broker
from tests.workload import WorkloadConfig
from ticdc_spark.capture.stream import StreamCapture, open_stream
from ticdc_spark.changefeed.backlog import source as backlog_source
from ticdc_spark.changefeed.backlog.backlog import Backlog
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.changefeed.report import Report
from ticdc_spark.clients.registry import SchemaRegistry
from ticdc_spark.errors import SinkFault
from ticdc_spark.failpoints import ENVIRONMENT
from ticdc_spark.model import Envelope
from ticdc_spark.protocols import decoder

SHOP = WorkloadConfig(seed=21, changes=12_000, ddl_every=600, partitions=3, raw_key_changes=0.0)
FEED = """
[ticdc-spark]
spark-backlog = 1000
spark = {"spark.master" = "local[2]", "spark.driver.memory" = "1g"}
"""


def send(feed: Changefeed, source: str, state: Path) -> Report:
    """With tasks in this process."""
    capture = open_stream(source)
    assert isinstance(capture, StreamCapture)
    backlog = Backlog(feed, capture, Here())
    return run(feed, Upstream(capture, "recorded topic", backlog=backlog), state, stop=threading.Event())


def command(broker: Broker, folder: Path, topic: str, source: str) -> list[str]:
    file = folder / "feed.toml"
    file.write_text(FEED)
    uri = f"kafka://{broker.servers}/{topic}?protocol=simple&partition-num=3"
    return [*COMMAND, str(file), "--sink-uri", uri, "--source", source, "--state", str(folder / "state")]


@pytest.mark.slow
def test_killed_within_stretches_nothing_is_lost(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    """Spark's tasks, and a process that dies before and after it has stored what they sent, and while they send."""
    source = recorded(tmp_path / "recorded", SHOP)
    line = command(broker, tmp_path, topic_name, source)
    for point in ("batch:2", "save:3"):
        killed = subprocess.run(line, capture_output=True, check=False, env={**os.environ, ENVIRONMENT: point})
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    before = len(messages(broker, topic_name))
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while len(messages(broker, topic_name)) < before + 500 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    sent = messages(broker, topic_name)
    check_order(sent)
    assert contents(f"kafka://{broker.servers}/{topic_name}", count(SHOP)) == contents(source, 0)
    assert not [*(tmp_path / "state" / "backlog").glob("*")], "nothing is left of those that were killed"


def test_a_topic_in_kafka_is_followed_after_its_backlog(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    config = replace(SHOP, changes=6000, ddl_every=400)
    first, second = f"{topic_name}.in", f"{topic_name}.out"
    path = recorded(tmp_path / "recorded", config)
    run(
        changefeed(broker, first, "debezium", "&enable-tidb-extension=true"),
        Upstream(open_stream(path), "recorded topic"),
        tmp_path / "one",
        stop=threading.Event(),
    )
    line = command(broker, tmp_path, second, f"kafka://{broker.servers}/{first}?source-timezone=Asia%2FShanghai")
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wanted = read_stored(tmp_path / "one")
    assert wanted is not None
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        stored = read_stored(tmp_path / "state") if (tmp_path / "state").exists() else None
        if stored is not None and stored.commit_ts >= wanted.commit_ts:
            break
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr.decode()[-2000:]
    assert "it is sent in Spark tasks" in stderr.decode()
    check_order(messages(broker, second))
    zone = f"&source-timezone={ZONE.replace('/', '%2F')}"
    assert contents(f"kafka://{broker.servers}/{second}?from=beginning{zone}", count(config)) == contents(path, 0)


def test_partitions_that_get_nothing_do_not_keep_tasks_from_the_others(
    broker: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``partition-num`` below the topic's real count, the upper partitions never have a watermark."""
    for name in ("IDLE", "_TRY_AGAIN", "_LOOK"):
        monkeypatch.setattr(backlog_source, name, 1.0)
    config = replace(SHOP, changes=6000, ddl_every=0)
    first, second = f"{topic_name}.in", f"{topic_name}.out"
    broker.create_topic(first, 4)
    path = recorded(tmp_path / "recorded", config)
    run(
        changefeed(broker, first, "simple"),
        Upstream(open_stream(path), "recorded topic"),
        tmp_path / "one",
        stop=threading.Event(),
    )
    source = f"kafka://{broker.servers}/{first}"
    feed, capture, stop = (
        replace(changefeed(broker, second, "simple"), backlog=1),
        open_stream(source),
        threading.Event(),
    )
    assert isinstance(capture, StreamCapture)
    began, wanted = time.monotonic(), count(config)

    def show(report: Report) -> None:
        if report.rows >= wanted or time.monotonic() - began > 50:  # one process waits for 60 s
            stop.set()

    backlog = Backlog(feed, capture, Here())
    report = run(feed, Upstream(capture, "kafka", backlog=backlog), tmp_path / "two", stop=stop, show=show)
    assert report.rows == wanted


@pytest.mark.slow
def test_a_broker_that_goes_away_while_tasks_send(tmp_path: Path, topic_name: str) -> None:
    config = replace(SHOP, changes=8000, ddl_every=0, partitions=2)
    source = recorded(tmp_path / "recorded", config)
    own = Broker(tmp_path / "kafka")
    own.start()
    try:
        feed = replace(changefeed(own, topic_name, "simple"), backlog=1)
        own.create_topic(topic_name, 3)
        found: list[Report] = []
        thread = threading.Thread(target=lambda: found.append(send(feed, source, tmp_path / "state")))
        thread.start()
        while not [*(tmp_path / "state").glob("backlog/messages-*")]:
            time.sleep(0.01)
        own.kill()
        time.sleep(3)
        own.start()
        thread.join(120)
        assert found and found[0].finished and found[0].rows >= count(config)
        check_order(messages(own, topic_name))
        assert contents(f"kafka://{own.servers}/{topic_name}", count(config)) == contents(source, 0)
    finally:
        own.kill()


@pytest.mark.slow
def test_a_topic_that_refuses_stops_and_nothing_is_stored_as_sent(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    """The topic is deleted while it is prepared; what was not acknowledged is not progress."""
    config = replace(SHOP, changes=6000, ddl_every=0)
    source = recorded(tmp_path / "recorded", config)
    feed = replace(changefeed(broker, topic_name, "simple"), backlog=1)

    class Deleting(Here):
        def run(self, task, job, count, kind):  # type: ignore[no-untyped-def]
            if kind.__name__ == "Sent":
                broker.admin.delete_topics([topic_name])[topic_name].result(30)
                time.sleep(1)
            return super().run(task, job, count, kind)

    capture = open_stream(source)
    assert isinstance(capture, StreamCapture)
    with pytest.raises(SinkFault, match="was it deleted"):
        run(
            feed,
            Upstream(capture, "recorded topic", backlog=Backlog(feed, capture, Deleting())),
            tmp_path / "state",
            stop=threading.Event(),
        )
    stored = read_stored(tmp_path / "state")
    assert stored is not None and stored.rows < 100
    assert send(feed, source, tmp_path / "state").finished
    assert contents(f"kafka://{broker.servers}/{topic_name}", 0)[-1] == contents(source, 0)[-1]


@pytest.mark.parametrize("protocol", ["avro", pytest.param("debezium-avro", marks=pytest.mark.slow)])
def test_protocols_with_a_registry(
    broker: Broker, schema_registry: Registry, topic_name: str, tmp_path: Path, protocol: str
) -> None:
    config = replace(SHOP, changes=5000, ddl_every=0, partitions=2)
    more = "&enable-tidb-extension=true&avro-bigint-unsigned-handling-mode=string"
    feed = changefeed(broker, topic_name, protocol, f"{more}&schema-registry={schema_registry.url}")
    report = send(replace(feed, backlog=1), recorded(tmp_path / "recorded", config), tmp_path / "state")
    with SchemaRegistry(schema_registry.url) as schemas:
        opener = decoder(protocol, schemas)
        events = [event for message in messages(broker, topic_name) for event in opener.open_message(*message[2:])]
    rows = [event for event in events if isinstance(event, Envelope)]
    assert len(rows) == len(events) == report.rows == count(config)
    by_table: Counter[str] = Counter()
    for one in report.counted:
        by_table[one.table] += one.rows
    assert by_table == Counter(row.table for row in rows)
    sent = sum(len(key or b"") + len(value or b"") for *_, key, value in messages(broker, topic_name))
    assert report.bytes == sent
