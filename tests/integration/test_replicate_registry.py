"""Avro from a real broker with a real registry: a schema that grows, unknown ids, wrong passwords, a registry down."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import Rows, lake, read_table, replicate
from tests.support.apicurio_registry import Registry
from tests.support.kafka_broker import Broker
from tests.support.registry_proxy import guarded
from ticdc_spark.clients.registry import SchemaRegistry
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import RegistryFault, RejectedMessage
from ticdc_spark.model import Row, RowChange
from ticdc_spark.protocols.avro.encode import AvroConfig, encoder

ZONE = "Europe/Berlin"
JOB = """
[job]
name = "avro"
source-timezone = "{zone}"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
schema-registry = "{registry}"
"schema-registry.timeout" = {timeout}
"schema-registry.max.retries" = 0
[sink]
kind = "iceberg"
warehouse = "lake"
"""
COLUMNS = "id BIGINT UNSIGNED PRIMARY KEY, price DECIMAL(10,2), at TIMESTAMP(3) NULL, kind ENUM('a','b')"
V1 = parse_create(f"CREATE TABLE shop.sold ({COLUMNS})", "shop")
V2 = parse_create(f"CREATE TABLE shop.sold ({COLUMNS}, note VARCHAR(9) DEFAULT 'none')", "shop")
FIRST: Row = {"id": str(2**64 - 1), "price": "-0.50", "at": "2024-07-01 10:00:00.250", "kind": "2"}
LAST: Row = {"id": "2", "price": None, "at": None, "kind": "1", "note": None}
UNKNOWN = b"\0\x7f\xff\xff\xff\2"
"""A message with the id 2147483647."""
HIDDEN = "_ticdc_commit_ts"


def send(broker: Broker, url: str, topic: str, changes: Sequence[RowChange]) -> None:
    """Write changes as TiCDC does: schemas to the registry, messages to the topic."""
    config = AvroConfig(enable_tidb_extension=True, time_zone=ZONE, topic=lambda schema, table: topic)
    with SchemaRegistry(url) as registry:
        sent = list(encoder(config, registry).rows(changes))
    broker.produce(topic, [(one.key, one.value) for one in sent])


def insert(row: Row, ts: int) -> RowChange:
    return RowChange(op="insert", table=V2 if "note" in row else V1, commit_ts=ts, after=row)


def job(folder: Path, broker: Broker, topic: str, registry: str, more: str = "", timeout: int = 30) -> Path:
    file = folder / "job.toml"
    text = JOB.format(servers=broker.servers, topic=topic, registry=registry, zone=ZONE, timeout=timeout)
    file.write_text(text.replace("[source]", f"{more}\n[source]"))
    return file


def rows(spark: SparkSession, folder: Path) -> Rows:
    found = read_table(lake(spark, folder), "shop", "sold")
    return sorted(({**row, HIDDEN: bool(row.pop(HIDDEN))} for row in found), key=lambda row: int(row["id"]))


def test_rows_there_and_a_schema_that_grows(
    broker: Broker, registry: Registry, spark: SparkSession, tmp_path: Path, topic_name: str
) -> None:
    broker.create_topic(topic_name)
    file = job(tmp_path, broker, topic_name, registry.url)
    gone: Row = {"id": "1", "price": "1.00", "at": None, "kind": None}
    send(broker, registry.url, topic_name, [insert(FIRST, 1 << 20), insert(gone, 2 << 20)])
    replicate(file)
    assert [int(row["id"]) for row in rows(spark, tmp_path)] == [1, 2**64 - 1]

    update = RowChange(
        op="update", table=V2, commit_ts=3 << 20, before={**FIRST, "note": None}, after={**FIRST, "note": "new"}
    )
    delete = RowChange(op="delete", table=V2, commit_ts=5 << 20, before={**gone, "note": None})
    send(broker, registry.url, topic_name, [update, insert(LAST, 4 << 20), delete])
    replicate(file)
    found = rows(spark, tmp_path)
    assert [row["note"] for row in found] == [None, "new"], "a default stands in the place of NULL"
    assert [str(row["price"]) for row in found] == ["None", "-0.50"]
    assert [row["kind"] for row in found] == ["a", "b"]
    assert str(found[1]["at"]) == "2024-07-01 10:00:00.250000+00:00", "local text of the changefeed's zone"


@contextmanager
def frozen(registry: Registry) -> Iterator[None]:
    """A registry that takes connections and answers nothing, and comes back with all that it had."""
    assert registry.process is not None
    registry.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        registry.process.send_signal(signal.SIGCONT)


def test_a_registry_that_does_not_answer_loses_nothing(
    broker: Broker, registry: Registry, spark: SparkSession, tmp_path: Path, topic_name: str
) -> None:
    broker.create_topic(topic_name)
    file = job(tmp_path, broker, topic_name, registry.url, 'on-reject = "continue"')
    send(broker, registry.url, topic_name, [insert(FIRST, 1 << 20)])
    replicate(file)
    send(broker, registry.url, topic_name, [insert(LAST, 2 << 20)])
    job(tmp_path, broker, topic_name, registry.url, 'on-reject = "continue"', timeout=3)
    with (
        frozen(registry),
        pytest.raises(RegistryFault, match=r"schema registry http://127\.0\.0\.1.*schema id \d+: .*time"),
    ):
        replicate(file)
    assert len(rows(spark, tmp_path)) == 1
    replicate(job(tmp_path, broker, topic_name, registry.url, 'on-reject = "continue"'))
    assert len(rows(spark, tmp_path)) == 2, "the message was taken for a bad one"


def test_an_id_that_the_registry_does_not_have(
    broker: Broker, registry: Registry, spark: SparkSession, tmp_path: Path, topic_name: str
) -> None:
    broker.create_topic(topic_name)
    send(broker, registry.url, topic_name, [insert(FIRST, 1 << 20)])
    broker.produce(topic_name, [(None, UNKNOWN)])
    send(broker, registry.url, topic_name, [insert(LAST, 2 << 20)])
    reported = rf"schema id 2147483647 is not known to the registry \(topic {topic_name}, partition 0, offset 1\)"
    with pytest.raises(RejectedMessage, match=reported):
        replicate(job(tmp_path, broker, topic_name, registry.url))
    replicate(job(tmp_path, broker, topic_name, registry.url, 'on-reject = "continue"'))
    assert len(rows(spark, tmp_path)) == 2
    (letter,) = read_table(lake(spark, tmp_path), "_ticdc_spark", "dead_letters_avro")
    assert letter["offset"] == 1 and letter["value"] == UNKNOWN


USER, PASSWORD = "us@er", "p:w/ö"


def test_a_wrong_password_is_a_fault_and_never_shown(
    broker: Broker,
    registry: Registry,
    spark: SparkSession,
    tmp_path: Path,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker.create_topic(topic_name)
    send(broker, registry.url, topic_name, [insert(FIRST, 1 << 20)])
    with guarded(registry, USER, PASSWORD) as address:
        file = job(tmp_path, broker, topic_name, f"http://us%40er:${{env:REGISTRY_PASSWORD}}@{address}")
        monkeypatch.setenv("REGISTRY_PASSWORD", "wrong-one")
        with pytest.raises(RegistryFault, match="Unauthorized") as fault:
            replicate(file)
        assert "wrong-one" not in str(fault.value)
        monkeypatch.setenv("REGISTRY_PASSWORD", "p%3Aw%2F%C3%B6")
        replicate(file)
    assert len(rows(spark, tmp_path)) == 1
