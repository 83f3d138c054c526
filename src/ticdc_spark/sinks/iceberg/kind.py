"""Iceberg as a kind of sink: what Spark needs for it, and how it is opened."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.config.job import IcebergConfig, Job
from ticdc_spark.config.values import WriterName
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.iceberg import lake
from ticdc_spark.sinks.iceberg.catalog import catalog_options
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.spark.session.session import Part

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


class IcebergKind:
    """See ``registry.SinkKind``."""

    def parts(self, config: IcebergConfig) -> list[Part]:
        """See ``registry.SinkKind``."""
        own_jdbc = "type" not in config.catalog_options and "catalog-impl" not in config.catalog_options
        return ["iceberg", "sqlite"] if own_jdbc else ["iceberg"]

    def spark_options(self, config: IcebergConfig) -> dict[str, str]:
        """See ``registry.SinkKind``. Raises: SinkFault for a hadoop catalog"""
        catalog = catalog_options(config.catalog, config.warehouse, config.catalog_options)
        return catalog | {"spark.sql.extensions": EXTENSIONS}

    def open(
        self, spark: SparkSession, config: IcebergConfig, writer: WriterName, fence: Callable[[], None]
    ) -> IcebergSink:
        """See ``registry.SinkKind``."""
        if "://" not in config.warehouse:
            try:
                Path(config.warehouse).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                message = f"the warehouse {config.warehouse} cannot be created: {error}"
                raise SinkFault(message) from error
        catalog = catalog_options(config.catalog, config.warehouse, config.catalog_options)
        return IcebergSink(spark, config.catalog, config.warehouse, config.table_properties, catalog, writer, fence)

    def open_lake(self, job: Job) -> SparkSession:
        """See ``registry.SinkKind``."""
        return lake.open_lake(job)

    def read_as_of(self, job: Job, session: SparkSession, table: TableName, snapshot_id: int | None) -> DataFrame:
        """See ``registry.SinkKind``."""
        return lake.read_as_of(job, session, table, snapshot_id)


KIND = IcebergKind()
__all__ = ["EXTENSIONS", "KIND", "IcebergKind"]
