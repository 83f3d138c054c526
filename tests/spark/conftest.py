"""Spark, started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_session import allow_open_sockets, shared_session


def pytest_configure(config: pytest.Config) -> None:
    """Allow what PySpark does."""
    allow_open_sockets(config)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that all tests share."""
    with shared_session() as session:
        yield session


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    """An empty folder for a job; Spark is there before the job needs it."""
    return tmp_path
