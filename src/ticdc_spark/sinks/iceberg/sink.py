"""The sink ``kind = "iceberg"``: implements the contract with an object for each part."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from msgspec.structs import replace

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.values import CommitName, WriterName
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended
from ticdc_spark.sinks.base import ColumnChanges, Fill, Stamp, TableFound
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.loads import IcebergLoads
from ticdc_spark.sinks.iceberg.rows.appends import IcebergAppends
from ticdc_spark.sinks.iceberg.rows.spark_writer import SparkWriter
from ticdc_spark.sinks.iceberg.rows.upsert import Upserts
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.sinks.iceberg.upkeep import IcebergUpkeep
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.spark_types import LakeNames, SparkTypes
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.states import open_state
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.sinks.upkeep import FilePlace, UpkeepPolicy, UpkeepResult
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn


class IcebergSink:
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
        self.tables = IcebergTables(self.catalog, together=commit == "batch")
        self.capabilities = replace(self.capabilities, atomic_tables=commit == "batch")
        self.spark_writer = SparkWriter(self.tables)
        self.upserts = Upserts(self.tables, self.spark_writer, writer)
        self.appends = IcebergAppends(self.tables, self.spark_writer, writer)
        self.loads = IcebergLoads(self.tables, writer)
        self.maintenance = IcebergUpkeep(self.catalog)

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

    # ---- tables

    def find(self, table: TableName) -> TableFound | None:
        return self.tables.find(table)

    def list_tables(self, job: str) -> list[TableName]:
        return self.tables.list_tables(job)

    def snapshot_id(self, table: TableName) -> int | None:
        return self.tables.snapshot_id(table)

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        self.tables.create(table, columns, stamp, layout)

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        self.tables.drop(table)

    def rename(self, old: TableName, new: TableName) -> None:
        self.tables.rename(old, new)

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        self.tables.truncate(table, stamp)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        self.tables.stamp(table, stamp)

    def create_database(self, schema: str) -> None:
        self.catalog.create_database(schema)

    def drop_database(self, schema: str) -> None:
        self.catalog.drop_database(schema)

    # ---- columns

    def columns(self, table: TableName) -> dict[str, str]:
        return self.tables.columns(table)

    def sql_name(self, table: TableName) -> str:
        return self.catalog.sql_name(table)

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        self.tables.change_columns(table, changes, stamp)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self.spark_writer.fill_column(table, column, fill, stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        self.spark_writer.convert_column(table, old, column, conversion, stamp)

    # ---- rows

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        self.upserts.upsert(table, changes, stamp, appended)

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self.upserts.change_counts(table, changes, stamp)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        self.spark_writer.take_rows(table, columns, source, stamp, new_keys=new_keys)

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        self.spark_writer.delete_where(table, where, stamp)

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        self.appends.append(table, what, stamp, beside)

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

    # ---- maintenance

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        return self.maintenance.look_after(table, policy, now)

    def file_places(self) -> Sequence[FilePlace]:
        return self.maintenance.file_places()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        return self.maintenance.remove_orphans(table, older_than, places)
