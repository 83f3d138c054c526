"""Iceberg as a kind of sink: what Spark needs for it, and how it is opened."""

import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.config.job import IcebergConfig, Job
from ticdc_spark.config.paths import local_folder
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.folders import writable
from ticdc_spark.sinks.iceberg import lake
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog, catalog_options
from ticdc_spark.sinks.iceberg.dead_letters import IcebergDeadLetters, read_dead_letters
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.sinks.iceberg.together import check_commit
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.session.session import Part

log = logging.getLogger(__name__)
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


class IcebergKind:
    """What a job file with an Iceberg sink needs before the sink is opened."""

    capabilities = IcebergSink.capabilities
    types: TypeMap = IcebergSink.types

    def parts(self, config: IcebergConfig) -> list[Part]:
        own_jdbc = "type" not in config.catalog_options and "catalog-impl" not in config.catalog_options
        return ["iceberg", "sqlite"] if own_jdbc else ["iceberg"]

    def spark_options(self, config: IcebergConfig) -> dict[str, str]:
        """See ``registry.SinkKind``. Raises: SinkFault for a hadoop catalog"""
        catalog = catalog_options(config.catalog, config.warehouse, config.catalog_options)
        return catalog | {"spark.sql.extensions": EXTENSIONS}

    def open(self, spark: SparkSession, job: Job, fence: Callable[[], None]) -> IcebergSink:
        config = job.sink
        assert isinstance(config, IcebergConfig), "it is of this kind"
        log.info("catalog: opening %s in %s", config.catalog, config.warehouse)
        if "://" not in config.warehouse:
            try:
                Path(config.warehouse).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                message = f"the warehouse {config.warehouse} cannot be created: {error}"
                raise SinkFault(message) from error
        options = catalog_options(config.catalog, config.warehouse, config.catalog_options)
        catalog = IcebergCatalog(spark, config.catalog, config.warehouse, config.table_properties, options, fence)
        return IcebergSink(catalog, job.writer, commit=config.commit)

    def dead_letters(
        self, spark: SparkSession, config: IcebergConfig, job: str, fence: Callable[[], None]
    ) -> IcebergDeadLetters:
        return IcebergDeadLetters(spark, config.catalog, job, fence)

    def read_dead_letters(self, job: Job) -> list[dict[str, Any]]:
        return read_dead_letters(self.open_lake(job), job)

    def place(self, job: Job) -> str:
        assert isinstance(job.sink, IcebergConfig), "it is of this kind"
        folder = local_folder(job.sink.warehouse)
        if folder is None:
            jars = job.spark.get("spark.jars.packages", "") + job.spark.get("spark.jars", "")
            lacks = job.sink.warehouse.startswith("s3") and "aws" not in jars
            hint = "; Spark needs iceberg-aws-bundle, which [spark] does not name" if lacks else ""
            return f"{job.sink.warehouse}, which Spark opens (catalog {job.sink.catalog}){hint}"
        return f"{writable(folder)} (catalog {job.sink.catalog})"

    def stop_without_rights(self, config: IcebergConfig, tables: Collection[TableName]) -> str:
        return ""  # the rights in a store or catalog are only known when they are used

    def look(self, spark: SparkSession, config: IcebergConfig) -> str:
        options = catalog_options(config.catalog, config.warehouse, config.catalog_options)
        if self.is_untouched(config):
            return f"{_database(config)} will be created"  # when the sink is opened
        catalog = IcebergCatalog(spark, config.catalog, config.warehouse, config.table_properties, options)
        with faults(f"catalog {config.catalog!r} does not respond"):
            count = len(catalog.java_catalog.listNamespaces())
        if "io-impl" in config.catalog_options:
            with faults(f"warehouse {config.warehouse} cannot be written to"):
                _write_and_remove(catalog, config)
        found = f"{config.catalog} responds; it has {count:,} namespaces"
        if config.commit == "table":
            return found
        check_commit(catalog)
        return f"{found}, and commits all tables of a batch at once"

    def is_untouched(self, config: IcebergConfig) -> bool:
        database = _database(config)
        return database is not None and not database.exists()

    def open_lake(self, job: Job) -> SparkSession:
        return lake.open_lake(job)

    def read_as_of(self, job: Job, session: SparkSession, table: TableName, snapshot_id: int | None) -> DataFrame:
        return lake.read_as_of(job, session, table, snapshot_id)


def _write_and_remove(catalog: IcebergCatalog, config: IcebergConfig) -> None:
    """Test the warehouse with Iceberg's own client of the store."""
    options = catalog.java.util.HashMap()
    for name, value in config.catalog_options.items():
        options.put(name, value)
    conf = catalog.spark._jsparkSession.sessionState().newHadoopConf()
    io = catalog.iceberg.CatalogUtil.loadFileIO(config.catalog_options["io-impl"], options, conf)
    probe = f"{config.warehouse.rstrip('/')}/{uuid4().hex}.probe"
    file = io.newOutputFile(probe).createOrOverwrite()
    file.write(bytearray(b"ticdc-spark: can be removed"))
    file.close()
    io.deleteFile(probe)


def _database(config: IcebergConfig) -> Path | None:
    """The file of a catalog on SQLite; ``None``: another kind of catalog."""
    options = catalog_options(config.catalog, config.warehouse, config.catalog_options)
    uri = options.get(f"spark.sql.catalog.{config.catalog}.uri", "")
    path = uri.removeprefix("jdbc:sqlite:").partition("?")[0]
    return Path(path.removeprefix("file:")) if path != uri and path != ":memory:" else None


KIND = IcebergKind()
