"""Arrival mode: each key's newest change, where the table has no newer one.

No watermark bounds what is still to come, so each row of the lake keeps its commit_ts in a hidden column, and an older
change never wins over a newer one. When a key was deleted is in the change log, as far back as ``log-retention``.
Deletes that hide their commit_ts (Avro) follow the order of their partition.
"""

from collections.abc import Sequence

import msgspec
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from ticdc_spark.sinks.base import ALWAYS, TIES, Applied, NewestChanges
from ticdc_spark.sinks.iceberg.changelog import IcebergChangeLog
from ticdc_spark.sinks.iceberg.faults import quote
from ticdc_spark.sinks.iceberg.rows.spark_writer import SparkWriter
from ticdc_spark.sinks.iceberg.unreadable import readable
from ticdc_spark.spark.decode.log_files import LogScan
from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, SEQ, TS, read_rows, rows_ddl
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeColumn

_LOGICAL = (1 << 18) - 1
"""Bits of a TSO below its milliseconds: 0 in what is no TSO but a time."""
_NUMBER, _GONE = "_ticdc_number", "_ticdc_gone"


def apply_newest(tables: SparkWriter, log: IcebergChangeLog, changes: NewestChanges) -> Applied:
    """Apply each key's newest change. See ``Sink.apply_newest``."""
    plan = msgspec.structs.replace(changes.plan, strict=not changes.leave_out_unreadable)
    with tables.session() as session:
        zeros = session.sparkContext.accumulator(0)
        typed = log.map_rows(session, changes.scan, read_rows(plan, zeros), rows_ddl(plan.columns))
        if changes.leave_out_unreadable:
            typed = readable(typed)
        net = newest_changes(typed, plan.columns)
        if changes.deletes is not None:
            net = _not_deleted_since(net, _deletes(log, session, changes.scan, changes.deletes), plan.columns)
        time = changes.columns[-1].name
        tables.merge_newest(changes.table, net.withColumnRenamed(TS, time), changes.columns, changes.stamp)
        return Applied(zero_dates=zeros.value)


def newest_changes(typed: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    """One row a key: its newest change, with its commit_ts in ``TS``, and whether it wins over a row of the lake with
    the same one (``TIES``), or with any (``ALWAYS``).

    At one commit_ts a delete comes before the insert that follows it, else offsets decide; they alone do within a
    millisecond, where that is all that is known. A delete without commit_ts has that of what it follows.
    """
    keys = [quote(column.name) for column in columns if column.key]
    hidden = (sf.col(OP) == "d") & (sf.col(TS) == 0)
    before = Window.partitionBy(*keys).orderBy(ORDER, SEQ).rowsBetween(Window.unboundedPreceding, 0)
    exact = sf.col(TS).bitwiseAND(_LOGICAL) != 0
    first = (sf.col(OP) == "d") & exact & ~sf.col(ALWAYS)
    order = [sf.col(TS), sf.when(first, 0).otherwise(1), sf.col(ORDER), sf.col(SEQ)]
    last = Window.partitionBy(*keys).orderBy(*(column.desc() for column in order))
    return (
        typed.withColumn(ALWAYS, hidden)
        .withColumn(TS, sf.when(hidden, sf.max(TS).over(before)).otherwise(sf.col(TS)))
        .withColumn(TIES, ~first)
        .withColumn(_NUMBER, sf.row_number().over(last))
        .where(sf.col(_NUMBER) == 1)
        .withColumn(ALWAYS, sf.col(ALWAYS) & (sf.col(TS) == 0))
        .select(OP, TS, TIES, ALWAYS, *(quote(column.name) for column in columns))
    )


def _deletes(log: IcebergChangeLog, session: SparkSession, scan: LogScan, plan: ReadPlan) -> DataFrame:
    """Of keys that were deleted, by messages that the log still has: the commit_ts of the last delete in ``_GONE``."""
    raw = log.rows(session, msgspec.structs.replace(scan, batches=None, keys=None)).where(
        sf.col("op").isin("delete", "update")
    )
    if plan.schemas is None:  # keys are read by the table as it is now, whatever rows were made of
        raw = raw.withColumn("schema_key", sf.lit(next(iter(plan.tables))))
    raw = raw.where(sf.col("schema_key").isin(*plan.tables))
    loosely = read_rows(msgspec.structs.replace(plan, strict=False))
    keys = [quote(column.name) for column in plan.columns if column.key]
    typed = raw.mapInArrow(loosely, rows_ddl(plan.columns)).where((sf.col(OP) == "d") & sf.col(BAD).isNull())
    return typed.groupBy(*keys).agg(sf.max(TS).alias(_GONE))


def _not_deleted_since(net: DataFrame, deletes: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    keys = [column.name for column in columns if column.key]
    joined = net.join(deletes, keys, "left")
    return joined.where(sf.col(_GONE).isNull() | (sf.col(TS) >= sf.col(_GONE))).select(*net.columns)
