"""The sink in memory passes the contract of sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.contract import SinkContract
from tests.contract.capabilities import CapabilitiesContract
from tests.contract.member import OPENING, Guard, Member, Rows
from tests.memory_sink.lake import Field, Lake, MemoryTable
from tests.memory_sink.letters import open_letters
from tests.memory_sink.rows import MemoryRows
from tests.memory_sink.sink import MemorySink
from ticdc_spark.model import TableName
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.spark.types import LakeColumn


class MemoryOthers:
    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def _ids(self, table: TableName) -> dict[str, int]:
        return {column.name: column.id for column in self.lake.table(table).fields}

    def _put(self, table: TableName, rows: Sequence[Any], operation: str) -> None:
        self.lake.add_snapshot(self.lake.table(table), tuple(rows), operation, None)

    def insert(self, table: TableName, row: dict[str, Any]) -> None:
        ids = self._ids(table)
        new = {ids[name]: value for name, value in row.items()}
        self._put(table, (*self.lake.table(table).rows, new), "append")

    def delete(self, table: TableName, key: int) -> None:
        at = self._ids(table)["id"]
        self._put(table, [row for row in self.lake.table(table).rows if row.get(at) != key], "delete")

    def update(self, table: TableName, key: int, column: str, value: Any) -> None:
        ids = self._ids(table)
        rows = self.lake.table(table).rows
        changed = [{**row, ids[column]: value} if row.get(ids["id"]) == key else row for row in rows]
        self._put(table, changed, "overwrite")

    def compact(self, table: TableName) -> None:
        self._put(table, self.lake.table(table).rows, "replace")

    rewrite_manifests = rewrite_deletes = compact

    def expire(self, table: TableName) -> None:
        one = self.lake.table(table)
        one.snapshots = {number: held for number, held in one.snapshots.items() if number == one.current}

    def roll_back(self, table: TableName, snapshot: int) -> None:
        assert snapshot in self.lake.table(table).snapshots
        self.lake.table(table).current = snapshot

    set_current = roll_back

    def comments(self, table: TableName) -> dict[str, str]:
        return {column.name: column.comment for column in self.lake.table(table).fields if column.comment}

    def comment(self, table: TableName) -> str:
        return self.lake.table(table).comment

    def create(self, table: TableName, columns: Sequence[LakeColumn], rows: Rows) -> None:
        made = MemoryTable(fields=tuple(Field(self.lake.next_id(), one.name, one.type) for one in columns))
        self.lake.tables[table] = made
        ids = self._ids(table)
        self._put(table, [{ids[name]: value for name, value in row.items()} for row in rows], "append")


FEW = Capabilities(rename=False, full_reads=False, ordered_upsert=False, time_travel=False, counts=False)


def member_of(capabilities: Capabilities) -> Member:
    """A lake in memory."""
    lake, guard = Lake(), Guard()

    letters = open_letters(lake, "contract", guard)
    return Member(
        sink=MemorySink(lake, guard, capabilities),
        rows_of=lambda topic: MemoryRows(topic, OPENING),
        letters=letters,
        kept=lambda: sorted(
            (batch, stage, one.offset, one.reason)
            for (batch, stage), kept in lake.letters["contract"].items()
            for one in kept
        ),
        guard=guard,
        others=MemoryOthers(lake),
        read=lambda table: lake.table(table).named_rows(),
        schema="s",
    )


class TestMemorySink(SinkContract):
    """``MemorySink``."""

    @pytest.fixture
    def member(self) -> Member:
        return member_of(Capabilities())


class TestSinkOfFewCapabilities(CapabilitiesContract):
    """What it cannot do is refused."""

    @pytest.fixture
    def member(self) -> Member:
        return member_of(FEW)
