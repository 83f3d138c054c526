"""The change log and the dead letters: tables of the lake in the namespace ``_ticdc_spark``.

Both are partitioned by generation and batch, and a batch that is done again replaces exactly its own partition, by an
explicit filter. Rows stay in the log until every table has applied them, and ``log-retention`` on top.
"""

from collections.abc import Iterable, Sequence

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.replicate.advance import Control, Reject
from ticdc_spark.sinks.base import TableName
from ticdc_spark.sinks.iceberg import faults, quote
from ticdc_spark.spark.envelopes import CONTROL_SLOT, LOG_DDL, LandingPlan, land, slot_of
from ticdc_spark.spark.rows import LOG_COLUMNS

NAMESPACE = "_ticdc_spark"
DEAD_LETTER_DDL = (
    "generation int, batch bigint, stage string, topic string, partition int, offset bigint, seq int, "
    "reason string, key binary, value binary, at timestamp"
)
"""``stage``: ``decode`` (the message), else the table whose row it was, ``schema.table``. ``value``: the message, or
the row image that could not be read."""
_PROPERTIES = {
    "format-version": "2",
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.metadata.metrics.default": "none",
    "write.metadata.metrics.column.commit_ts": "full",
    "write.metadata.metrics.column.schema": "full",
    "write.metadata.metrics.column.table": "full",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
}
SLOTS = 8
"""Parts of a batch in the log, by a hash of the table's name."""


class ChangeLog:
    """The change log and the dead letters of one job."""

    def __init__(self, spark: SparkSession, catalog: str, job: str, generation: int) -> None:
        self.spark = spark
        self.generation = generation
        plain = job.replace(".", "_x2e_")
        self.table = f"{quote(catalog)}.{NAMESPACE}.{quote(f'log_{plain}')}"
        self.dead_letters = f"{quote(catalog)}.{NAMESPACE}.{quote(f'dead_letters_{plain}')}"
        with faults("the change log cannot be created"):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(catalog)}.{NAMESPACE}")
            for name, columns, parts in (
                (self.table, LOG_DDL, "generation, batch, slot"),
                (self.dead_letters, DEAD_LETTER_DDL, "generation, batch"),
            ):
                options = ", ".join(
                    f"'{key}' = '{value}'"
                    for key, value in _PROPERTIES.items()
                    if "metrics.column" not in key or name == self.table
                )
                spark.sql(
                    f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg "
                    f"PARTITIONED BY ({parts}) TBLPROPERTIES ({options})"
                )

    def land(self, messages: DataFrame, plan: LandingPlan) -> list[Control]:
        """Open a batch of messages into the log and return its control events."""
        opened = messages.mapInArrow(land(plan), LOG_DDL)
        with faults("the change log cannot be written"):
            opened.writeTo(self.table).overwrite(self._is_batch(plan.batch))
            rows = (
                self.spark.table(self.table)
                .where(self._is_batch(plan.batch) & (sf.col("slot") == CONTROL_SLOT))
                .select(*Control.__struct_fields__)
                .toArrow()
                .to_pylist()
            )
        return [Control(**row) for row in rows]

    def keep_rejects(self, batch: int, stage: str, rejects: Sequence[Reject], job_time: float) -> None:
        """Write rejects of one stage of one batch to the dead letters, replacing what a former try wrote."""
        places = [(r.topic, r.partition, r.offset, r.seq, r.reason) for r in rejects]
        with faults("the dead letters cannot be written"):
            reasons = self.spark.createDataFrame(
                places, "topic string, partition int, offset bigint, seq int, reason string"
            )
            log = self.spark.table(self.table).where(sf.col("generation") == self.generation)
            letters = (
                log.where(sf.col("kind") != "summary")
                .join(sf.broadcast(reasons), ["topic", "partition", "offset", "seq"])
                .dropDuplicates(["topic", "partition", "offset", "seq"])
                .select(
                    sf.col("generation"),
                    sf.lit(batch).cast("bigint").alias("batch"),
                    sf.lit(stage).alias("stage"),
                    "topic",
                    "partition",
                    "offset",
                    "seq",
                    "reason",
                    "key",
                    sf.coalesce("after", "before").alias("value"),
                    sf.lit(job_time).cast("timestamp").alias("at"),
                )
            )
            letters.writeTo(self.dead_letters).overwrite(self._is_batch(batch) & (sf.col("stage") == stage))

    def rows(
        self,
        session: SparkSession,
        batches: Iterable[int] | None,
        table: TableName,
        above: int,
        upto: int,
        kinds: Sequence[str],
    ) -> DataFrame:
        """Raw rows of one table with ``above < commit_ts <= upto``, as ``LOG_COLUMNS``; ``batches``: ``None``: all."""
        slots = sf.col("slot") == slot_of(table[0], table[1], SLOTS)
        if batches is not None:
            slots &= sf.col("batch").isin(sorted(batches))
        return (
            session.table(self.table)
            .where((sf.col("generation") == self.generation) & slots)
            .where((sf.col("schema") == table[0]) & (sf.col("table") == table[1]) & sf.col("kind").isin(list(kinds)))
            .where((sf.col("commit_ts") > above) & (sf.col("commit_ts") <= upto))
            .select(*LOG_COLUMNS)
        )

    def late_rows(self, batch: int) -> list[tuple[TableName, str, int, int, str, int, int]]:
        """Rows of a batch that are neither new nor replays, by table and schema key.

        A row is a replay if a watermark above it stands before it, or the log holds it from an earlier batch.
        Returns: (table, schema key, rows, and of the first: commit_ts, topic, partition, offset)
        """
        with faults("late rows cannot be looked up"):
            log = self.spark.table(self.table).where(sf.col("generation") == self.generation)
            here = log.where(sf.col("batch") == batch)
            late = here.where((sf.col("slot") >= 0) & (sf.col("kind") == "late"))
            marks = here.where((sf.col("slot") == CONTROL_SLOT) & (sf.col("kind") == "watermark")).select(
                sf.col("topic").alias("t"),
                sf.col("partition").alias("p"),
                sf.col("offset").alias("o"),
                sf.col("commit_ts").alias("w"),
            )
            passed = (
                (late["topic"] == marks["t"])
                & (late["partition"] == marks["p"])
                & (marks["o"] < late["offset"])
                & (marks["w"] > late["commit_ts"])
            )
            older = log.where((sf.col("batch") < batch) & (sf.col("slot") >= 0))
            same = [
                late[name].eqNullSafe(older[name]) for name in ("schema", "table", "commit_ts", "op", "before", "after")
            ]
            found = late.join(marks, passed, "left_anti").join(older, same, "left_anti")
            rows = (
                found.groupBy("schema", "table", "schema_key")
                .agg(
                    sf.count("*").alias("n"),
                    sf.min(sf.struct("commit_ts", "topic", "partition", "offset")).alias("first"),
                )
                .collect()
            )
        return [
            (
                (r["schema"], r["table"]),
                r["schema_key"],
                r["n"],
                r["first"]["commit_ts"],
                r["first"]["topic"],
                r["first"]["partition"],
                r["first"]["offset"],
            )
            for r in rows
        ]

    def forget(self, before: int) -> None:
        """Remove batches below ``before``, everything of older generations, and what only old snapshots hold."""
        with faults("the change log cannot be pruned"):
            self.spark.sql(
                f"DELETE FROM {self.table} WHERE generation < {self.generation} "
                f"OR (generation = {self.generation} AND batch < {before})"
            )
            catalog = self.table.split(".")[0]
            for name in (self.table, self.dead_letters):
                plain = name.removeprefix(f"{catalog}.").replace("`", "")
                self.spark.sql(
                    f"CALL {catalog}.system.expire_snapshots(table => '{plain}', "
                    f"older_than => TIMESTAMP '9999-01-01', retain_last => 1)"
                )

    def _is_batch(self, batch: int) -> Column:
        return (sf.col("generation") == self.generation) & (sf.col("batch") == batch)


def decode_bad(text: str) -> "Reject":
    """Read the JSON of a bad row."""
    return msgspec.json.decode(text, type=Reject)
