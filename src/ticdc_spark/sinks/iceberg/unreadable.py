"""Rows of the change log that cannot be read."""

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.sinks.iceberg.changelog import IcebergChangeLog
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.spark.decode.log_files import LogScan
from ticdc_spark.spark.decode.rows import BAD, BadRow, read_rows, rows_ddl
from ticdc_spark.spark.decode.versions import ReadPlan


def unreadable_rows(
    log: IcebergChangeLog, session: SparkSession, scan: LogScan, plan: ReadPlan, limit: int
) -> list[BadRow]:
    """At most ``limit`` of them, each once, though a change of a key is two rows. Raises: SinkFault"""
    loosely = read_rows(msgspec.structs.replace(plan, strict=False))
    typed = log.map_rows(session, scan, loosely, rows_ddl(plan.columns))
    with faults("rows cannot be read"):
        found = typed.where(sf.col(BAD).isNotNull()).select(BAD).distinct().limit(limit).collect()
    return [msgspec.json.decode(row[0], type=BadRow) for row in found]


def readable(typed: DataFrame) -> DataFrame:
    """The rows that could be read."""
    return typed.where(sf.col(BAD).isNull())
