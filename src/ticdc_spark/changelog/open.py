"""Opens a job's change log: tables in the catalog of its sink."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from ticdc_spark.changelog.base import ChangeLog
from ticdc_spark.changelog.table import IcebergChangeLog
from ticdc_spark.config.job import Job
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.iceberg.files.storage import Storages


def open_changelog(spark: SparkSession, job: Job, fence: Callable[[], None]) -> ChangeLog:
    """Open the change log and the dead letters of a job. ``spark``: as ``registry.SinkKind.open`` was given it.

    ``fence``: called before each commit. Raises: SinkFault
    """
    try:
        return IcebergChangeLog(spark, job.sink.catalog, job.name, job.writer, fence, Storages(spark))
    except SinkFault as fault:
        # The first that is written to the warehouse: what is wrong with it, or with its credentials, shows here.
        message = f"warehouse {job.sink.warehouse}: {fault}"
        raise SinkFault(message) from fault
