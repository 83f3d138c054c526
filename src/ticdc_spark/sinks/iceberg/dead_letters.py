"""Dead letters: what a job could not read or skipped, in a table for people."""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.config.job import Job
from ticdc_spark.sinks.dead_letters import DeadLetter
from ticdc_spark.sinks.iceberg.catalog import NAMESPACE
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.lake import iceberg_of
from ticdc_spark.spark.sql import quote

DEAD_LETTER_DDL = (
    "batch bigint, stage string, topic string, partition int, offset bigint, seq int, "
    "reason string, key binary, value binary, at timestamp"
)
"""``stage``: ``decode`` for messages, else the table of the row, as ``schema.table``. ``key`` and ``value``: the
message."""
_LETTERS = "topic string, partition int, offset bigint, seq int, reason string, key binary, value binary"
_ROW = ["topic", "partition", "offset", "seq"]
_PROPERTIES = {
    "format-version": "2",
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.metrics.default": "none",
    # Without them Iceberg cannot prove that a file has only one stage, and refuses to replace it.
    "write.metadata.metrics.column.stage": "full",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
}


def dead_letters_of(catalog: str, job: str) -> str:
    """The table of a job's dead letters, quoted for SQL."""
    plain = job.replace(".", "_x2e_")
    return f"{quote(catalog)}.{NAMESPACE}.{quote(f'dead_letters_{plain}')}"


def read_dead_letters(session: SparkSession, job: Job) -> list[dict[str, Any]]:
    """The messages and rows that a job could not read or skipped; the columns are ``DEAD_LETTER_DDL``.

    In the order of topics, partitions and offsets. Raises: SinkFault
    """
    name = dead_letters_of(iceberg_of(job).catalog, job.name)
    with faults(f"{name} cannot be read"):
        if not session.catalog.tableExists(name):
            return []
        found = session.table(name).orderBy("topic", "partition", "offset", "seq", "batch")
        rows: list[dict[str, Any]] = found.toArrow().to_pylist()
        return rows


class IcebergDeadLetters:
    """See ``sinks.dead_letters.DeadLetters``. The first letter creates the table."""

    def __init__(self, spark: SparkSession, catalog: str, job: str, fence: Callable[[], None] = lambda: None) -> None:
        """``fence``: called before each commit; raises if the job must not write any more."""
        self._spark, self._catalog, self._fence = spark, catalog, fence
        self.where = dead_letters_of(catalog, job)

    def keep(self, batch: int, stage: str, letters: Sequence[DeadLetter], at: float) -> None:
        rows = [(one.topic, one.partition, one.offset, one.seq, one.reason, one.key, one.value) for one in letters]
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in _PROPERTIES.items())
        with faults("the dead letters cannot be written"):
            self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(self._catalog)}.{NAMESPACE}")
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self.where} ({DEAD_LETTER_DDL}) USING iceberg "
                f"PARTITIONED BY (batch) TBLPROPERTIES ({properties})"
            )
            held = self._spark.createDataFrame(rows, _LETTERS).select(
                sf.lit(batch).cast("bigint").alias("batch"),
                sf.lit(stage).alias("stage"),
                "*",
                sf.lit(at).cast("timestamp").alias("at"),
            )
            group = (sf.col("batch") == batch) & (sf.col("stage") == stage)
            others = self._spark.table(self.where).where(group).join(held.select(*_ROW), on=_ROW, how="left_anti")
            held = held.unionByName(others)
            self._fence()
            held.writeTo(self.where).overwrite(group)
