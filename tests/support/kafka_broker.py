"""A real Kafka broker for tests: one node, KRaft, on free loopback ports, from the jars of its Maven package."""

import os
import re
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.support.fetched import fetched, retrieve
from tests.support.local_server import QUICK_START, free_ports

VERSION = "4.3.1"

_FORMATTED: dict[str, bytes] = {}
"""The files of a data folder without topics; empty until there is one."""

Record = tuple[bytes | None, bytes | None]
"""Key and value."""


class Broker:
    """A broker that can be stopped, killed and started again with its data and its ports."""

    def __init__(
        self,
        folder: Path,
        options: Mapping[str, str] | None = None,
        *,
        protocols: Sequence[str] = (),
        java_options: Sequence[str] = QUICK_START,
    ) -> None:
        """``protocols``: further listeners, by Kafka's name of their security: SSL, SASL_SSL, SASL_PLAINTEXT."""
        self.folder = folder
        self._java_options = java_options
        self.port, controller, *others = free_ports(2 + len(protocols))
        self.listeners = {name: f"127.0.0.1:{port}" for name, port in zip(protocols, others, strict=True)}
        self.servers = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(
                (
                    f"PLAINTEXT://127.0.0.1:{self.port}",
                    f"CONTROLLER://127.0.0.1:{controller}",
                    *(f"{name}://{address}" for name, address in self.listeners.items()),
                )
            ),
            "listener.security.protocol.map": ",".join(
                (
                    "PLAINTEXT:PLAINTEXT",
                    "CONTROLLER:PLAINTEXT",
                    *(f"{name}:{name}" for name in protocols),
                )
            ),
            "log.dirs": str(folder / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **(options or {}),
        }
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._format(folder / "data")

    def start(self) -> None:
        """Start, and wait until a client is answered."""
        self._process = self._java("kafka.Kafka", str(self._settings))
        deadline = time.monotonic() + 60
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"the broker ended: {self.log()}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    self.admin.list_topics(timeout=5)
                    return
            except (OSError, KafkaException):
                if time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(f"the broker does not answer: {self.log()}") from None
                time.sleep(0.1)

    @property
    def pid(self) -> int:
        """Of the process; 0 if there is none."""
        return 0 if self._process is None else self._process.pid

    def stop(self) -> None:
        """Stop as an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill without warning."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start, with the same data."""
        self.stop()
        self.start()

    def log(self) -> str:
        """What the broker printed last."""
        return (self.folder / "broker.log").read_text(errors="replace")[-4000:]

    @cached_property
    def admin(self) -> AdminClient:
        """A client for what is not wrapped here. It logs nothing: a stopped broker is part of the tests."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and wait until it can be written."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([topic])[name].result(30)
        self._wait_until_led(name, partitions)
        return name

    def add_partitions(self, name: str, total: int) -> None:
        """Raise a topic's number of partitions."""
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(30)
        self._wait_until_led(name, total)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        admin = self.admin
        admin.delete_topics([name])[name].result(30)
        while name in admin.list_topics(timeout=10).topics:
            time.sleep(0.05)

    def trim(self, name: str, partition: int, first: int) -> None:
        """Remove the messages before an offset, as retention does."""
        at = TopicPartition(name, partition, first)
        self.admin.delete_records([at])[at].result(30)

    def produce(
        self, topic: str, records: Iterable[Record], partition: int = 0, *, config: Mapping[str, str] | None = None
    ) -> None:
        """Send records to one partition, in order, and wait until the broker has them all."""
        failed: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, "log_level": 0, **(config or {})})
        for i, (key, value) in enumerate(records):
            producer.produce(topic, value, key, partition, on_delivery=lambda error, _: error and failed.append(error))
            if i % 1000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0
        assert not failed, failed[0]

    def _wait_until_led(self, name: str, partitions: int) -> None:
        admin = self.admin
        while True:
            found = admin.list_topics(name, timeout=10).topics[name].partitions
            if len(found) == partitions and all(p.leader >= 0 and p.error is None for p in found.values()):
                return
            time.sleep(0.05)

    def _format(self, data: Path) -> None:
        """Make the data folder of a new cluster. The first one is Kafka's work, which takes seconds."""
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")  # "-…" is an option
        if _FORMATTED:
            data.mkdir()
            for name, text in _FORMATTED.items():
                (data / name).write_bytes(re.sub(rb"(?m)^cluster\.id=.*", f"cluster.id={cluster}".encode(), text))
            return
        if self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)).wait(60):
            raise RuntimeError(self.log())
        _FORMATTED.update({path.name: path.read_bytes() for path in data.iterdir()})

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in os.environ else "java"
        options = ["-Xmx512m", "-XX:+UseSerialGC", *self._java_options]
        with (self.folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [java, *options, "-cp", str(kafka_jars() / "*"), main, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)
            self._process = None


def kafka_jars() -> Path:
    """The folder with the broker's jars."""
    return fetched(f"kafka-{VERSION}", _fill)


def _fill(folder: Path) -> Path:
    package = ("org.apache.kafka", "kafka_2.13", VERSION)
    retrieve(folder, f"Kafka {VERSION}", "-dependency", *package, "-types", "jar", "bundle")
    return folder
