"""The sink ``kind = "delta"``: implements the contract with an object for each part."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from ticdc_spark.config.job import DeltaConfig
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.composed import ComposedSink, Parts, unchanged
from ticdc_spark.sinks.delta.lake import DeltaLake
from ticdc_spark.sinks.delta.loads import DeltaLoads
from ticdc_spark.sinks.delta.python_tables import storage_options
from ticdc_spark.sinks.delta.rows import DeltaRows
from ticdc_spark.sinks.delta.state import DeltaState
from ticdc_spark.sinks.delta.tables import DeltaTables
from ticdc_spark.sinks.delta.types import DeltaTypes
from ticdc_spark.sinks.spark_types import LakeNames
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.sinks.type_map import TypeMap


class DeltaSink(ComposedSink):
    """Delta tables. See ``sinks.base.Sink``."""

    capabilities = Capabilities(upkeep=False, layouts=False, history=False)
    names = LakeNames()

    def __init__(self, spark: SparkSession, config: DeltaConfig, fence: Callable[[], None] = lambda: None) -> None:
        """``fence``: called before each commit; raises if the job must not write any more."""
        self.types: TypeMap = DeltaTypes(widens=config.type_widening)
        self.lake = DeltaLake(spark, config.warehouse, config.table_properties, fence)
        tables = DeltaTables(self.lake)
        rows = DeltaRows(tables)
        parts = Parts(tables=tables, rewrites=rows, changes=rows, loads=DeltaLoads(tables), histories=None, upkeep=None)
        super().__init__(self.capabilities, parts, unchanged)

    @property
    def conflicts(self) -> Tally:
        return self.lake.conflicts

    def state(self, job: str) -> StateStore:
        spark = dict(self.lake.spark.sparkContext.getConf().getAll())
        return DeltaState(self.lake.warehouse, job, storage_options(self.lake.warehouse, spark))

    def commit_with(self, states: StateStore) -> None:
        self.capabilities.need("atomic_tables", "the tables of a batch are to be one commit with the state")
