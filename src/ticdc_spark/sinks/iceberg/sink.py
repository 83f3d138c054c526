"""The sink ``kind = "iceberg"``: implements the contract with an object for each part."""

from msgspec.structs import replace

from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.config.values import CommitName, WriterName
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.composed import ComposedSink, Parts, unchanged
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.loads import IcebergLoads
from ticdc_spark.sinks.iceberg.rows.appends import IcebergAppends
from ticdc_spark.sinks.iceberg.rows.spark_writer import SparkWriter
from ticdc_spark.sinks.iceberg.rows.upsert import Upserts
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.sinks.iceberg.upkeep import IcebergUpkeep
from ticdc_spark.sinks.spark_types import LakeNames, SparkTypes
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.states import open_state
from ticdc_spark.sinks.tally import Tally


class IcebergSink(ComposedSink):
    """Iceberg tables. See ``sinks.base.Sink``."""

    capabilities = Capabilities()
    types = SparkTypes()
    names = LakeNames()

    def __init__(self, catalog: IcebergCatalog, writer: WriterName = "python", *, commit: CommitName = "table") -> None:
        """``writer``: what writes and reads files. ``python`` only has an effect if Python can open the warehouse;
        otherwise Spark is used. ``commit``: the scope of a commit; with ``batch``, rows wait for ``commit_with``.

        Raises: UsageError if the catalog cannot commit several tables at once
        """
        self.catalog, self.writer = catalog, writer
        self.tables = IcebergTables(catalog, together=commit == "batch")
        self.spark_writer = SparkWriter(self.tables)
        parts = Parts(
            tables=self.tables,
            rewrites=self.spark_writer,
            changes=Upserts(self.tables, self.spark_writer, writer),
            loads=IcebergLoads(self.tables, writer),
            histories=IcebergAppends(self.tables, self.spark_writer, writer),
            upkeep=IcebergUpkeep(catalog, writer),
        )
        super().__init__(replace(self.capabilities, atomic_tables=commit == "batch"), parts, unchanged)

    @property
    def conflicts(self) -> Tally:
        return self.catalog.conflicts

    def state(self, job: str) -> StateStore:
        lake = self.catalog
        prefix = f"spark.sql.catalog.{lake.name}."
        options = {key.removeprefix(prefix): text for key, text in lake.options.items() if key.startswith(prefix)}
        config = IcebergConfig(warehouse=lake.warehouse, catalog=lake.name, catalog_options=options)
        return open_state(config, job, dict(lake.spark.sparkContext.getConf().getAll()))

    def commit_with(self, states: StateStore) -> None:
        self.capabilities.need("atomic_tables", "the tables of a batch are to be one commit")
        self.tables.together.commit()
