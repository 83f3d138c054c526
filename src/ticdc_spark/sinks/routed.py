"""A sink whose tables have other names and columns in the target than at the source: the rules of ``[[route]]``.

Names of tables are translated only here. Callers use the source's names. ``shaped_types`` has the columns.
"""

from collections.abc import Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from ticdc_spark.config.job import Job
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended
from ticdc_spark.sinks.base import Sink, Stamp
from ticdc_spark.sinks.composed import ComposedSink, parts_of
from ticdc_spark.sinks.shaped_types import ShapedTypes
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.sinks.type_map import NameRule, TypeMap
from ticdc_spark.spark.types import LakeColumn


def routed(sink: Sink, job: Job) -> Sink:
    """The sink of a job for callers with the source's names; ``sink`` itself if there are no rules."""
    return RoutedSink(sink, job) if job.routes else sink


class RoutedSink(ComposedSink):
    """See ``sinks.base.Sink``."""

    def __init__(self, sink: Sink, job: Job) -> None:
        self._sink, self._routes, self._salt = sink, compiled(job.routes), job.mask_salt
        super().__init__(sink.capabilities, parts_of(sink), self._routes.target)

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

    def list_tables(self, job: str) -> list[TableName]:
        """See ``sinks.base.Tables``. A table that no rule maps to its place keeps the target's name."""
        return [self._source(name) for name in self._sink.list_tables(job)]

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        try:
            found = replace(layout or self._layout(table, columns), comment=layout.comment)
            super().create(table, columns, stamp, found)
        except UsageError as error:
            raise UsageError(f"{shown(table)}: {error}") from error

    def create_database(self, schema: str) -> None:
        database, _ = self._routes.database(schema)
        if database:
            self._sink.create_database(database)

    def drop_database(self, schema: str) -> None:
        database, is_own = self._routes.database(schema)
        if is_own:
            self._sink.drop_database(database)

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        """See ``sinks.base.Histories``. A history table and its rows already use the target's names."""
        self._sink.append(table, what, stamp, beside)

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
