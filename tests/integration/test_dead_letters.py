"""Dead letters go to a topic of the job's Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.kafka_broker import Broker
from ticdc_spark.config.job import IcebergConfig, Job, KafkaSource
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.operate.dead_letters import export


def job_of(broker: Broker, folder: Path, **options: str) -> Job:
    return Job(
        name="shop",
        file=folder / "job.toml",
        source=KafkaSource(bootstrap_servers=broker.servers, topics=("cdc",), options=options),
        sink=IcebergConfig(warehouse=str(folder)),
    )


def letter(offset: int, seq: int = 0) -> dict[str, Any]:
    known = {"topic": "cdc", "partition": 3, "offset": offset, "seq": seq, "stage": "s.t", "reason": "'é' is no int"}
    return {**known, "key": b"k\xff", "value": None if offset == 7 else b"v"}


def test_each_message_is_sent_once_with_the_headers_of_kafka_connect(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    broker.create_topic(topic_name)
    job = job_of(broker, tmp_path, **{"kafka.max.poll.records": "100"})  # which only Java's client knows
    assert export(job, [letter(8), letter(7), letter(8, seq=1)], topic_name) == 2
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "test"})
    consumer.assign([TopicPartition(topic_name, 0, 0)])
    found = [consumer.poll(30.0) for _ in range(2)]
    consumer.close()
    assert [(one.key(), one.value()) for one in found] == [(b"k\xff", None), (b"k\xff", b"v")]
    assert dict(found[0].headers()) == {
        "__connect.errors.topic": b"cdc",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"7",
        "__connect.errors.connector.name": b"shop",
        "__connect.errors.stage": b"s.t",
        "__connect.errors.exception.message": "'é' is no int".encode(),
    }


def test_a_topic_that_is_not_there_or_that_the_job_reads_is_refused(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(SinkFault, match=r"1 of 1 dead letters were not accepted by missing .*Create the topic"):
        export(job_of(broker, tmp_path), [letter(1)], "missing")
    with pytest.raises(UsageError, match="cdc: the job reads this topic"):
        export(job_of(broker, tmp_path), [letter(1)], "cdc")
