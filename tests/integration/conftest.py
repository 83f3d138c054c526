"""Real servers, started once and ended with the session."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.binlog_stream import OPTIONS
from tests.integration.rest_lake import RestLake
from tests.support.apicurio_registry import Registry
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server, running
from tests.support.postgres_server import PostgresServer, running_postgres
from tests.support.rest_catalog import RestCatalog
from tests.support.rest_proxy import proxied
from tests.support.s3_server import S3Server
from tests.support.secure_broker import SecureBroker
from tests.support.spark_session import allow_open_sockets, shared_session


def pytest_configure(config: pytest.Config) -> None:
    """Allow what PySpark does."""
    allow_open_sockets(config)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker that tests share; each makes its own topics."""
    started = Broker(tmp_path_factory.mktemp("kafka"))
    try:
        started.start()
        yield started
    finally:
        started.kill()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """One that the test may stop."""
    started = Broker(tmp_path / "kafka")
    started.start()
    try:
        yield started
    finally:
        started.kill()


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A Kafka broker with TLS and logins that tests share; its plain listener makes topics."""
    found = SecureBroker(tmp_path_factory.mktemp("secure"))
    yield found
    found.broker.kill()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The Spark session that all tests share."""
    with shared_session() as session:
        yield session


@contextmanager
def _store(folder: Path) -> Iterator[S3Server]:
    started = S3Server(folder)
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server of the S3 protocol that tests share; each has a warehouse of its own."""
    with _store(tmp_path_factory.mktemp("store")) as started:
        yield started


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[S3Server]:
    """A server that a test may stop."""
    with _store(tmp_path / "store") as started:
        yield started


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """A REST catalog over a warehouse on this disk, which tests share."""
    folder = tmp_path_factory.mktemp("rest")
    started = RestCatalog(folder, str(folder / "lake"), {})
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture
def rest_lake(spark: SparkSession, rest_catalog: RestCatalog) -> Iterator[RestLake]:
    """Its tables, behind a proxy of the test's own; the database ``s`` is empty."""
    with proxied(rest_catalog.url) as proxy:
        lake = RestLake(spark, proxy, rest_catalog.folder / "lake")
        lake.empty()
        yield lake


@contextmanager
def _registry(folders: pytest.TempPathFactory) -> Iterator[Registry]:
    started = Registry(folders.mktemp("registry"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A schema registry that tests share."""
    with _registry(tmp_path_factory) as started:
        yield started


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A schema registry of one module, whose tests may stop it."""
    with _registry(tmp_path_factory) as started:
        yield started


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A MariaDB that jobs write to, which tests share. Only the jobs die, never the server."""
    with running(tmp_path_factory.mktemp("target"), "--innodb-flush-log-at-trx-commit=0") as started:
        yield started


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that jobs write to, which tests share. Only the jobs die, never the server."""
    with running_postgres() as started:
        yield started


_NUMBERS = count(1)


@pytest.fixture
def topic_name() -> str:
    """A name that no other test uses."""
    return f"topic.{next(_NUMBERS)}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a recording goes; not there yet."""
    return tmp_path / "recorded"


@pytest.fixture(scope="session")
def logging_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A MariaDB with a binlog, which tests share."""
    with running(tmp_path_factory.mktemp("binlog"), *OPTIONS) as started:
        yield started


@pytest.fixture
def server(logging_server: Server) -> Iterator[Server]:
    """The same with an empty database ``d``, and its settings as they were."""
    logging_server.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d CHARACTER SET utf8mb4")
    yield logging_server
    logging_server.execute(
        "SET GLOBAL binlog_format = ROW",
        "SET GLOBAL binlog_row_image = FULL",
        "SET GLOBAL binlog_row_metadata = FULL",
        "SET GLOBAL log_bin_compress = OFF",
    )
