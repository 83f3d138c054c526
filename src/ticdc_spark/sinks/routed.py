"""A sink whose tables have other names and columns in the target than at the source: the rules of ``[[route]]``.

Names of tables are translated only here. Callers use the source's names. ``shaped_types`` has the columns.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.job import Job
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended
from ticdc_spark.sinks.base import ColumnChanges, Fill, Sink, Stamp, TableFound
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.shaped_types import ShapedTypes
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.sinks.type_map import ColumnConversion, NameRule, TypeMap
from ticdc_spark.sinks.upkeep import FilePlace, UpkeepPolicy, UpkeepResult
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn


def routed(sink: Sink, job: Job) -> Sink:
    """The sink of a job for callers with the source's names; ``sink`` itself if there are no rules."""
    return RoutedSink(sink, job) if job.routes else sink


class RoutedSink:
    """See ``sinks.base.Sink``."""

    def __init__(self, sink: Sink, job: Job) -> None:
        self._sink, self._routes, self._salt = sink, compiled(job.routes), job.mask_salt
        self._to = self._routes.target

    @property
    def capabilities(self) -> Capabilities:
        return self._sink.capabilities

    @cached_property
    def types(self) -> TypeMap:
        return ShapedTypes(self._sink.types, self._sink.names, self._routes, self._salt)

    @property
    def names(self) -> NameRule:
        return self._sink.names

    @property
    def conflicts(self) -> Tally:
        return self._sink.conflicts

    def state(self, job: str) -> StateStore:
        return self._sink.state(job)

    def commit_with(self, states: StateStore) -> None:
        self._sink.commit_with(states)

    # ---- tables

    def find(self, table: TableName) -> TableFound | None:
        return self._sink.find(self._to(table))

    def list_tables(self, job: str) -> list[TableName]:
        """See ``sinks.base.Tables``. A table that no rule maps to its place keeps the target's name."""
        return [self._source(name) for name in self._sink.list_tables(job)]

    def snapshot_id(self, table: TableName) -> int | None:
        return self._sink.snapshot_id(self._to(table))

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        try:
            layout = layout or self._layout(table, columns)
            self._sink.create(self._to(table), columns, stamp, layout)
        except UsageError as error:
            raise UsageError(f"{shown(table)}: {error}") from error

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        self._sink.drop(self._to(table), ended)

    def rename(self, old: TableName, new: TableName) -> None:
        self._sink.rename(self._to(old), self._to(new))

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        self._sink.truncate(self._to(table), stamp)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        self._sink.stamp(self._to(table), stamp)

    def create_database(self, schema: str) -> None:
        database, _ = self._routes.database(schema)
        if database:
            self._sink.create_database(database)

    def drop_database(self, schema: str) -> None:
        database, is_own = self._routes.database(schema)
        if is_own:
            self._sink.drop_database(database)

    # ---- columns

    def columns(self, table: TableName) -> dict[str, str]:
        return self._sink.columns(self._to(table))

    def sql_name(self, table: TableName) -> str:
        return self._sink.sql_name(self._to(table))

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        self._sink.change_columns(self._to(table), changes, stamp)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self._sink.fill_column(self._to(table), column, fill, stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        self._sink.convert_column(self._to(table), old, column, conversion, stamp)

    # ---- rows

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        self._sink.upsert(self._to(table), changes, stamp, appended)

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self._sink.change_counts(self._to(table), changes, stamp)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        self._sink.take_rows(self._to(table), columns, self._to(source), stamp, new_keys=new_keys)

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        self._sink.delete_where(self._to(table), where, stamp)

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        """See ``sinks.base.Changes``. A history table and its rows already use the target's names."""
        self._sink.append(table, what, stamp, beside)

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        return self._sink.read(self._to(table), columns, as_of)

    # ---- full reads

    def load_note(self, table: TableName) -> LoadNote | None:
        return self._sink.load_note(self._to(table))

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        self._sink.begin_load(self._to(table), note)

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        return self._sink.load(self._to(table), columns, read, parts, note)

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        return self._sink.load_changes(self._to(table), changes, note)

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        self._sink.load_rows(self._to(table), columns, self._to(source), where, note)

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        self._sink.finish_load(self._to(table), stamp)

    # ---- maintenance

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        return self._sink.look_after(self._to(table), policy, now)

    def file_places(self) -> Sequence[FilePlace]:
        return self._sink.file_places()

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        return self._sink.remove_orphans(self._to(table), older_than, places)

    def _layout(self, table: TableName, columns: Sequence[LakeColumn]) -> Layout:
        """The layout of a new table, with its columns' names in the target. Raises: UsageError"""
        layout = self._routes.layout(table)
        names = {column.source.casefold(): column.name for column in columns}

        def held(column: str) -> str:
            if column.casefold() not in names:
                raise UsageError(f"[[route]]: the table has no column `{column}` in the target")
            return names[column.casefold()]

        return replace(
            layout,
            partition_by=tuple(replace(one, column=held(one.column)) for one in layout.partition_by),
            sort_by=tuple(replace(one, column=held(one.column)) for one in layout.sort_by),
        )

    def _source(self, held: TableName) -> TableName:
        found = self._sink.find(held)
        about = "" if found is None or found.stamp is None else found.stamp.about
        if not about:
            return held
        of = msgspec.json.decode(about.encode(), type=_About)
        name = of.full_name
        return name if self._to(name) == held else held


class _About(msgspec.Struct, frozen=True):
    """The table's name at the source, from the text of a stamp."""

    schema: str
    name: str

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name
