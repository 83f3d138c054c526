"""Delta as a kind of sink: what Spark needs for it, and how it is opened."""

from collections.abc import Callable, Collection
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.config.job import DeltaConfig, Job
from ticdc_spark.config.paths import local_folder
from ticdc_spark.model import TableName
from ticdc_spark.sinks.delta.dead_letters import DeltaDeadLetters
from ticdc_spark.sinks.delta.lake import CATALOG, EXTENSION, DeltaLake
from ticdc_spark.sinks.delta.names import folder_of
from ticdc_spark.sinks.delta.python_tables import storage_options
from ticdc_spark.sinks.delta.sink import DeltaSink
from ticdc_spark.sinks.delta.types import DeltaTypes
from ticdc_spark.sinks.folders import writable
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.faults import spark_faults
from ticdc_spark.spark.session.session import Part, coordinates, open_session


class DeltaKind:
    """See ``sinks.registry.SinkKind``."""

    capabilities = DeltaSink.capabilities
    types: TypeMap = DeltaTypes(widens=True)

    def parts(self, config: DeltaConfig) -> list[Part]:
        return ["delta"]

    def spark_options(self, config: DeltaConfig) -> dict[str, str]:
        return CATALOG | {"spark.sql.extensions": EXTENSION}

    def open(self, spark: SparkSession, job: Job, fence: Callable[[], None]) -> DeltaSink:
        return DeltaSink(spark, delta_of(job), fence)

    def dead_letters(
        self, spark: SparkSession, config: DeltaConfig, job: str, fence: Callable[[], None]
    ) -> DeltaDeadLetters:
        options = storage_options(config.warehouse, dict(spark.sparkContext.getConf().getAll()))
        return DeltaDeadLetters(config.warehouse, job, options, fence)

    def read_dead_letters(self, job: Job) -> list[dict[str, Any]]:
        warehouse = delta_of(job).warehouse
        return DeltaDeadLetters(warehouse, job.name, storage_options(warehouse, job.spark)).read()

    def place(self, job: Job) -> str:
        warehouse = delta_of(job).warehouse
        folder = local_folder(warehouse)
        return f"{warehouse}, which Spark opens" if folder is None else writable(folder)

    def stop_without_rights(self, config: DeltaConfig, tables: Collection[TableName]) -> str:
        return ""  # the rights in a store or catalog are only known when they are used

    def look(self, spark: SparkSession, config: DeltaConfig) -> str:
        lake = DeltaLake(spark, config.warehouse, config.table_properties)
        with spark_faults(f"{config.warehouse} cannot be listed"):
            count = len(lake.folders(config.warehouse))
        return f"{config.warehouse}: {count:,} databases"

    def is_untouched(self, config: DeltaConfig) -> bool:
        return False  # opening it creates nothing

    def open_lake(self, job: Job) -> SparkSession:
        options = self.spark_options(delta_of(job)) | job.spark
        session = open_session(f"ticdc-spark {job.name}", options, coordinates("delta")).newSession()
        for key, value in CATALOG.items():
            session.conf.set(key, value)
        return session

    def read_as_of(self, job: Job, session: SparkSession, table: TableName, snapshot_id: int | None) -> DataFrame:
        path = f"{delta_of(job).warehouse.rstrip('/')}/{folder_of(table[0])}/{folder_of(table[1])}"
        with spark_faults(f"{path} cannot be read; a running job may have dropped or renamed it: try again"):
            reader = session.read.format("delta")
            return (reader if snapshot_id is None else reader.option("versionAsOf", str(snapshot_id))).load(path)


def delta_of(job: Job) -> DeltaConfig:
    """The sink of a job, which is of this kind."""
    assert isinstance(job.sink, DeltaConfig), "it is of this kind"
    return job.sink


KIND = DeltaKind()
