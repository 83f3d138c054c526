"""The sink in memory, whose rows come by files: ``sinks.iceberg`` commits them, over a fake of Iceberg's Java API.

Rows and stamps go through the real ``row_delta.commit``, ``target`` and ``IcebergTables.stamp``; what Spark would do
(MERGE) is a snapshot with its stamp, and properties in a second commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from tests.simulator.fake_iceberg import FakeTables, without_pauses
from tests.simulator.files import Files
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Applied, NetChanges, Stamp
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.data_files import Written, WrittenFile
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.rows import row_delta
from ticdc_spark.sinks.iceberg.rows.target import Target, target
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.memory.lake import Lake, LakeRow, MemoryTable
from ticdc_spark.sinks.memory.sink import MemorySink
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn

_NUMBERS = count(1)
Action = Callable[[], None]


class FilesSink(MemorySink):
    def __init__(self, lake: Lake, files: Files, fence: Callable[[], None]) -> None:
        super().__init__(lake, fence)
        self.files = files
        self.tables = FakeTables(lake, files, fence)
        self._changes: NetChanges | None = None
        self._is_mine = False
        """A snapshot is made whose properties come otherwise."""

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        held = self.lake.table(table)

        def make() -> None:
            self.lake.add_snapshot(held, held.rows, "append", stamp)

        self.tables.action = (f"stamp {'.'.join(table)}", make)
        with without_pauses():
            self.tables.stamp(table, stamp)

    def apply_net_changes(self, changes: NetChanges) -> Applied:
        self._changes = changes
        try:
            with without_pauses():
                return super().apply_net_changes(changes)
        finally:
            self._changes = None

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
        changes, self._changes = self._changes, None
        if changes is None:
            super()._durable(what, action)
            return

        def make() -> None:
            self._is_mine = True
            try:
                action()
            finally:
                self._is_mine = False

        to = None if changes.leave_out_unreadable else self._target(changes)
        if to is None or isinstance(to, Closed):
            self._by_spark(what, make, changes)
            return
        name = f"{next(_NUMBERS)}.parquet"
        self.files.write(f"{to.files.location}/{name}")
        self.tables.action = (what, make)
        written = Written(files=(WrittenFile(name=name, rows=1, size=1, footer=b""),))
        if not row_delta.commit(self.tables, to, written, {}, changes.stamp):
            self._by_spark(what, make, changes)

    def _target(self, changes: NetChanges) -> Target | Closed:
        return target(self.tables, changes.table, changes.plan.columns, changes.stamp.seen)

    def _by_spark(self, what: str, make: Action, changes: NetChanges) -> None:
        """As a MERGE of Spark's: the properties follow in a commit of their own."""
        table, stamp = changes.table, changes.stamp
        self._allow_null(table, changes.plan.columns)
        note = self.lake.table(table).note

        def merge() -> None:
            make()
            held = self.lake.table(table)
            if any(row.get(at) is None for row in held.rows for at in self._required(held)):
                raise SinkFault(f"changes cannot be merged into {table}: NOT_NULL_ASSERT_VIOLATION")

        super()._durable(what, merge)
        self.tables.action = None
        with faults(f"changes cannot be merged into {table}"):
            if hasattr(self.tables, "change"):
                self.tables.change(table, stamp, lambda _, __: None)
            else:
                self.tables.commit(table, self.tables.load_table(table).newTransaction(), stamp, note)

    def _allow_null(self, table: TableName, columns: Sequence[LakeColumn]) -> None:
        """What the real sink does before Spark writes, and before a full read."""
        allow = getattr(self.tables, "allow_null", None)
        if allow is not None:
            with faults(f"rows cannot be written to {table}"):
                allow(table, self.tables.load_table(table), columns)

    def _required(self, held: MemoryTable) -> set[int]:
        return {field.id for field in held.fields} & self.files.required

    def _put(self, table: MemoryTable, rows: tuple[LakeRow, ...], operation: str, stamp: Stamp) -> None:
        if self._is_mine:
            self.lake.add_snapshot(table, rows, operation, msgspec.structs.replace(stamp))
        else:
            super()._put(table, rows, operation, stamp)
