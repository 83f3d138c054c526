"""Dead letters: what a job could not read or left out, in a table for people."""

from typing import Any

from pyspark.sql import SparkSession

from ticdc_spark.config.job import Job
from ticdc_spark.sinks.iceberg.catalog import NAMESPACE
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.spark.sql import quote

DEAD_LETTER_DDL = (
    "generation int, batch bigint, stage string, topic string, partition int, offset bigint, seq int, "
    "reason string, key binary, value binary, at timestamp"
)
"""``stage``: ``decode`` (the message), else the table whose row it was, ``schema.table``. ``value``: the message, or
the row image that could not be read."""


def dead_letters_of(catalog: str, job: str) -> str:
    """The table of a job's dead letters, quoted for SQL."""
    plain = job.replace(".", "_x2e_")
    return f"{quote(catalog)}.{NAMESPACE}.{quote(f'dead_letters_{plain}')}"


def read_dead_letters(session: SparkSession, job: Job) -> list[dict[str, Any]]:
    """What a job keeps of messages and rows that it could not read or left out; the columns are ``DEAD_LETTER_DDL``.

    In the order of topics, partitions and offsets. Raises: SinkFault
    """
    name = dead_letters_of(job.sink.catalog, job.name)
    with faults(f"{name} cannot be read"):
        if not session.catalog.tableExists(name):
            return []
        found = session.table(name).orderBy("topic", "partition", "offset", "seq", "batch")
        rows: list[dict[str, Any]] = found.toArrow().to_pylist()
        return rows
