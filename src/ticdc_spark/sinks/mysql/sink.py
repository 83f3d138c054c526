"""The sink ``kind = "mysql"``: tables of MySQL, MariaDB or TiDB as at the source, all at one commit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.clients.mysql import driver, quoted
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import FilePlace, Fill, Stamp, UpkeepPolicy
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.mysql.client import Client, shown
from ticdc_spark.sinks.mysql.pending import Change
from ticdc_spark.sinks.mysql.rows import MysqlRows
from ticdc_spark.sinks.mysql.state import MysqlState
from ticdc_spark.sinks.mysql.tables import MysqlTables
from ticdc_spark.sinks.mysql.types import MysqlNames, MysqlTypes
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.spark.types import LakeColumn

_READ = 10_000


class MysqlSink:
    """See ``sinks.base.Sink``."""

    capabilities = Capabilities(
        time_travel=False, transactional_ddl=False, atomic_tables=True, upkeep=False, sees_others=False
    )
    names = MysqlNames()

    def __init__(
        self,
        options: Mapping[str, Any],
        fence: Callable[[], None] = lambda: None,
        *,
        prefix: str = "",
        gathers: bool = False,
        spark: SparkSession | None = None,
    ) -> None:
        """``options``: of connections. ``prefix``: of the databases' names. ``gathers``: changes of rows wait for
        ``commit_with``; else each is a commit of its own. ``spark``: whose tasks read whole tables."""
        self.client = Client(options)
        self.tables = tables = MysqlTables(self.client, fence, prefix, gathers=gathers)
        self.rows = rows = MysqlRows(tables, spark)
        self._prefix = prefix
        self.find, self.list_tables, self.columns = tables.find, tables.list_tables, tables.columns
        self.create, self.drop, self.rename = tables.create, tables.drop, tables.rename
        self.change_columns = tables.change_columns
        self.delete_where, self.convert_column = rows.delete_where, rows.convert
        self.load_note, self.begin_load, self.load = rows.load_note, rows.begin_load, rows.load
        self.finish_load = rows.finish_load

    @property
    def types(self) -> MysqlTypes:
        return self.tables.types

    def state(self, job: str) -> MysqlState:
        return MysqlState(Client(self.client.options), job)

    def commit_with(self, states: StateStore) -> None:
        assert isinstance(states, MysqlState), "the state of a job lies in its target"
        states.waiting = self.tables.pending

    def snapshot_id(self, table: TableName) -> int | None:
        found = self.find(table)
        if found is None:
            raise SinkFault(f"there is no table {shown(table)}")
        return found.snapshot

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        self.tables.swap(table, *self.rows.empty_beside(table), stamp)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        self.tables.do(Change(table, (), stamp))

    def create_database(self, schema: str) -> None:
        self.tables.fence()
        name = quoted(self._prefix + schema)
        self.client.run(f"CREATE DATABASE IF NOT EXISTS {name} DEFAULT CHARACTER SET utf8mb4")

    def drop_database(self, schema: str) -> None:
        self.tables.fence()
        name = self._prefix + schema
        sql = "SELECT COUNT(*) FROM `information_schema`.`tables` WHERE `table_schema` = %s"
        if not self.client.run(sql, name)[0][0]:
            self.client.run(f"DROP DATABASE IF EXISTS {quoted(name)}")

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self.rows.fill(table, column, fill.value, fill.lake, stamp)

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        self.rows.upsert(table, changes, stamp)

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        if as_of is not None:
            self.capabilities.need("time_travel", f"table {shown(table)} is to be read as of {as_of}")
        listed = ", ".join(map(quoted, columns))
        with self.client.connection() as connection, connection.cursor(driver().cursors.SSCursor) as cursor:
            cursor.execute(f"SELECT {listed} FROM {self.tables.sql(table)}")
            while rows := cursor.fetchmany(_READ):
                yield pa.RecordBatch.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> list[str]:
        self.capabilities.need("upkeep", f"the files of {shown(table)} are to be looked after")
        return []

    def file_places(self) -> Sequence[FilePlace]:
        self.capabilities.need("upkeep", "orphan files are to be removed")
        return ()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        return len(self.file_places())
