"""The lake in memory as other tools and people see it and change it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from tests.memory_sink.lake import Field, MemoryTable
from tests.memory_sink.lake import Lake as Tables
from tests.simulator.files import Files
from tests.simulator.seams import Cells, Copy, LakeTable, TableName
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import unescape
from ticdc_spark.spark.types import LakeOptions, lake_columns, to_arrow

_READ_FOR_NULL = {
    "int32": 0,
    "int64": 0,
    "float": 0.0,
    "double": 0.0,
    "bool": False,
    "decimal": Decimal(0),
    "binary": b"",
    "local": datetime(1970, 1, 1),  # noqa: DTZ001
    "instant": datetime(1970, 1, 1, tzinfo=UTC),
}
"""What readers find where a column that holds no NULL has one; ``""`` in others."""


class LakeOfLab:
    """The lake as other tools and people see it and change it. See ``seams.Lake``."""

    def __init__(self, tables: Tables, files: Files) -> None:
        self._lake, self._files = tables, files
        self._read: dict[TableName, tuple[tuple[Field, ...], int | None, tuple[str, ...], list[Cells]]] = {}
        """By table, as of a snapshot: its columns and rows under the source's names."""

    def source(self, held: str) -> str:
        """The source's name of a column."""
        return unescape(held)

    def held(self, source: str) -> str:
        """The name in the lake of a column, by that in the lake of a job without rules."""
        return source

    def _at(self, table: TableName) -> MemoryTable:
        return self._lake.tables[table]

    def tables(self) -> Mapping[TableName, LakeTable]:
        found = {}
        for (schema, name), table in self._lake.tables.items():
            looked = self._lake.find((schema, name))
            stamp = looked.stamp if looked is not None else None
            columns, rows = self._rows((schema, name), table)
            found[unescape(schema), unescape(name)] = LakeTable(
                columns=columns,
                rows=rows,
                mark_ts=None if stamp is None else stamp.mark[0],
                snapshots=_depth(table),
                made_up=self._made_up(table),
            )
        return found

    def _rows(self, name: TableName, table: MemoryTable) -> tuple[tuple[str, ...], list[Cells]]:
        known = self._read.get(name)
        if known is None or known[0] is not table.fields or known[1] != table.current:
            columns = tuple(self.source(column.name) for column in table.fields)
            ids = [column.id for column in table.fields]
            rows: list[Cells] = [dict(zip(columns, map(row.get, ids), strict=True)) for row in table.rows]
            required = [one for one in table.fields if one.id in self._files.required]
            for column in required:
                name_there, value = self.source(column.name), _READ_FOR_NULL.get(column.type.arrow, "")
                rows = [{**row, name_there: value} if row[name_there] is None else row for row in rows]
            known = self._read[name] = table.fields, table.current, columns, rows
        return known[2], known[3]

    def _made_up(self, table: MemoryTable) -> tuple[str, ...]:
        required = [one for one in table.fields if one.id in self._files.required]
        return tuple(one.name for one in required if any(row.get(one.id) is None for row in table.rows))

    def save(self) -> Copy:
        return _copied((self._lake.tables, self._lake.namespaces, self._lake.letters))

    def restore(self, held: Copy) -> None:
        self._lake.tables, self._lake.namespaces, self._lake.letters = _copied(held)

    def restore_table(self, table: TableName, held: Copy) -> None:
        if table in held[0]:
            self._lake.tables[table] = held[0][table].copy()

    def rollback(self, table: TableName, back: int) -> None:
        one = self._at(table)
        for _ in range(back):
            parent = None if one.current is None else one.snapshots[one.current].parent
            if parent is None or parent not in one.snapshots:
                break
            one.current = parent

    def compact(self, table: TableName) -> None:
        self._lake.add_snapshot(self._at(table), self._at(table).rows, "replace", None)

    def expire(self, table: TableName) -> None:
        one = self._at(table)
        one.snapshots = {number: held for number, held in one.snapshots.items() if number == one.current}

    def insert(self, table: TableName, row: Cells) -> None:
        one = self._at(table)
        new = {column.id: row.get(self.source(column.name)) for column in one.fields}
        if any(new[column.id] is None for column in one.fields if column.id in self._files.required):
            return  # Spark refuses it.
        self._lake.add_snapshot(one, (*one.rows, new), "append", None)

    def delete(self, table: TableName, at: int) -> None:
        one = self._at(table)
        if one.rows:
            left = [row for number, row in enumerate(one.rows) if number != at % len(one.rows)]
            self._lake.add_snapshot(one, tuple(left), "delete", None)

    def drop_column(self, table: TableName, column: str) -> None:
        one = self._at(table)
        one.fields = tuple(field for field in one.fields if field.name != self.held(column))

    def drop(self, table: TableName) -> None:
        self._lake.tables.pop(table, None)

    def create(self, table: Table, rows: Sequence[Cells], required: Collection[str] = ()) -> None:
        columns = lake_columns(table, handle_key(table), LakeOptions())
        fields = tuple(Field(self._lake.next_id(), self.held(column.name), column.type) for column in columns)
        made = MemoryTable(fields=fields)
        typed = [
            to_arrow(column, LakeOptions())([row.get(column.source) for row in rows])[0].to_pylist()
            for column in columns
        ]
        held = [
            dict(zip((field.id for field in made.fields), cells, strict=True)) for cells in zip(*typed, strict=True)
        ]
        self._files.required |= {one.id for one in made.fields if self.source(one.name) in required}
        self._lake.add_snapshot(made, tuple(held), "append", None)
        self._lake.tables[table.schema, table.name] = made


def _copied(held: Copy) -> Copy:
    tables, namespaces, letters = held
    return (
        {name: table.copy() for name, table in tables.items()},
        set(namespaces),
        {job: dict(kept) for job, kept in letters.items()},
    )


def _depth(table: MemoryTable) -> int:
    count, at = 0, table.current
    while at is not None and at in table.snapshots:
        count, at = count + 1, table.snapshots[at].parent
    return max(1, count)
