"""``ticdc-spark check`` and the mistakes of a first job file, before a real broker and a real registry."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.integration.test_replicate_registry import FIRST, insert, send
from tests.reference.workloads import FAULTS, messages_of
from tests.support.apicurio_registry import Registry
from tests.support.kafka_broker import Broker
from tests.unit.cli.test_check import check, job_file, of_kafka
from ticdc_spark.topics import kafka_reader

SENT = [(message.key, message.value) for message in messages_of(FAULTS)[:40]]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    broker.create_topic(topic_name, 2)
    broker.produce(topic_name, SENT)
    return topic_name


def test_a_job_that_can_run(tmp_path: Path, broker: Broker, topic: str) -> None:
    code, said = check(job_file(tmp_path, of_kafka(broker.servers, f'topics = ["{topic}"]')))
    assert code == 0, said
    assert f"{topic}; 2 partitions, about 40 messages" in said["source"]
    assert said["protocol"] == "ok simple, by the first messages"


def test_a_port_where_nobody_listens(
    tmp_path: Path, topic: str, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_reader, "_METADATA_SECONDS", 2.0)
    began = time.monotonic()
    code, said = check(job_file(tmp_path, of_kafka(f"127.0.0.1:{closed_port}", f'topics = ["{topic}"]')))
    assert (code, said["source"].split()[0], "protocol" in said) == (1, "FAILED", False), said
    assert f"127.0.0.1:{closed_port}" in said["source"]
    assert time.monotonic() - began < 60


def test_a_port_of_something_else(
    tmp_path: Path, schema_registry: Registry, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts connections, and is no broker."""
    monkeypatch.setattr(kafka_reader, "_METADATA_SECONDS", 2.0)
    code, said = check(job_file(tmp_path, of_kafka(f"127.0.0.1:{schema_registry.port}", f'topics = ["{topic}"]')))
    assert (code, said["source"].split()[0], "protocol" in said) == (1, "FAILED", False), said
    assert f"127.0.0.1:{schema_registry.port}" in said["source"]


def test_topics_that_are_not_there(tmp_path: Path, broker: Broker, topic: str) -> None:
    code, said = check(job_file(tmp_path, of_kafka(broker.servers, f'topics = ["{topic}", "no.such"]')))
    assert (code, "has no topic 'no.such'" in said["source"]) == (1, True), said
    code, said = check(job_file(tmp_path, of_kafka(broker.servers, 'topic-pattern = "no[.]such.*"')))
    assert (code, "no topic matches 'no[.]such.*' yet" in said["source"]) == (0, True), said


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_is_refused(tmp_path: Path, broker: Broker, topic_name: str, policy: str) -> None:
    broker.create_topic(topic_name, 1, {"cleanup.policy": policy})
    broker.produce(topic_name, [(b"k", value) for _, value in SENT])
    code, said = check(job_file(tmp_path, of_kafka(broker.servers, f'topics = ["{topic_name}"]')))
    assert (code, f"topic {topic_name} has cleanup.policy = compact" in said["source"]) == (4, True), said


@pytest.mark.parametrize("named", ["canal-json", "open", "debezium"])
def test_another_protocol(tmp_path: Path, broker: Broker, topic: str, named: str) -> None:
    file = job_file(tmp_path, of_kafka(broker.servers, f'topics = ["{topic}"]', f'protocol = "{named}"'))
    code, said = check(file)
    assert (code, f"protocol is {named}" in said["protocol"], "look like simple" in said["protocol"]) == (
        2,
        True,
        True,
    ), said


def test_a_registry_that_is_there_and_one_that_is_not(
    tmp_path: Path, broker: Broker, schema_registry: Registry, topic_name: str, closed_port: int
) -> None:
    broker.create_topic(topic_name)
    send(broker, schema_registry.url, topic_name, [insert(FIRST, 1 << 20)])

    def of_avro(url: str) -> Path:
        more = f'protocol = "avro"\nschema-registry = "{url}"\n"schema-registry.max.retries" = "0"'
        return job_file(tmp_path, of_kafka(broker.servers, f'topics = ["{topic_name}"]', more))

    code, said = check(of_avro(schema_registry.url))
    assert (code, said["registry"], said["protocol"].split()[:2]) == (0, "ok it answers", ["ok", "avro,"]), said
    for wrong in (
        f"http://127.0.0.1:{closed_port}/apis/ccompat/v7",
        f"http://{broker.servers}",
        f"http://127.0.0.1:{schema_registry.port}/nothing/here",
    ):
        code, said = check(of_avro(wrong))
        assert (code, said["registry"].split()[0]) == (1, "FAILED"), (wrong, said)
        assert wrong.removeprefix("http://").partition("/")[0] in said["registry"], said
