"""The sink ``kind = "mysql"``: tables of MySQL, MariaDB or TiDB, equal to the source's, all at the same commit."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import SparkSession

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.clients.mysql import connection_options, driver, quoted
from ticdc_spark.config.job import MysqlConfig
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended, RowsOf
from ticdc_spark.sinks.base import ColumnChanges, Fill, Stamp, TableFound
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mysql.client import OURS, Client
from ticdc_spark.sinks.mysql.pending import Change
from ticdc_spark.sinks.mysql.rows import MysqlRows
from ticdc_spark.sinks.mysql.state import MysqlState
from ticdc_spark.sinks.mysql.tables import MysqlTables, sql_name
from ticdc_spark.sinks.mysql.types import MysqlNames, MysqlTypes
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.sinks.upkeep import FilePlace, UpkeepPolicy, UpkeepResult
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn

_READ = 10_000
_TAKEN = {OURS, "mysql", "information_schema", "performance_schema", "sys"}
"""Databases that belong to the job or the server."""


class MysqlSink:
    """See ``sinks.base.Sink``. The objects that it uses take the target's names."""

    capabilities = Capabilities(
        time_travel=False,
        transactional_ddl=False,
        comments=False,
        atomic_tables=True,
        upkeep=False,
        sees_others=False,
        layouts=False,
    )
    names = MysqlNames()

    def __init__(
        self,
        config: MysqlConfig,
        fence: Callable[[], None] = lambda: None,
        *,
        job: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """``job``: its row changes wait for ``commit_with``; ``None``: each has its own commit.
        ``spark``: runs the tasks of full reads; ``None``: this process reads."""
        self.client = Client(connection_options(config.uri))
        self.tables = MysqlTables(self.client, fence, gathers=job is not None)
        self.rows = MysqlRows(self.tables, spark, job or "")
        self._prefix = config.database_prefix

    @property
    def types(self) -> MysqlTypes:
        return self.tables.types

    @cached_property
    def conflicts(self) -> Tally:
        """See ``sinks.base.Sink.conflicts``: locks keep other writers out, so there are none."""
        return Tally()

    def state(self, job: str) -> MysqlState:
        return MysqlState(Client(self.client.options), job)

    def commit_with(self, states: StateStore) -> None:
        assert isinstance(states, MysqlState), "the state of a job is in its target"
        states.waiting = self.tables.pending

    # ---- tables

    def find(self, table: TableName) -> TableFound | None:
        return self.tables.find(self._here(table))

    def list_tables(self, job: str) -> list[TableName]:
        cut = len(self._prefix)
        return [(name[0][cut:], name[1]) for name in self.tables.list_tables(job) if name[0].startswith(self._prefix)]

    def snapshot_id(self, table: TableName) -> int | None:
        found = self.find(table)
        if found is None:
            raise SinkFault(f"there is no table {shown(self._here(table))}")
        return found.snapshot

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        if layout:
            self.capabilities.need("layouts", f"table {shown(table)} is to be made with a layout of files")
        self.tables.create(self._here(table), columns, stamp)

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        self.tables.drop(self._here(table))

    def rename(self, old: TableName, new: TableName) -> None:
        self.tables.rename(self._here(old), self._here(new))

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        here = self._here(table)
        self.tables.swap(here, *self.rows.empty_beside(here), stamp)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        self.tables.do(Change(self._here(table), (), stamp))

    def create_database(self, schema: str) -> None:
        self.tables.fence()
        name, _ = self._here((schema, ""))
        self.client.run(f"CREATE DATABASE IF NOT EXISTS {quoted(name)} DEFAULT CHARACTER SET utf8mb4")

    def drop_database(self, schema: str) -> None:
        self.tables.fence()
        name, _ = self._here((schema, ""))
        sql = "SELECT COUNT(*) FROM `information_schema`.`tables` WHERE `table_schema` = %s"
        if not self.client.run(sql, name)[0][0]:
            self.client.run(f"DROP DATABASE IF EXISTS {quoted(name)}")

    # ---- columns

    def columns(self, table: TableName) -> dict[str, str]:
        return self.tables.columns(self._here(table))

    def sql_name(self, table: TableName) -> str:
        return sql_name(self._here(table))

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        self.tables.change_columns(self._here(table), changes, stamp)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self.rows.fill(self._here(table), column, fill, stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        self.rows.convert(self._here(table), old, column, conversion, stamp)

    # ---- rows

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        self.rows.upsert(self._here(table), changes, stamp)

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self.rows.change_counts(self._here(table), changes, stamp)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        self.rows.take_rows(self._here(table), columns, self._here(source), stamp)

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        self.rows.delete_where(self._here(table), where, stamp)

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        if isinstance(what, RowsOf):
            what = replace(what, source=self._here(what.source))
        self.rows.append(self._here(table), what, stamp, self._here(beside))

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        here = self._here(table)
        if as_of is not None:
            self.capabilities.need("time_travel", f"table {shown(here)} is to be read as of {as_of}")
        listed = ", ".join(map(quoted, columns))
        with self.client.connection() as connection, connection.cursor(driver().cursors.SSCursor) as cursor:
            cursor.execute(f"SELECT {listed} FROM {sql_name(here)}")
            while rows := cursor.fetchmany(_READ):
                yield pa.RecordBatch.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])

    # ---- full reads

    def load_note(self, table: TableName) -> LoadNote | None:
        return self.rows.load_note(self._here(table))

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        self.rows.begin_load(self._here(table), note)

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        return self.rows.load(self._here(table), columns, read, parts, note)

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        return self.rows.load_changes(self._here(table), changes, note)

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        self.rows.load_rows(self._here(table), columns, self._here(source), where, note)

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        self.rows.finish_load(self._here(table), stamp)

    # ---- nothing to do

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        self.capabilities.need("upkeep", f"the files of {shown(table)} are to be looked after")
        return UpkeepResult()

    def file_places(self) -> Sequence[FilePlace]:
        self.capabilities.need("upkeep", "orphan files are to be removed")
        return ()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        return len(self.file_places())

    def _here(self, table: TableName) -> TableName:
        return target_name(self._prefix, table)


def target_name(prefix: str, table: TableName) -> TableName:
    """The name of a table in the target. ``prefix``: of databases. Raises: DecisionNeeded if that database is
    reserved"""
    database = prefix + table[0]
    if database.casefold() in _TAKEN:
        raise DecisionNeeded(
            f"database `{table[0]}` would be copied into `{database}`, which is reserved. Set `database-prefix` "
            f"under [sink] so that it has another name (now: {prefix!r}), or exclude its tables with "
            "`tables` under [job]"
        )
    return database, table[1]
