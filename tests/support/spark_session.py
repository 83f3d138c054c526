"""One local Spark for every test that needs one, in whatever folder."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from ticdc_spark.sinks.delta.lake import EXTENSION
from ticdc_spark.sinks.iceberg.kind import EXTENSIONS
from ticdc_spark.spark.session.session import coordinates, open_session, stop_session

QUICK = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.extensions": f"{EXTENSIONS},{EXTENSION}",
    # The optimizing compiler takes more from short runs than it gives; without it, the JVM keeps little room for code.
    # A collector of one thread takes less on two cores that two sessions share.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}
"""Settings for small data on few cores."""

S3_BUNDLE = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
"""Iceberg's client of S3, of the same version as its runtime for Spark."""

POSTGRES_DRIVER = "org.postgresql:postgresql:42.7.14"
"""For a JDBC catalog on PostgreSQL."""

PACKAGES = [*coordinates("iceberg", "sqlite", "kafka", "delta"), S3_BUNDLE, POSTGRES_DRIVER]
"""Every jar that a test may need."""

_users = 0


def allow_open_sockets(config: pytest.Config) -> None:
    """PySpark's ``collect`` leaves its socket to the garbage collector, which may come in any later test."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.socket:ResourceWarning")


@contextmanager
def shared_session() -> Iterator[SparkSession]:
    """The session; the last of its users stops it."""
    global _users
    session = open_session("tests", QUICK, PACKAGES)
    _users += 1
    try:
        yield session
    finally:
        _users -= 1
        if not _users:
            stop_session(session)
