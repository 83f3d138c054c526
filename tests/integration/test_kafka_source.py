"""The Kafka source against a real broker."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from pyspark.sql import SparkSession

from tests.spark.simple_topic import insert, table
from tests.support.kafka_broker import Broker, Record
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.model import Offsets
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate import loop
from ticdc_spark.spark import tasks
from ticdc_spark.spark.sources import direct_reads
from ticdc_spark.spark.sources.kafka import KafkaTopicSource
from ticdc_spark.spark.tasks import ArrowTask
from ticdc_spark.topics.json_lines import ARROW_SCHEMA


def _messages(count: int, size: int = 10) -> list[Record]:
    return [(f"k{i}".encode() if i % 3 else None, b"%d" % i * size if i % 5 else None) for i in range(count)]


def place(message: tuple[str, int, int, int, bytes, bytes]) -> tuple[int, int]:
    return message[1], message[2]


def values_here(source: KafkaTopicSource) -> list[bytes]:
    read = source.read_here({}, source.end_offsets())
    assert read is not None
    values: list[bytes] = read.column("value").to_pylist()
    return values


def by_tasks(source: KafkaTopicSource, start: Offsets, end: Offsets) -> pa.Table:
    """What tasks of our own read, run one after the other here."""
    parts = source.read_parts(start, end)
    assert parts is not None
    numbers = [pa.record_batch([pa.array([number])], ["id"]) for number in range(parts.number)]
    return pa.Table.from_batches(parts.read(numbers), ARROW_SCHEMA)


def tuples(read: pa.Table) -> list[tuple[str, int, int, int, bytes, bytes]]:
    """Messages, ordered by their places."""
    return sorted(zip(*(column.to_pylist() for column in read.columns), strict=True), key=place)


def test_reads_exactly_between_the_offsets(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 3)
    before = int(time.time() * 1000)
    for partition in (0, 1):
        broker.produce(topic_name, _messages(100), partition)
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    assert source.beginning_offsets() == {(topic_name, p): 0 for p in range(3)}
    end = source.end_offsets()
    assert end == {(topic_name, 0): 100, (topic_name, 1): 100, (topic_name, 2): 0}
    broker.produce(topic_name, _messages(5), 0)
    read = source.read({(topic_name, 0): 90, (topic_name, 1): 0}, end)
    assert [f"{name} {kind}" for name, kind in read.dtypes] == [
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp bigint",
        "key binary",
        "value binary",
    ]
    rows = sorted(read.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.offset) for row in rows] == [(0, i) for i in range(90, 100)] + [
        (1, i) for i in range(100)
    ]
    assert [(row.key and bytes(row.key), row.value and bytes(row.value)) for row in rows[10:]] == _messages(100)
    assert all(before <= row.timestamp <= time.time() * 1000 for row in rows)
    assert source.read(end, end).collect() == []
    here = source.read_here({(topic_name, 0): 90, (topic_name, 1): 0}, end)
    assert here is not None and here.schema.names == read.columns
    assert tuples(here) == rows
    assert tuples(by_tasks(source, {(topic_name, 0): 90, (topic_name, 1): 0}, end)) == rows
    assert source.read_parts(end, end) is None
    nothing = source.read_here(end, end)
    assert nothing is not None and len(nothing) == 0
    source.close()


def test_what_is_large_or_needs_the_client_of_java_is_left_to_spark(
    spark: SparkSession, broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(100))
    of_java = {"kafka.default.api.timeout.ms": "30000"}
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name], options=of_java)
    assert source.read_here({}, source.end_offsets()) is None
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    monkeypatch.setattr(tasks, "SMALL_BYTES", 100)
    assert source.read_here({}, source.end_offsets()) is None
    monkeypatch.undo()
    read = source.read_here({}, source.end_offsets())
    assert read is not None and len(read) == 100, "too much once is no reason to give up"
    monkeypatch.setattr(tasks, "SMALL_ROWS", 99)
    assert source.read_here({}, source.end_offsets()) is None
    source.close()


def test_one_partition_is_read_by_several_tasks(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(1000))
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    read = source.read({}, source.end_offsets())
    assert read.rdd.getNumPartitions() >= 2
    assert read.count() == 1000


def test_new_partitions_and_topics_of_a_pattern_appear(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    broker.create_topic(f"{topic_name}.a")
    source = KafkaTopicSource(spark, broker.servers, topic_pattern=f"{topic_name}\\.[ab]")
    assert source.end_offsets() == {(f"{topic_name}.a", 0): 0}
    broker.add_partitions(f"{topic_name}.a", 2)
    broker.create_topic(f"{topic_name}.b")
    broker.create_topic(f"{topic_name}.bc")
    assert source.end_offsets() == {(f"{topic_name}.a", 0): 0, (f"{topic_name}.a", 1): 0, (f"{topic_name}.b", 0): 0}
    assert KafkaTopicSource(spark, broker.servers, topic_pattern="no such topic").end_offsets() == {}
    with pytest.raises(UsageError, match="Unclosed group"):
        KafkaTopicSource(spark, broker.servers, topic_pattern="a(").end_offsets()


def test_a_cap_counts_bytes_by_a_sample(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 2)
    broker.produce(topic_name, [(None, b"x" * 100)] * 400, 0)
    broker.produce(topic_name, [(None, b"x" * 5000)] * 40, 1)
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    start, end = source.beginning_offsets(), source.end_offsets()
    assert source.cap(start, end, 1000, 1 << 30) == end
    assert source.cap(start, end, 44, 1 << 30) == {(topic_name, 0): 40, (topic_name, 1): 4}
    cut = source.cap(start, end, 1000, 24_000)
    taken = 100 * cut[topic_name, 0] + 5000 * cut[topic_name, 1]
    assert 10_000 < taken <= 24_000 + 5100
    assert source.cap(end, end, 1, 1) == end


def test_tasks_of_our_own_share_a_partition(
    spark: SparkSession, broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic_name, 2)
    broker.produce(topic_name, _messages(1000), 1)
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    monkeypatch.setattr(direct_reads, "_PART_ROWS", 300)
    parts = source.read_parts({}, source.end_offsets())
    assert parts is not None and parts.number == min(4, spark.sparkContext.defaultParallelism)
    found = [
        set(pa.Table.from_batches(parts.read([pa.record_batch([pa.array([at])], ["id"])])).column("offset").to_pylist())
        for at in range(parts.number)
    ]
    assert set.union(*found) == {*range(1000)} and sum(map(len, found)) == 1000


def test_tasks_of_our_own_name_what_is_gone(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    """Retention may also remove messages while they are read."""
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(20))
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    end = source.end_offsets()
    parts = source.read_parts({}, end)
    assert parts is not None
    broker.trim(topic_name, 0, 12)
    with pytest.raises(SourceFault, match="out of range"):
        list(parts.read([pa.record_batch([pa.array([0])], ["id"])]))
    of_java = KafkaTopicSource(
        spark, broker.servers, topics=[topic_name], options={"kafka.default.api.timeout.ms": "30000"}
    )
    assert of_java.read_parts({(topic_name, 0): 15}, end) is None
    source.close()


def test_messages_that_are_gone_are_named(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(20))
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    end = source.end_offsets()
    broker.trim(topic_name, 0, 12)
    assert source.beginning_offsets() == {(topic_name, 0): 12}
    with pytest.raises(SourceFault, match=f"'{topic_name}', partition 0: wanted offset 5, but .* still there is 12"):
        source.read({(topic_name, 0): 5}, end)
    assert source.read({(topic_name, 0): 12}, end).count() == 8
    assert source.read({}, end).count() == 8, "from the beginning that there is"


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(
    spark: SparkSession, broker: Broker, topic_name: str
) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(20))
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    end = source.end_offsets()
    broker.delete_topic(topic_name)
    with pytest.raises(SourceFault, match=f"has no topic '{topic_name}'"):
        source.read({}, end)
    broker.create_topic(topic_name)
    with pytest.raises(SourceFault, match="ends at 0; was the topic deleted and created again"):
        source.read({(topic_name, 0): 10}, end)


def test_kafka_options_reach_listing_and_reading(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    """A transaction that is open hides its messages from both, and only from a committed reader."""
    from confluent_kafka import Producer

    broker.create_topic(topic_name)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic_name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"a")
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"b")
    producer.flush(30)
    committed = KafkaTopicSource(
        spark, broker.servers, topics=[topic_name], options={"kafka.isolation.level": "read_committed"}
    )
    every = KafkaTopicSource(spark, broker.servers, topics=[topic_name])
    assert (committed.end_offsets(), every.end_offsets()) == ({(topic_name, 0): 2}, {(topic_name, 0): 3})
    assert [bytes(row.value) for row in committed.read({}, committed.end_offsets()).collect()] == [b"a"]
    assert [bytes(row.value) for row in every.read({}, every.end_offsets()).collect()] == [b"a", b"b"]
    assert values_here(committed) == [b"a"]
    assert values_here(every) == [b"a", b"b"]
    assert by_tasks(committed, {}, committed.end_offsets()).column("value").to_pylist() == [b"a"]
    assert by_tasks(every, {}, every.end_offsets()).column("value").to_pylist() == [b"a", b"b"]
    producer.abort_transaction(30)
    # The broker shows the end of a transaction a moment after it answered the client.
    deadline = time.monotonic() + 30
    while committed.end_offsets() != {(topic_name, 0): 4}:
        assert time.monotonic() < deadline
    assert [bytes(row.value) for row in committed.read({}, committed.end_offsets()).collect()] == [b"a"]
    assert values_here(committed) == [b"a"]


@pytest.mark.slow
def test_a_broker_that_was_away_is_found_again(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name)
    broker.produce(topic_name, _messages(10))
    quick = {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"}
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name], options=quick)
    assert source.end_offsets() == {(topic_name, 0): 10}
    broker.stop()
    try:
        with pytest.raises(SourceFault, match=f"Kafka at {broker.servers}: TimeoutException"):
            source.end_offsets()
    finally:
        broker.start()
    deadline = time.monotonic() + 60
    while True:  # It answers this client a moment later than the fixture's.
        try:
            assert source.end_offsets() == {(topic_name, 0): 10}
            break
        except SourceFault:
            assert time.monotonic() < deadline
    assert source.read({}, source.end_offsets()).count() == 10


def test_a_server_that_cannot_be_is_a_fault(spark: SparkSession) -> None:
    with pytest.raises(SourceFault, match=r"no\.such\.host\.invalid.*bootstrap"):
        KafkaTopicSource(spark, "no.such.host.invalid:9092", topics=["t"]).end_offsets()


def test_a_job_whose_tasks_cannot_read_goes_on_by_the_source_of_spark(
    spark: SparkSession,
    broker: Broker,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Executors may lack the client, or a file of the login, that the driver has."""

    def fails(_servers: str, _options: object, _shares: object) -> ArrowTask:
        def read(_batches: object) -> Iterator[pa.RecordBatch]:
            raise SourceFault("on an executor: reading topics needs the Kafka client")
            yield

        return read

    broker.create_topic(topic_name)
    simple, known = encoder(SimpleConfig()), table(1)
    sent = [simple.bootstrap(known), *simple.rows([insert(known, 10 + at, id=str(at)) for at in range(3)])]
    broker.produce(topic_name, [(one.key, one.value) for one in [*sent, simple.watermark(100)] if one is not None])
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(direct_reads, "_read_shares", fails)
    (tmp_path / "job.toml").write_text(
        f'[job]\nname = "by-spark"\n[source]\nkind = "kafka"\nprotocol = "simple"\n'
        f'bootstrap-servers = "{broker.servers}"\ntopics = ["{topic_name}"]\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
    )
    with caplog.at_level("WARNING"):
        assert loop.run(load_job(tmp_path / "job.toml"), once=True).changes == 3
    assert "cannot read the topic themselves" in caplog.text and "needs the Kafka client" in caplog.text


def test_topics_say_how_long_they_keep_messages(spark: SparkSession, broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 1, {"retention.ms": "86400000"})
    broker.create_topic(f"{topic_name}-forever", 1, {"retention.ms": "-1"})
    source = KafkaTopicSource(spark, broker.servers, topics=[topic_name, f"{topic_name}-forever"])
    assert source.retention() == {topic_name: 86_400.0}
    source.close()
    gone = KafkaTopicSource(spark, broker.servers, topics=[f"{topic_name}-gone"])
    assert gone.retention() == {}, "it is only a warning"
    gone.close()


def test_offsets_of_a_job_are_those_of_its_consumer_group(
    spark: SparkSession, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    broker.create_topic(topic_name, 2)
    encode = encoder(SimpleConfig())
    of = table(5)
    sent = [encode.bootstrap(of), *encode.rows([insert(of, 10, id="1")]), encode.watermark(20)]
    broker.produce(topic_name, [(one.key, one.value) for one in sent if one is not None])
    file = tmp_path / "job.toml"
    file.write_text(
        f'[job]\nname = "group"\nidle-partition-timeout = "0s"\n[source]\nkind = "kafka"\ntopics = ["{topic_name}"]\n'
        f'bootstrap-servers = "{broker.servers}"\nprotocol = "simple"\nconsumer-group = "lag-{topic_name}"\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
    )
    loop.run(load_job(file), once=True)
    (of_group,) = broker.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(f"lag-{topic_name}")]).values()
    found = {(one.topic, one.partition): one.offset for one in of_group.result(30).topic_partitions}
    assert found == {(topic_name, 0): 3, (topic_name, 1): 0}


def test_a_group_that_cannot_be_committed_to_is_a_warning(
    spark: SparkSession, broker: Broker, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic(topic_name)
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": f"taken-{topic_name}"})
    consumer.subscribe([topic_name])
    try:
        while not consumer.assignment():
            consumer.poll(0.2)
        source = KafkaTopicSource(spark, broker.servers, topics=[topic_name], group=f"taken-{topic_name}")
        source.publish({(topic_name, 0): 0})
    finally:
        consumer.close()
    assert "consumer group taken-" in caplog.text
