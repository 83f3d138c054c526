"""Debezium's own MariaDB connector for tests: Kafka Connect, standalone, from the jars of their Maven packages."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.fetched import fetched, java, retrieve
from tests.support.kafka_broker import VERSION as KAFKA_VERSION
from tests.support.kafka_broker import Broker, kafka_jars
from tests.support.local_server import free_port
from tests.support.mariadb_server import Server

VERSION = "3.5.0.Final"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
PROBE = "debezium_probe"
"""A database besides, of whose table ``t (id)`` every row is sent too."""
_START_SECONDS = 120


class Connectors:
    """A Connect worker with connectors that follow one server's binlog from where it is now.

    A connector's topics are ``<its name>.<schema>.<table>``, and ``<its name>`` for DDL.
    """

    def __init__(
        self, folder: Path, server: Server, broker: Broker, connectors: Mapping[str, Mapping[str, str]], schema: str
    ) -> None:
        """``connectors``: by name, properties that are not the defaults; ``schema``: the database that is followed."""
        self.folder = folder
        self._server, self._broker = server, broker
        self._names = list(connectors)
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "plugins").mkdir(parents=True)
        (folder / "plugins" / "debezium").symlink_to(_connector_jars())  # one plugin is one folder in the path
        port = free_port()
        worker = {
            "bootstrap.servers": broker.servers,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "1000",
            "listeners": f"HTTP://127.0.0.1:{port}",
            "plugin.path": str(folder / "plugins"),
            "plugin.discovery": "service_load",
        }
        self._files = [_written(folder / "worker.properties", worker)]
        for at, (name, given) in enumerate(connectors.items()):
            settings = {
                "name": name,
                "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
                "database.hostname": "127.0.0.1",
                "database.port": str(server.port),
                "database.user": "root",
                "database.password": "",
                "database.server.id": str(7000 + at),
                "database.include.list": f"{schema},{PROBE}",
                "topic.prefix": name,
                "snapshot.mode": "no_data",
                "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
                "schema.history.internal.file.filename": str(folder / f"{name}.history"),
                "topic.creation.default.replication.factor": "1",
                "topic.creation.default.partitions": "1",
                **given,
            }
            self._files.append(_written(folder / f"{name}.properties", settings))

    def launch(self) -> int:
        """Start, without waiting for anything; gives the process's id."""
        classpath = ":".join(str(jars / "*") for jars in (_connect_jars(), kafka_jars()))
        command = [java(), "-Xmx1g", "-XX:+UseSerialGC", "-cp", classpath]
        command += ["org.apache.kafka.connect.cli.ConnectStandalone", *map(str, self._files)]
        with (self.folder / "connect.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.process.pid

    def start(self) -> None:
        """Start, and wait until each connector follows the binlog."""
        self._server.execute(
            f"CREATE DATABASE IF NOT EXISTS {PROBE}",
            f"CREATE TABLE IF NOT EXISTS {PROBE}.t (id INT AUTO_INCREMENT PRIMARY KEY)",
        )
        self.launch()
        deadline = time.monotonic() + _START_SECONDS
        waiting = {f"{name}.{PROBE}.t" for name in self._names}
        while waiting:
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"Debezium does not follow: {self.log()}")
            self._server.execute(f"INSERT INTO {PROBE}.t VALUES ()")
            time.sleep(0.5)
            waiting -= self._broker.admin.list_topics(timeout=10).topics.keys()

    def stop(self) -> None:
        """Stop, if it runs."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)
            self.process = None

    def log(self) -> str:
        """What it printed last."""
        return (self.folder / "connect.log").read_text(errors="replace")[-6000:]


def _written(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def _connect_jars() -> Path:
    def fill(folder: Path) -> Path:
        package = ("org.apache.kafka", "connect-runtime", KAFKA_VERSION)
        retrieve(folder, f"Kafka Connect {KAFKA_VERSION}", "-dependency", *package, "-types", "jar", "bundle")
        retrieve(folder, "a logger for it", "-dependency", "org.slf4j", "slf4j-simple", "1.7.36", "-types", "jar")
        return folder

    return fetched(f"connect-{KAFKA_VERSION}", fill)


def _connector_jars() -> Path:
    """The connector's jars, which Connect loads apart from its own."""

    def fill(folder: Path) -> Path:
        package = ("io.debezium", "debezium-connector-mariadb", VERSION)
        retrieve(folder, f"Debezium {VERSION}", "-dependency", *package, "-types", "jar", "bundle")
        return folder

    return fetched(f"debezium-mariadb-{VERSION}", fill)
