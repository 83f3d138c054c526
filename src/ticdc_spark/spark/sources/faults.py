"""Turns errors of Spark while it reads messages into errors of the source."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ticdc_spark.errors import SourceFault
from ticdc_spark.spark.sources.base import KeyValue


@contextmanager
def source_faults(what: str) -> Iterator[None]:
    """Turn errors of Spark and the JVM into ``SourceFault``."""
    try:
        yield
    except (Py4JJavaError, Py4JError, PySparkException) as error:
        reason = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
        message = f"{what}: {reason.strip()[:2000]}"
        raise SourceFault(message) from error


def keys_and_values(messages: DataFrame, limit: int) -> list[KeyValue]:
    """Collect at most ``limit`` messages. Raises: SourceFault"""
    with source_faults("the first messages cannot be read"):
        rows = messages.select("key", "value").limit(limit).toArrow().to_pylist()
    return [(row["key"], row["value"]) for row in rows]
