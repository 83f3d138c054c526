"""A sink whose tables have history tables beside them: the rules of ``[[history]]``.

Each change of a table is first written to its history (``change_history``). Callers do not see the histories.
"""

from collections.abc import Sequence

import msgspec

from ticdc_spark.changes.events import ENDED
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.job import Job
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import ColumnChanges, Fill, Sink, Stamp
from ticdc_spark.sinks.change_history import ChangeHistory
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.routed import RoutedSink, routed
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.sinks.upkeep import FilePlace, UpkeepPolicy, UpkeepResult
from ticdc_spark.spark.types import LakeColumn


def of_job(sink: Sink, job: Job) -> Sink:
    """The sink of a job with its histories; callers use the source's names. Raises: NotSupported"""
    if not job.histories:
        return routed(sink, job)
    sink.capabilities.need("history", "tables are to have a history")
    return RecordedSink(sink, job)


class RecordedSink(RoutedSink):
    """See ``sinks.base.Sink``."""

    def __init__(self, sink: Sink, job: Job) -> None:
        super().__init__(sink, job)
        self._history = ChangeHistory(sink, job)

    def list_tables(self, job: str) -> list[TableName]:
        return [self._source(held) for held in self._sink.list_tables(job) if not self._history.is_one(held)]

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        self._history.create(table, columns, stamp)
        super().create(table, columns, stamp, layout)

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        if ended is not None:
            self._history.note(table, ENDED, ended)
        super().drop(table, ended)

    def rename(self, old: TableName, new: TableName) -> None:
        self._history.rename(old, new)
        super().rename(old, new)

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        self._history.note(table, ENDED, stamp)
        super().truncate(table, stamp)

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        self._history.advance(table, stamp)
        super().stamp(table, stamp)

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        self._history.change_columns(table, changes, stamp)
        super().change_columns(table, changes, stamp)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self._history.advance(table, stamp)
        super().fill_column(table, column, fill, stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        self._history.advance(table, stamp)
        super().convert_column(table, old, column, conversion, stamp)

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        self._history.note_events(table, changes, stamp)
        super().upsert(table, changes, stamp, appended)

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self._history.refuse_counts(table)
        super().change_counts(table, changes, stamp)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        self._history.take_rows(table, columns, source, stamp)
        super().take_rows(table, columns, source, stamp, new_keys=new_keys)

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        self._history.note_moved(table, where, stamp)
        super().delete_where(table, where, stamp)

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        self._history.note_read(table, stamp)
        super().finish_load(table, stamp)

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        result = super().look_after(table, policy, now)
        place = self._history.place(table)
        if place is None:
            return result
        beside = self._sink.look_after(place, policy, now)
        return msgspec.structs.replace(result, done=(*result.done, *beside.done))

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        removed = super().remove_orphans(table, older_than, places)
        place = self._history.place(table)
        return removed if place is None else removed + self._sink.remove_orphans(place, older_than, places)
