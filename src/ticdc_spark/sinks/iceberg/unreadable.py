"""Rows of the change log that cannot be read."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.base import UnreadableRows
from ticdc_spark.sinks.iceberg.changelog import IcebergChangeLog
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.spark.decode.log_files import LogScan
from ticdc_spark.spark.decode.rows import BAD, UNREADABLE, BadRow, ReadPlan, read_rows, rows_ddl


def unreadable_rows(
    log: IcebergChangeLog, session: SparkSession, scan: LogScan, plan: ReadPlan, limit: int
) -> list[BadRow]:
    """At most ``limit`` of them, each once. Raises: SinkFault"""
    loosely = read_rows(msgspec.structs.replace(plan, strict=False))
    typed = log.map_rows(session, scan, loosely, rows_ddl(plan.columns))
    with faults("rows cannot be read"):
        found = typed.where(sf.col(BAD).isNotNull()).select(BAD).limit(limit).collect()
    bad = [msgspec.json.decode(row[0], type=BadRow) for row in found]
    return list({(row.topic, row.partition, row.offset, row.seq): row for row in bad}.values())


def readable(typed: DataFrame) -> DataFrame:
    """The rows that could be read."""
    return typed.where(sf.col(BAD).isNull())


@contextmanager
def strictly() -> Iterator[None]:
    """Raise ``UnreadableRows`` where a task met a row that it could not read (``ReadPlan.strict``)."""
    try:
        yield
    except SinkFault as fault:
        if UNREADABLE not in str(fault):
            raise
        raise UnreadableRows(str(fault)) from fault


__all__ = ["readable", "strictly", "unreadable_rows"]
