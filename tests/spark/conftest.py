"""Spark, started once."""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_session import allow_open_sockets, shared_session
from ticdc_spark.spark import tasks


def pytest_configure(config: pytest.Config) -> None:
    """Allow what PySpark does."""
    allow_open_sockets(config)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that all tests share."""
    with shared_session() as session:
        yield session


@pytest.fixture(autouse=True)
def who_does_few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver does small batches itself, and all of these are small: in half of the tests, by their names, tasks do
    them."""
    if crc32(request.node.nodeid.encode()) % 2:
        monkeypatch.setattr(tasks, "SMALL_ROWS", 0)


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    """An empty folder for a job; Spark is there before the job needs it."""
    return tmp_path
