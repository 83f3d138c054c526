"""The change log and the dead letters: tables of the lake in the namespace ``_ticdc_spark``.

Both are partitioned by generation and batch, and a batch that is done again replaces exactly its own partition, by an
explicit filter. Rows stay in the log until every table has applied them, and ``log-retention`` on top.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.config.values import WriterName
from ticdc_spark.sinks.changelog_base import LateRows, RowPlace
from ticdc_spark.sinks.iceberg.catalog import NAMESPACE
from ticdc_spark.sinks.iceberg.faults import faults, quote, task_faults
from ticdc_spark.sinks.iceberg.files.storage import Closed, Storages
from ticdc_spark.sinks.iceberg.log_table import (
    LogTableFiles,
    current_snapshot,
    open_files,
    remove_batches,
    remove_history,
)
from ticdc_spark.sinks.iceberg.rows.spark_writer import after
from ticdc_spark.spark.decode.control import Control, ControlEvent, Reject, read_control
from ticdc_spark.spark.decode.envelopes import LandingPlan, bucket_of, land
from ticdc_spark.spark.decode.log_files import (
    CONTROL_COLUMNS,
    CONTROL_DDL,
    FILE,
    LogFile,
    LogScan,
    read_log,
    write_log,
)
from ticdc_spark.spark.decode.log_schema import BUCKETS, CONTROL_BUCKET, LOG_DDL
from ticdc_spark.spark.decode.rows import LOG_COLUMNS
from ticdc_spark.spark.decode.spread import Part, gather, spread
from ticdc_spark.spark.tasks import ArrowTask, Parts, chain, is_small

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
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
}
_LOG_METRICS = ("commit_ts", "schema", "table")
_DEAD_LETTER_METRICS = ("stage",)
"""Without them Iceberg cannot prove that a file is of one stage, and refuses to replace it."""
_TASK_ROWS = 10_000
"""Rows of the log that are worth a task."""
_REMEMBERED = 20
"""Batches whose files are known without asking the table."""


def dead_letters_of(catalog: str, job: str) -> str:
    """The table of a job's dead letters, quoted for SQL."""
    plain = job.replace(".", "_x2e_")
    return f"{quote(catalog)}.{NAMESPACE}.{quote(f'dead_letters_{plain}')}"


class IcebergChangeLog:
    """The change log and the dead letters of one job, in Iceberg."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        job: str,
        writer: WriterName = "python",
        fence: Callable[[], None] = lambda: None,
        storages: Storages | None = None,
    ) -> None:
        """``writer``: what writes and reads the log's files. ``python`` has an effect where Python can open the
        warehouse; elsewhere it is always Spark."""
        self.spark = spark
        self.fence = fence
        plain = job.replace(".", "_x2e_")
        self.table = f"{quote(catalog)}.{NAMESPACE}.{quote(f'log_{plain}')}"
        self.dead_letters = dead_letters_of(catalog, job)
        with faults("the change log cannot be created"):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote(catalog)}.{NAMESPACE}")
            for name, columns, parts, metrics in (
                (self.table, LOG_DDL, "generation, batch, slot", _LOG_METRICS),
                (self.dead_letters, DEAD_LETTER_DDL, "generation, batch", _DEAD_LETTER_METRICS),
            ):
                properties = _PROPERTIES | {f"write.metadata.metrics.column.{one}": "full" for one in metrics}
                options = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
                spark.sql(
                    f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg "
                    f"PARTITIONED BY ({parts}) TBLPROPERTIES ({options})"
                )
        files = (
            open_files(spark, self.table, storages or Storages(spark))
            if writer == "python"
            else Closed('[job] writer = "spark"')
        )
        self._files = None if isinstance(files, Closed) else files
        self.closed = files if isinstance(files, Closed) else None
        """Why Spark writes all tables, if it does."""
        self._landed: dict[tuple[int, int], list[LogFile]] = {}
        """By generation and batch: files of the newest batches that this process has landed."""

    def newest_generation(self) -> int:
        with faults("the change log cannot be read"):
            highest = self.spark.sql(f"SELECT max(generation) FROM {self.table}").collect()[0][0]
        return 0 if highest is None else int(highest)

    def batches(self, generation: int) -> frozenset[int]:
        with faults("the change log cannot be read"):
            parts = self.spark.table(f"{self.table}.partitions").where(sf.col("partition.generation") == generation)
            rows = parts.select("partition.batch").distinct().collect()
        return frozenset(int(row[0]) for row in rows)

    @property
    def lands_here(self) -> bool:
        return self._files is not None

    def land(self, messages: DataFrame | pa.Table | Parts, plan: LandingPlan) -> list[ControlEvent]:
        what = "the change log cannot be written"
        with faults(what), task_faults(what):
            if self._files is not None:
                rows = self._land(messages, plan, self._files)
            else:
                assert isinstance(messages, DataFrame), "see lands_here"
                rows = self._land_by_spark(messages, plan)
        return [read_control(Control(**row)) for row in rows]

    def _land_by_spark(self, messages: DataFrame, plan: LandingPlan) -> list[dict[str, Any]]:
        opened = messages.mapInArrow(land(plan), LOG_DDL)
        # From before the fence: what another owner has landed since is not replaced.
        before = current_snapshot(self.spark, self.table)
        self.fence()
        after(opened.writeTo(self.table), before).overwrite(_is_batch(plan.generation, plan.batch))
        written = self.spark.table(self.table).where(
            _is_batch(plan.generation, plan.batch) & (sf.col("slot") == CONTROL_BUCKET)
        )
        rows: list[dict[str, Any]] = written.select(*CONTROL_COLUMNS).toArrow().to_pylist()
        return rows

    def _land(
        self, messages: DataFrame | pa.Table | Parts, plan: LandingPlan, files: LogTableFiles
    ) -> list[dict[str, Any]]:
        folder = files.batch_folder(plan.generation, plan.batch)
        task = write_log(plan, files.storage, folder, files.field_ids)
        rows: list[dict[str, Any]]
        if isinstance(messages, pa.Table):
            rows = [row for batch in task(messages.to_batches()) for row in batch.to_pylist()]
        else:
            if isinstance(messages, Parts):
                task = chain(messages.read, task)
                messages = self.spark.range(0, messages.number, 1, messages.number)
            rows = messages.mapInArrow(task, CONTROL_DDL).toArrow().to_pylist()
        written = [msgspec.json.decode(row["control"], type=LogFile) for row in rows if row["kind"] == FILE]
        files.replace(plan.generation, plan.batch, written, self.fence)
        self._landed[plan.generation, plan.batch] = written
        for old in sorted(self._landed)[:-_REMEMBERED]:
            del self._landed[old]
        return [row for row in rows if row["kind"] != FILE]

    def keep_rejects(self, generation: int, batch: int, stage: str, rejects: Sequence[Reject], job_time: float) -> None:
        places = [(r.topic, r.partition, r.offset, r.seq, r.reason) for r in rejects]
        with faults("the dead letters cannot be written"):
            reasons = self.spark.createDataFrame(
                places, "topic string, partition int, offset bigint, seq int, reason string"
            )
            log = self.spark.table(self.table).where(sf.col("generation") == generation)
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
            self.fence()
            letters.writeTo(self.dead_letters).overwrite(_is_batch(generation, batch) & (sf.col("stage") == stage))

    def rows(self, session: SparkSession, scan: LogScan) -> DataFrame:
        """Raw rows of one table, as ``LOG_COLUMNS``, as Spark reads them."""
        buckets = sf.col("slot") == bucket_of(scan.schema, scan.table, BUCKETS)
        if scan.batches is not None:
            buckets &= sf.col("batch").isin(sorted(scan.batches))
        found = (
            session.table(self.table)
            .where((sf.col("generation") == scan.generation) & buckets)
            .where((sf.col("schema") == scan.schema) & (sf.col("table") == scan.table))
            .where(sf.col("kind").isin(list(scan.kinds)))
            .where((sf.col("commit_ts") > scan.above) & (sf.col("commit_ts") <= scan.upto))
        )
        if scan.keys is not None:
            found = found.where(sf.col("schema_key").isin(list(scan.keys)))
        return found.select(*LOG_COLUMNS)

    def has_rows(self, scan: LogScan) -> bool:
        with faults("the change log cannot be read"):
            return bool(self.rows(self.spark, scan).limit(1).collect())

    def first_row(self, scan: LogScan) -> RowPlace | None:
        with faults("the change log cannot be read"):
            found = self.rows(self.spark, scan).orderBy("commit_ts", "partition", "offset").limit(1).collect()
        return RowPlace(**{name: found[0][name] for name in RowPlace.__struct_fields__}) if found else None

    def files_of(self, scan: LogScan) -> list[LogFile] | Closed:
        """The files of such rows for ``run_in_one`` and ``run_spread``, or why tasks cannot read them."""
        files = self._find(scan)
        return files if files is not None else self.closed or Closed("Python cannot read its rows in the change log")

    def map_rows(self, session: SparkSession, scan: LogScan, task: ArrowTask, ddl: str) -> DataFrame:
        """Raw rows of one table through a task over ``LOG_COLUMNS``, which gives ``ddl``."""
        files = self._find(scan)
        if files is None or self._files is None:
            return self.rows(session, scan).mapInArrow(task, ddl)
        tasks = _share_out(files, session.sparkContext.defaultParallelism)
        read = read_log(self._files.storage, tasks, scan)
        return session.range(0, len(tasks), 1, len(tasks)).mapInArrow(chain(read, task), ddl)

    def run_in_one(self, files: Sequence[LogFile], scan: LogScan, task: ArrowTask) -> list[dict[str, Any]]:
        """All raw rows of one table through one task; the rows that it gives. ``files``: of ``files_of``.

        Without Spark SQL, which would plan and compile a query for each; few rows are done here.
        """
        assert self._files is not None, "it found the files"
        work = chain(read_log(self._files.storage, [files], scan), task)

        def run(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
            for batch in work([pa.record_batch([pa.array(list(numbers))], names=["number"])]):
                yield from batch.to_pylist()

        if is_small(sum(file.rows for file in files), sum(file.bytes for file in files)):
            return list(run([0]))
        found: list[dict[str, Any]] = self.spark.sparkContext.parallelize([0], 1).mapPartitions(run).collect()
        return found

    def run_spread(
        self,
        files: Sequence[LogFile],
        scan: LogScan,
        first: ArrowTask,
        keys: Sequence[str],
        then: ArrowTask,
        number: int,
    ) -> list[dict[str, Any]]:
        """All raw rows of one table through ``first``, and what that gives, spread by its keys, through ``then`` in
        ``number`` tasks; the rows that these give. ``files``: of ``files_of``."""
        assert self._files is not None, "it found the files"
        context = self.spark.sparkContext
        shares = _share_out(files, context.defaultParallelism)
        work = chain(read_log(self._files.storage, shares, scan), first)

        def cut(numbers: Iterable[int]) -> Iterator[Part]:
            yield from spread(work([pa.record_batch([pa.array(list(numbers))], names=["number"])]), keys, number)

        def done(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
            for batch in gather(parts, then):
                yield from batch.to_pylist()

        read = context.parallelize(range(len(shares)), len(shares)).mapPartitions(cut)
        found: list[dict[str, Any]] = read.partitionBy(number, _itself).mapPartitions(done).collect()
        return found

    def _find(self, scan: LogScan) -> list[LogFile] | None:
        """The files that may hold such rows; ``None`` when Spark must read them."""
        if self._files is None or scan.batches is None:
            return None
        bucket = bucket_of(scan.schema, scan.table, BUCKETS)
        landed = {batch: files for (generation, batch), files in self._landed.items() if generation == scan.generation}
        known = [file for batch in scan.batches for file in landed.get(batch, ()) if file.bucket == bucket]
        others = scan.batches - landed.keys()
        more = self._files.find(scan.generation, others, bucket) if others else []
        return None if more is None else [*known, *more]

    def late_rows(self, generation: int, batch: int) -> list[LateRows]:
        with faults("late rows cannot be looked up"):
            log = self.spark.table(self.table).where(sf.col("generation") == generation)
            here = log.where(sf.col("batch") == batch)
            late = here.where((sf.col("slot") >= 0) & (sf.col("kind") == "late"))
            marks = here.where((sf.col("slot") == CONTROL_BUCKET) & (sf.col("kind") == "watermark")).select(
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
            LateRows(
                schema=row["schema"],
                table=row["table"],
                schema_key=row["schema_key"],
                rows=row["n"],
                **row["first"].asDict(),
            )
            for row in rows
        ]

    def forget(self, generation: int, before: int) -> None:
        """See ``ChangeLog``; what only old snapshots of the log hold goes, too."""
        with faults("the change log cannot be pruned"):
            self.fence()
            remove_batches(self.spark, self.table, generation, before)
            remove_history(self.spark, self.table)
            remove_history(self.spark, self.dead_letters)
            self._landed = {at: files for at, files in self._landed.items() if at >= (generation, before)}


def _itself(number: int) -> int:
    return number


def _is_batch(generation: int, batch: int) -> Column:
    return (sf.col("generation") == generation) & (sf.col("batch") == batch)


def _share_out(files: Sequence[LogFile], parallelism: int) -> list[list[LogFile]]:
    """Files to tasks of about the same size, no more tasks than rows are worth."""
    rows = sum(file.rows for file in files)
    tasks: list[list[LogFile]] = [[] for _ in range(max(1, min(parallelism, len(files), rows // _TASK_ROWS)))]
    sizes = [0] * len(tasks)
    for file in sorted(files, key=lambda file: -file.rows):
        least = sizes.index(min(sizes))
        tasks[least].append(file)
        sizes[least] += file.rows
    return tasks
