"""``read_topic`` over a real broker: schemas in other partitions, a real registry, rows that are kept outside Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.integration.test_replicate_registry import FIRST, LAST, UNKNOWN, ZONE, insert, send
from tests.spark.simple_topic import insert as row
from tests.spark.simple_topic import table
from tests.support.apicurio_registry import Registry
from tests.support.kafka_broker import Broker
from ticdc_spark import KafkaSource, RegistryFault, SourceFault, UsageError, read_topic
from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.model import Column, ColumnType
from ticdc_spark.protocols.base import Encoded, ReadOptions
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

TEXT = ColumnType(name="varchar", length=2000, charset="utf8mb4", collate="utf8mb4_bin")
T = table(10, Column(name="v", type=TEXT), name="t")
SIMPLE = encoder(SimpleConfig())


def produce(broker: Broker, topic: str, sent: list[Encoded | None], partition: int = 0) -> None:
    broker.produce(topic, [(one.key, one.value) for one in sent if one is not None], partition)


def source(broker: Broker, topic: str, **more: Any) -> KafkaSource:
    return KafkaSource(bootstrap_servers=broker.servers, topics=(topic,), **more)


def events(found: DataFrame) -> list[dict[str, Any]]:
    """In the order of the log of each partition."""
    rows = sorted(found.toArrow().to_pylist(), key=lambda row: (row["partition"], row["offset"], row["seq"]))
    return [
        {**row, **{side: None if row[side] is None else json.loads(row[side]) for side in ("before", "after")}}
        for row in rows
    ]


def test_partitions_are_read_between_offsets(broker: Broker, spark: SparkSession, topic_name: str) -> None:
    """The schema of partition 1 is in partition 0; the protocol is detected."""
    broker.create_topic(topic_name, 2)
    produce(broker, topic_name, [SIMPLE.bootstrap(T), *SIMPLE.rows([row(T, 20, id="1", v="a")])])
    produce(broker, topic_name, [*SIMPLE.rows([row(T, 21, id="2", v=None)]), SIMPLE.watermark(30)], 1)
    broker.produce(topic_name, [(None, b"no message")], 1)
    found = events(read_topic(source(broker, topic_name), spark=spark))
    assert [(one["partition"], one["offset"], one["kind"]) for one in found] == [
        (0, 0, "bootstrap"),
        (0, 1, "insert"),
        (1, 0, "insert"),
        (1, 1, "watermark"),
        (1, 2, "rejected"),
    ]
    assert [one["after"] for one in found if one["kind"] == "insert"] == [{"id": "1", "v": "a"}, {"id": "2", "v": None}]
    part = read_topic(
        source(broker, topic_name),
        start={(topic_name, 1): 1},
        end={(topic_name, 0): 1, (topic_name, 1): 2},
        spark=spark,
    )
    assert [(one["partition"], one["offset"]) for one in events(part)] == [(0, 0), (1, 1)]
    # What comes after the call is not in it, and what it names stays readable while the topic grows.
    later = read_topic(source(broker, topic_name), spark=spark)
    produce(broker, topic_name, list(SIMPLE.rows([row(T, 40, id="3", v="c")])))
    assert len(events(later)) == 5


def test_offsets_that_retention_removed_are_a_fault(broker: Broker, spark: SparkSession, topic_name: str) -> None:
    broker.create_topic(topic_name)
    produce(broker, topic_name, [SIMPLE.bootstrap(T), *SIMPLE.rows([row(T, 20, id="1", v="a")])])
    broker.trim(topic_name, 0, 1)
    with pytest.raises(SourceFault, match=r"wanted offset 0, but the first one still there is 1"):
        read_topic(source(broker, topic_name), start={(topic_name, 0): 0}, spark=spark)
    (only,) = events(read_topic(source(broker, topic_name), spark=spark))
    assert only["offset"] == 1 and only["kind"] == "rejected" and "schema" in only["reason"]
    with pytest.raises(SourceFault, match=r"has no topic 'no\.such'"):
        read_topic(source(broker, "no.such"), spark=spark)


def test_registered_schemas_are_fetched(
    broker: Broker, schema_registry: Registry, spark: SparkSession, topic_name: str
) -> None:
    broker.create_topic(topic_name)
    send(broker, schema_registry.url, topic_name, [insert(FIRST, 1 << 20), insert(LAST, 2 << 20)])
    broker.produce(topic_name, [(None, UNKNOWN)])
    avro = source(broker, topic_name, protocol="avro", schema_registry=schema_registry.url)
    zoneless = events(read_topic(avro, spark=spark))[0]
    assert zoneless["kind"] == "rejected" and "source-timezone" in zoneless["reason"]
    first, last, unknown = events(read_topic(avro, ReadOptions(source_timezone=ZONE), spark=spark))
    assert (first["after"]["id"], first["after"]["price"], first["commit_ts"]) == (str(2**64 - 1), "-0.50", 1 << 20)
    assert "note" not in first["after"] and last["after"]["id"] == "2" and "note" in last["after"]
    assert unknown["kind"] == "rejected" and "2147483647" in unknown["reason"]
    with pytest.raises(UsageError, match="schema-registry is missing"):
        read_topic(source(broker, topic_name, protocol="avro"), spark=spark)
    gone = source(
        broker,
        topic_name,
        protocol="avro",
        schema_registry="http://127.0.0.1:1/apis/ccompat/v7",
        schema_registry_options={"max.retries": 0},
    )
    with pytest.raises(RegistryFault, match=r"127\.0\.0\.1:1"):
        read_topic(gone, spark=spark)


def test_rows_in_the_claim_check_storage_are_read(
    broker: Broker, spark: SparkSession, tmp_path: Path, topic_name: str
) -> None:
    kept = ClaimCheckStorage(str(tmp_path / "kept"))
    large = encoder(SimpleConfig(large_message_handle="claim-check", max_message_bytes=600, store=kept.store))
    wanted = {"id": "1", "v": "x" * 900}
    broker.create_topic(topic_name)
    produce(broker, topic_name, [large.bootstrap(T), *large.rows([row(T, 20, **wanted)]), large.watermark(30)])
    assert len(list((tmp_path / "kept").iterdir())) == 1
    found = events(read_topic(source(broker, topic_name, claim_check_storage=str(tmp_path / "kept")), spark=spark))
    assert [one["after"] for one in found if one["kind"] == "insert"] == [wanted]
    (keys,) = (one for one in events(read_topic(source(broker, topic_name), spark=spark)) if one["kind"] == "insert")
    assert keys["partial"] and keys["after"] == {"id": "1"}
    (tmp_path / "empty").mkdir()
    lost = read_topic(source(broker, topic_name, claim_check_storage=str(tmp_path / "empty")), spark=spark)
    with pytest.raises(PySparkException, match="is not in the claim check storage"):
        events(lost)
