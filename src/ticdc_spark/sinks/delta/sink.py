"""The sink ``kind = "delta"``: implements the contract with an object for each part."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.job import DeltaConfig
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import shown
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended
from ticdc_spark.sinks.base import ColumnChanges, Fill, Stamp, TableFound
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.delta.lake import DeltaLake, sql_name
from ticdc_spark.sinks.delta.loads import DeltaLoads
from ticdc_spark.sinks.delta.python_tables import storage_options
from ticdc_spark.sinks.delta.rows import DeltaRows
from ticdc_spark.sinks.delta.state import DeltaState
from ticdc_spark.sinks.delta.tables import DeltaTables
from ticdc_spark.sinks.delta.types import DeltaTypes
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.spark_types import LakeNames
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.sinks.type_map import ColumnConversion, TypeMap
from ticdc_spark.sinks.upkeep import FilePlace, UpkeepPolicy, UpkeepResult
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn


class DeltaSink:
    """Delta tables. See ``sinks.base.Sink``."""

    capabilities = Capabilities(upkeep=False, layouts=False, history=False)
    names = LakeNames()

    def __init__(self, spark: SparkSession, config: DeltaConfig, fence: Callable[[], None] = lambda: None) -> None:
        """``fence``: called before each commit; raises if the job must not write any more."""
        self.types: TypeMap = DeltaTypes(widens=config.type_widening)
        self.lake = DeltaLake(spark, config.warehouse, config.table_properties, fence)
        self.tables = DeltaTables(self.lake)
        self.rows = DeltaRows(self.tables)
        self.loads = DeltaLoads(self.tables)

    @property
    def conflicts(self) -> Tally:
        return self.lake.conflicts

    def state(self, job: str) -> StateStore:
        spark = dict(self.lake.spark.sparkContext.getConf().getAll())
        return DeltaState(self.lake.warehouse, job, storage_options(self.lake.warehouse, spark))

    def commit_with(self, states: StateStore) -> None:
        self.capabilities.need("atomic_tables", "the tables of a batch are to be one commit with the state")

    # ---- tables

    def find(self, table: TableName) -> TableFound | None:
        return self.tables.find(table)

    def list_tables(self, job: str) -> list[TableName]:
        return self.tables.list_tables(job)

    def snapshot_id(self, table: TableName) -> int | None:
        return self.tables.snapshot_id(table)

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        if layout:
            self.capabilities.need("layouts", f"table {shown(table)} is to be made with a layout of files")
        self.tables.create(table, columns, stamp)

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        self.tables.drop(table)

    def rename(self, old: TableName, new: TableName) -> None:
        self.tables.rename(old, new)

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        self.tables.truncate(table, stamp)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        self.tables.stamp(table, stamp)

    def create_database(self, schema: str) -> None:
        self.tables.create_database(schema)

    def drop_database(self, schema: str) -> None:
        self.tables.drop_database(schema)

    # ---- columns

    def columns(self, table: TableName) -> dict[str, str]:
        return self.tables.columns(table)

    def sql_name(self, table: TableName) -> str:
        return sql_name(self.tables.living(table))

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        self.tables.change_columns(table, changes, stamp)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self.rows.fill_column(table, column, fill, stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        self.rows.convert_column(table, old, column, conversion, stamp)

    # ---- rows

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        self.rows.upsert(table, changes, stamp)

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        self.capabilities.need("history", f"table {shown(table)} is to be the history of {shown(beside)}")

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self.rows.change_counts(table, changes, stamp)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        self.rows.take_rows(table, columns, source, stamp, new_keys=new_keys)

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        self.rows.delete_where(table, where, stamp)

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        return self.tables.read(table, columns, as_of)

    # ---- full reads

    def load_note(self, table: TableName) -> LoadNote | None:
        return self.loads.load_note(table)

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        self.loads.begin_load(table, note)

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        return self.loads.load(table, columns, read, parts, note)

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        return self.loads.load_changes(table, changes, note)

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        self.loads.load_rows(table, columns, source, where, note)

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        self.loads.finish_load(table, stamp)

    # ---- what people do with Delta's own commands

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        self.capabilities.need("upkeep", f"the files of {shown(table)} are to be looked after")
        return UpkeepResult()

    def file_places(self) -> Sequence[FilePlace]:
        self.capabilities.need("upkeep", "orphan files are to be removed")
        return ()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        return len(self.file_places())
