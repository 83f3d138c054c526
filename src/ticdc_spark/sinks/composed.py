"""A sink that is made of an object for each part of the contract."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import shown
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended, RowsOf
from ticdc_spark.sinks.base import (
    Changes,
    ColumnChanges,
    Fill,
    Histories,
    Loads,
    Rewrites,
    Sink,
    Stamp,
    TableFound,
    Tables,
)
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.sinks.upkeep import FilePlace, Upkeep, UpkeepPolicy, UpkeepResult
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn


class Parts(NamedTuple):
    """The objects of a sink. They know tables by the target's names."""

    tables: Tables
    rewrites: Rewrites
    changes: Changes
    loads: Loads
    histories: Histories | None
    """``None``: unless ``capabilities.history``."""
    upkeep: Upkeep | None
    """``None``: unless ``capabilities.upkeep``."""


def parts_of(sink: Sink) -> Parts:
    """The parts of another sink: its own methods."""
    return Parts(sink, sink, sink, sink, sink, sink)


class ComposedSink:
    """See ``sinks.base.Sink``. A sink of a kind adds what it can do, its types and names, and where its state is."""

    def __init__(self, capabilities: Capabilities, parts: Parts, to: Callable[[TableName], TableName]) -> None:
        """``to``: the name in the target of a table. Raises: DecisionNeeded if the target cannot have that name"""
        self.capabilities, self._parts, self._to = capabilities, parts, to

    # ---- tables

    def find(self, table: TableName) -> TableFound | None:
        return self._parts.tables.find(self._to(table))

    def list_tables(self, job: str) -> list[TableName]:
        return self._parts.tables.list_tables(job)

    def snapshot_id(self, table: TableName) -> int | None:
        return self._parts.tables.snapshot_id(self._to(table))

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        if layout:
            self.capabilities.need("layouts", f"table {shown(table)} is to be made with a layout of files")
        self._parts.tables.create(self._to(table), columns, stamp, layout)

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        self._parts.tables.drop(self._to(table))

    def rename(self, old: TableName, new: TableName) -> None:
        self._parts.tables.rename(self._to(old), self._to(new))

    def flush(self, table: TableName) -> None:
        self._parts.tables.flush(self._to(table))

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        self._parts.tables.truncate(self._to(table), stamp)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        self._parts.tables.stamp(self._to(table), stamp)

    def create_database(self, schema: str) -> None:
        self._parts.tables.create_database(self._to((schema, ""))[0])

    def drop_database(self, schema: str) -> None:
        self._parts.tables.drop_database(self._to((schema, ""))[0])

    def columns(self, table: TableName) -> dict[str, str]:
        return self._parts.tables.columns(self._to(table))

    def sql_name(self, table: TableName) -> str:
        return self._parts.tables.sql_name(self._to(table))

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        self._parts.tables.change_columns(self._to(table), changes, stamp)

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        if as_of is not None:
            self.capabilities.need("time_travel", f"table {shown(table)} is to be read as of {as_of}")
        return self._parts.tables.read(self._to(table), columns, as_of)

    # ---- rows

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self._parts.rewrites.fill_column(self._to(table), column, fill, stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        self._parts.rewrites.convert_column(self._to(table), old, column, conversion, stamp)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        self._parts.rewrites.take_rows(self._to(table), columns, self._to(source), stamp, new_keys=new_keys)

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        self._parts.rewrites.delete_where(self._to(table), where, stamp)

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        self._parts.changes.upsert(self._to(table), changes, stamp, appended)

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self._parts.changes.change_counts(self._to(table), changes, stamp)

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        self.capabilities.need("history", f"table {shown(table)} is to be the history of {shown(beside)}")
        assert self._parts.histories is not None, "the sink has the capability"
        if isinstance(what, RowsOf):
            what = replace(what, source=self._to(what.source))
        self._parts.histories.append(self._to(table), what, stamp, self._to(beside))

    # ---- full reads

    def load_note(self, table: TableName) -> LoadNote | None:
        return self._parts.loads.load_note(self._to(table))

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        self._parts.loads.begin_load(self._to(table), note)

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        return self._parts.loads.load(self._to(table), columns, read, parts, note)

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        return self._parts.loads.load_changes(self._to(table), changes, note)

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        self._parts.loads.load_rows(self._to(table), columns, self._to(source), where, note)

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        self._parts.loads.finish_load(self._to(table), stamp)

    # ---- upkeep

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        return self._upkeep(f"the files of {shown(table)} are to be looked after").look_after(
            self._to(table), policy, now
        )

    def file_places(self) -> Sequence[FilePlace]:
        return self._upkeep("orphan files are to be removed").file_places()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        what = f"orphan files of {shown(table)} are to be removed"
        return self._upkeep(what).remove_orphans(self._to(table), older_than, places)

    def _upkeep(self, what: str) -> Upkeep:
        self.capabilities.need("upkeep", what)
        assert self._parts.upkeep is not None, "the sink has the capability"
        return self._parts.upkeep


def unchanged(table: TableName) -> TableName:
    """The name of a table, for targets that keep it."""
    return table


def without_prefix(prefix: str, names: Sequence[TableName]) -> list[TableName]:
    """The names at the source of those tables whose database in the target begins with ``prefix``."""
    return [(database.removeprefix(prefix), table) for database, table in names if database.startswith(prefix)]
