"""The sink in memory, whose rows come by files: ``sinks.iceberg`` commits them, over a fake of Iceberg's Java API.

Rows and stamps go through the real ``row_delta.commit``, ``target`` and ``IcebergTables.stamp``; what Spark would do
(MERGE) is a snapshot with its stamp, and properties in a second commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tests.memory_sink.lake import Lake, LakeRow, MemoryTable
from tests.memory_sink.sink import MemorySink
from tests.simulator.fake_iceberg import FakeCatalog, without_pauses
from tests.simulator.files import Files
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.data_files import Written, WrittenFile
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.rows import row_delta
from ticdc_spark.sinks.iceberg.rows.target import target
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.spark.storage import footer_of
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn

_NUMBERS = count(1)
Action = Callable[[], None]


@cache
def _footer() -> bytes:
    """The footer of a file without row groups."""
    collected: list[pq.FileMetaData] = []
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), pa.BufferOutputStream(), metadata_collector=collected)
    return footer_of(collected[0])


class FilesSink(MemorySink):
    def __init__(self, lake: Lake, files: Files, fence: Callable[[], None]) -> None:
        super().__init__(lake, fence)
        self.files = files
        self.catalog = FakeCatalog(lake, files, fence)
        self.tables = IcebergTables(self.catalog)
        self._upserted: tuple[TableName, TypedChanges, Stamp] | None = None
        self._is_mine = False
        """A snapshot is made whose properties come otherwise."""

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        held = self.lake.table(table)

        def make() -> None:
            self.lake.add_snapshot(held, held.rows, "append", stamp)

        self.catalog.action = (f"stamp {'.'.join(table)}", make)
        with without_pauses():
            self.tables.stamp(table, stamp)

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        self._upserted = None if changes.ordered_by else (table, changes, stamp)
        try:
            with without_pauses():
                super().upsert(table, changes, stamp, appended)
        finally:
            self._upserted = None

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        self._upserted = (table, changes, stamp)
        try:
            with without_pauses():
                super().change_counts(table, changes, stamp)
        finally:
            self._upserted = None

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        self._allow_null(table, columns)
        return super().load(table, columns, read, parts, note)

    def _durable(self, what: str, action: Action) -> None:
        upserted, self._upserted = self._upserted, None
        if upserted is None:
            super()._durable(what, action)
            return
        table, changes, stamp = upserted

        def make() -> None:
            self._is_mine = True
            try:
                action()
            finally:
                self._is_mine = False

        by_spark = changes.leave_out_unreadable or changes.is_counted
        to = None if by_spark else target(self.tables, table, changes.columns, stamp.seen)
        if to is None or isinstance(to, Closed):
            self._by_spark(what, make, *upserted)
            return
        name = f"{next(_NUMBERS)}.parquet"
        self.files.write(f"{to.files.location}/{name}")
        self.catalog.action = (what, make)
        written = Written(files=(WrittenFile(name=name, rows=1, size=1, footer=_footer()),))
        if not row_delta.commit(self.tables, to, written, {}, stamp):
            self._by_spark(what, make, *upserted)

    def _by_spark(self, what: str, make: Action, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        """As a MERGE of Spark's: the properties follow in a commit of their own."""
        self._allow_null(table, changes.columns)
        note = self.lake.table(table).note

        def merge() -> None:
            make()
            held = self.lake.table(table)
            if any(row.get(at) is None for row in held.rows for at in self._required(held)):
                raise SinkFault(f"changes cannot be merged into {table}: NOT_NULL_ASSERT_VIOLATION")

        super()._durable(what, merge)
        self.catalog.action = None
        with faults(f"changes cannot be merged into {table}"):
            if hasattr(self.tables, "change"):
                self.tables.change(table, stamp, lambda _, __: None)
            else:
                self.tables.commit(table, self.catalog.load_table(table).newTransaction(), stamp, note)

    def _allow_null(self, table: TableName, columns: Sequence[LakeColumn]) -> None:
        """What the real sink does before Spark writes, and before a full read."""
        allow = getattr(self.tables, "allow_null", None)
        if allow is not None:
            with faults(f"rows cannot be written to {table}"):
                allow(table, self.catalog.load_table(table), columns)

    def _required(self, held: MemoryTable) -> set[int]:
        return {field.id for field in held.fields} & self.files.required

    def _put(self, table: MemoryTable, rows: tuple[LakeRow, ...], operation: str, stamp: Stamp) -> None:
        if self._is_mine:
            self.lake.add_snapshot(table, rows, operation, msgspec.structs.replace(stamp))
        else:
            super()._put(table, rows, operation, stamp)
