"""A changefeed against a real broker: what it sends is what it was given, whatever happens on the way."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.apicurio_registry import Registry
from tests.support.changefeed_tables import split_changes
from tests.support.kafka_broker import Broker
from tests.workload import Workload, WorkloadConfig, dispatch, write_topic
from ticdc_spark.capture.base import CapturedDdl, Transaction
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.filter.split import net_changes
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.changefeed.report import Report
from ticdc_spark.errors import DecisionNeeded, LeaseHeld, SinkFault, UnsendableChange, UsageError
from ticdc_spark.model import Envelope, RowChange, SchemaChange, Watermark
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.topics.kafka_reader import TopicReader

SHOP = WorkloadConfig(seed=5, changes=600, ddl_every=30, partitions=3, raw_key_changes=0.0)
ZONE = "Asia/Shanghai"
COMMAND = (sys.executable, "-c", "from ticdc_spark.cli import main; main()", "changefeed")


def recorded(folder: Path, config: WorkloadConfig = SHOP) -> str:
    write_topic(dispatch(Workload(config), config, target_encoder("simple", {})), folder)
    return str(folder)


def changefeed(broker: Broker, topic: str, protocol: str, more: str = "", file: Path | None = None) -> Changefeed:
    uri = f"kafka://{broker.servers}/{topic}?protocol={protocol}&partition-num=3{more}"
    return load_changefeed(file, uri, {"time-zone": ZONE, "changefeed-id": "test"})


def send(feed: Changefeed, source: str, state: Path, stop: threading.Event | None = None) -> Report:
    return run(feed, Upstream(open_stream(source), "recorded topic"), state, stop=stop or threading.Event())


def contents(source: str, rows: int) -> list[object]:
    """What a stream gives until it has given so many rows and then nothing."""
    found: list[object] = []
    capture = open_stream(source)
    given = quiet = 0
    for captured in capture.read(capture.begin()):
        quiet += 1
        match captured:
            case Transaction(commit_ts=ts, changes=changes):
                given, quiet = given + len(changes), 0
                # Open does not tell an insert from an upsert
                inserts = [replace(one, op="insert") if one.op == "upsert" else one for one in changes]
                if rows_of := sorted(map(_row, net_changes(inserts))):
                    found.append((ts, rows_of))
            case CapturedDdl(commit_ts=ts, changes=changes):
                quiet = 0
                found.append((ts, [(change.kind, change.query) for change in changes]))
        if quiet > 2 and given >= rows:
            capture.close()
    return found


def sent_rows(config: WorkloadConfig) -> list[RowChange]:
    """The rows of a workload as they are sent: each once in a transaction, if it changes, and changes of keys split."""
    rows = (change for change in Workload(config) if isinstance(change, RowChange))
    return [
        one for _, group in groupby(rows, lambda row: row.commit_ts) for one in split_changes(net_changes([*group]))
    ]


def count(config: WorkloadConfig) -> int:
    return len(sent_rows(config))


def _row(change: RowChange) -> tuple[str, ...]:
    images = (sorted((image or {}).items(), key=str) for image in (change.before, change.after))
    return (change.op, change.table.schema, change.table.name, *map(repr, images))


PROTOCOLS = {
    "simple": "",
    "open-protocol": "",
    "canal-json": "&enable-tidb-extension=true",
    "debezium": "&enable-tidb-extension=true",
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_recorded_topic_is_sent_whole(broker: Broker, topic_name: str, tmp_path: Path, protocol: str) -> None:
    source = recorded(tmp_path / "recorded")
    report = send(changefeed(broker, topic_name, protocol, PROTOCOLS[protocol]), source, tmp_path / "state")
    assert report.finished and report.rows == count(SHOP)
    zone = "&source-timezone=Asia%2FShanghai"
    assert contents(f"kafka://{broker.servers}/{topic_name}?from=beginning{zone}", count(SHOP)) == contents(source, 0)


@pytest.mark.parametrize("protocol", ["avro", "debezium-avro"])
def test_protocols_with_a_registry(
    broker: Broker, schema_registry: Registry, topic_name: str, tmp_path: Path, protocol: str
) -> None:
    """They have no watermarks to order by, so that rows are counted, and each is opened."""
    config = WorkloadConfig(seed=6, changes=300, partitions=2, raw_key_changes=0.0)
    more = "&enable-tidb-extension=true&avro-bigint-unsigned-handling-mode=string"
    feed = changefeed(broker, topic_name, protocol, f"{more}&schema-registry={schema_registry.url}")
    report = send(feed, recorded(tmp_path / "recorded", config), tmp_path / "state")
    from ticdc_spark.clients.registry import SchemaRegistry

    with SchemaRegistry(schema_registry.url) as schemas:
        opener = decoder(protocol, schemas)
        events = [event for message in messages(broker, topic_name) for event in opener.open_message(*message[2:])]
    rows = [event for event in events if isinstance(event, Envelope)]
    assert len(rows) == len(events) == report.rows == count(config)


def messages(broker: Broker, topic: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Every message: partition, offset, key, value."""
    with TopicReader(broker.servers, {}) as kafka:
        partitions = kafka.partitions([topic])
        start, end = kafka.places(partitions, "beginning"), kafka.places(partitions, "end")
        found = kafka.read(start, end, [], patient=False)
        return sorted((one.partition, one.offset, one.key, one.value) for one in found)


def test_killed_again_and_again_nothing_is_lost(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    config = WorkloadConfig(seed=7, changes=40_000, ddl_every=400, partitions=3, raw_key_changes=0.0)
    source = recorded(tmp_path / "recorded", config)
    uri = f"kafka://{broker.servers}/{topic_name}?protocol=simple&partition-num=3"
    command = [*COMMAND, "--sink-uri", uri, "--source", source]
    command += ["--state", str(tmp_path / "state")]
    rand, kills = random.Random(7), 0
    progress = tmp_path / "state" / "progress.json"
    while True:
        saved = progress.stat().st_mtime_ns if progress.exists() else 0
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if kills < 3:
            while process.poll() is None and not (progress.exists() and progress.stat().st_mtime_ns > saved):
                time.sleep(0.01)
            time.sleep(rand.uniform(0, 0.6))
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        _, stderr = process.communicate(timeout=300)
        if process.returncode != -signal.SIGKILL:
            break
    assert process.returncode == 0, stderr.decode()
    assert kills >= 2, "the machine is too fast for this test"
    sent = messages(broker, topic_name)
    check_order(sent)
    assert contents(f"kafka://{broker.servers}/{topic_name}", count(config)) == contents(source, 0)


def check_order(sent: list[tuple[int, int, bytes | None, bytes | None]]) -> None:
    """No row below a watermark of its partition, whatever was repeated, and no watermark that goes back."""
    opener = decoder("simple")
    watermarks: Counter[int] = Counter()
    rounds: dict[int, set[int]] = {}
    for partition, offset, key, value in sent:
        for event in opener.open_message(key, value):
            if isinstance(event, Watermark):
                assert event.commit_ts >= watermarks[partition], (partition, offset)
                watermarks[partition] = event.commit_ts
                rounds.setdefault(partition, set()).add(event.commit_ts)
            elif isinstance(event, Envelope | SchemaChange):
                assert event.commit_ts >= watermarks[partition], (partition, offset)
    assert len({max(found) for found in rounds.values()}) == 1, "the last one is in every partition"


@pytest.mark.slow
def test_a_broker_that_goes_away_and_comes_back(tmp_path: Path, topic_name: str) -> None:
    config = WorkloadConfig(seed=8, changes=6000, ddl_every=300, partitions=2, raw_key_changes=0.0)
    source = recorded(tmp_path / "recorded", config)
    own = Broker(tmp_path / "kafka")
    own.start()
    try:
        feed = changefeed(own, topic_name, "simple")
        own.create_topic(topic_name, 3)
        found: list[Report] = []
        thread = threading.Thread(target=lambda: found.append(send(feed, source, tmp_path / "state")))
        thread.start()
        time.sleep(2)
        own.kill()
        time.sleep(3)
        own.start()
        thread.join(120)
        assert found and found[0].finished
        check_order(messages(own, topic_name))
        assert contents(f"kafka://{own.servers}/{topic_name}", count(config)) == contents(source, 0)
    finally:
        own.kill()


def test_a_second_owner_is_refused_and_a_dead_one_is_not(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    source, feed = recorded(tmp_path / "recorded"), changefeed(broker, topic_name, "simple")
    holder = (
        "import sys, time; from pathlib import Path; from ticdc_spark.changefeed.progress import StateFolder\n"
        f"with StateFolder(Path({str(tmp_path / 'state')!r}), changefeed={feed.id!r}, target='t', protocol='simple', "
        "source='s'):\n"
        "    print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    with pytest.raises(LeaseHeld, match=f"process {process.pid} on "):
        send(feed, source, tmp_path / "state")
    process.kill()
    process.communicate()
    assert send(feed, source, tmp_path / "state").finished
    with pytest.raises(DecisionNeeded, match=f"belongs to topic '{topic_name}', and this is 'other'"):
        send(changefeed(broker, "other", "simple"), source, tmp_path / "state")
    with pytest.raises(DecisionNeeded, match="belongs to protocol 'simple', and this is 'canal-json'"):
        send(changefeed(broker, topic_name, "canal-json"), source, tmp_path / "state")


def test_a_restart_after_the_end_sends_nothing_more(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    source, feed = recorded(tmp_path / "recorded"), changefeed(broker, topic_name, "simple")
    send(feed, source, tmp_path / "state")
    before = messages(broker, topic_name)
    assert send(feed, source, tmp_path / "state").rows == 0
    again = [value for *_, value in {*messages(broker, topic_name)} - {*before}]
    assert again
    assert all(b'"type":"WATERMARK"' in (value or b"") for value in again)


def test_target_ts_ends_it_with_a_watermark_above(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    source = recorded(tmp_path / "recorded")
    elements = list(open_stream(source).read(open_stream(source).begin()))
    middle = elements[len(elements) // 2].commit_ts
    uri = f"kafka://{broker.servers}/{topic_name}?protocol=simple&partition-num=1"
    report = send(load_changefeed(None, uri, {"target-ts": middle}), source, tmp_path / "state")
    assert report.finished and report.saved == middle
    opener = decoder("simple")
    events = [event for message in messages(broker, topic_name) for event in opener.open_message(*message[2:])]
    stamps = [event.commit_ts for event in events if isinstance(event, Envelope | SchemaChange)]
    assert max(stamps) <= middle
    assert [event for event in events if isinstance(event, Watermark)][-1].commit_ts == middle + 1


def test_a_message_that_is_too_large_is_named(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    broker.create_topic(topic_name, 3, {"max.message.bytes": "600"})
    source, state = recorded(tmp_path / "recorded"), tmp_path / "state"
    with pytest.raises(UnsendableChange, match=r"CREATE TABLE.* takes .* and topic .* takes 472"):
        send(changefeed(broker, topic_name, "simple"), source, state)
    broker.create_topic(f"{topic_name}.rows", 3, {"max.message.bytes": "828"})
    with pytest.raises(UnsendableChange, match=r"a row of `shop`\.`\w+` \(.+=.+\), \w+ at commitTs \d+.*large-message"):
        send(changefeed(broker, f"{topic_name}.rows", "canal-json"), source, tmp_path / "other")


def test_a_row_that_is_too_large_without_large_messages_is_named(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    broker.create_topic(topic_name, 3, {"max.message.bytes": "3000"})
    source = recorded(tmp_path / "recorded", WorkloadConfig(seed=5, changes=50, partitions=3))
    begin = max(
        element.commit_ts
        for element in open_stream(source).read(open_stream(source).begin())
        if isinstance(element, CapturedDdl)
    )
    uri = f"kafka://{broker.servers}/{topic_name}?protocol=debezium"
    with pytest.raises(UnsendableChange, match=r"a row of `shop`\.`\w+` \(.+=.+\), \w+ at commitTs \d+.* takes 2872:"):
        send(load_changefeed(None, uri, {"start-ts": begin}), source, tmp_path / "state")


@pytest.mark.parametrize(
    ("more", "topic", "message"),
    [
        ("&auto-create-topic=false", None, "has no topic '.*', and auto-create-topic is false"),
        ("", 2, "partition-num is 3, but topic '.*' has 2 partitions"),
        ("&replication-factor=3", None, "replication-factor 3"),
    ],
)
def test_topics_that_do_not_suit(
    broker: Broker, topic_name: str, tmp_path: Path, more: str, topic: int | None, message: str
) -> None:
    if topic is not None:
        broker.create_topic(topic_name, topic)
    with pytest.raises((UsageError, SinkFault), match=message):
        send(changefeed(broker, topic_name, "simple", more), recorded(tmp_path / "recorded"), tmp_path / "state")
    assert read_stored(tmp_path / "state") is None, "it has not begun"


def test_too_few_replicas_are_refused_before_anything_is_sent(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    broker.create_topic(topic_name, 3, {"min.insync.replicas": "2"})
    source = recorded(tmp_path / "recorded")
    with pytest.raises(UsageError, match=r"its replication is 1, but min\.insync\.replicas is 2"):
        send(changefeed(broker, topic_name, "simple"), source, tmp_path / "state")
    assert send(changefeed(broker, topic_name, "simple", "&required-acks=1"), source, tmp_path / "state").finished


def test_check_and_status_say_what_is(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    source = recorded(tmp_path / "recorded")
    uri = f"kafka://{broker.servers}/{topic_name}?protocol=simple&partition-num=2"
    command = [*COMMAND, "--sink-uri", uri, "--source", source]
    command += ["--state", str(tmp_path / "state")]

    def output_of(*more: str) -> str:
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False, env=os.environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    checked = output_of("--check")
    assert f"topic {topic_name}: would be created with 2 partitions" in checked
    assert f"shop.orders: topic {topic_name}, partition by" in checked
    assert topic_name not in broker.admin.list_topics(timeout=10).topics
    assert "it has not run" in output_of("--status")
    refused = subprocess.run(
        [*command, "--check", "--sink-uri", f"{uri}&replication-factor=3"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert refused.returncode == 1
    assert f"(creating topic {topic_name!r} with 2 partitions, replication-factor 3)" in refused.stderr
    output_of()
    assert "not running" in output_of("--status")


RULES = """
[filter]
rules = ["shop.*", "!shop.sessions"]
[sink]
dispatchers = [
    {matcher = ["shop.orders"], topic = "TOPIC.orders", partition = "index-value"},
    {matcher = ["shop.c*"], topic = "TOPIC.{schema}.{table}"},
]
column-selectors = [{matcher = ["shop.customers"], columns = ["*", "!phone"]}]
"""


@pytest.mark.parametrize("protocol", ["simple", "canal-json", "debezium"])
def test_filter_dispatch_and_columns(broker: Broker, topic_name: str, tmp_path: Path, protocol: str) -> None:
    config = WorkloadConfig(seed=9, changes=400, partitions=2, raw_key_changes=0.0)
    source = recorded(tmp_path / "recorded", config)
    file = tmp_path / "feed.toml"
    file.write_text(RULES.replace("TOPIC", topic_name))
    more = "&enable-tidb-extension=true" if protocol != "simple" else ""
    send(changefeed(broker, topic_name, protocol, more, file), source, tmp_path / "state")
    topics = [topic_name, f"{topic_name}.orders", f"{topic_name}.shop.customers", f"{topic_name}.shop.coupons"]
    given: Counter[tuple[str, str]] = Counter()
    spread = set()
    opener = decoder(protocol)
    for topic in topics:
        last: dict[int, int] = {}
        for partition, _, key, value in messages(broker, topic):
            for event in opener.open_message(key, value):
                if isinstance(event, Envelope):
                    given[topic, event.table] += 1
                    spread.add((topic, partition))
                elif isinstance(event, Watermark):
                    last[partition] = event.commit_ts
        assert len(last) == 3 and len(set(last.values())) == 1, f"{topic}: {last}"
    wanted: Counter[tuple[str, str]] = Counter()
    for change in sent_rows(config):
        if change.table.name != "sessions":
            name = change.table.name
            into = {"orders": topics[1], "customers": topics[2], "coupons": topics[3]}.get(name, topic_name)
            wanted[into, name] += 1
    assert given == wanted
    assert len({partition for topic, partition in spread if topic == topics[1]}) == 3, "orders by their keys"
    rows = contents(f"kafka://{broker.servers}/{topics[2]}?source-timezone={ZONE}", wanted[topics[2], "customers"])
    shown = repr([found for _, found in rows if len(found[0]) > 2])  # type: ignore[misc]
    assert "email" in shown and "'phone'" not in shown
