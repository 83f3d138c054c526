"""Filters the rows of a full read by the condition of a rule."""

from __future__ import annotations

from collections.abc import Sequence

from ticdc_spark.capture.snapshot.base import Wanted
from ticdc_spark.config.row_filters import row_filter
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Table, Value
from ticdc_spark.mysql import is_bytes
from ticdc_spark.spark.tasks import UNREADABLE


class KeptRows:
    """A row is read with ``columns``: the lake's, then others that the condition names."""

    def __init__(self, wanted: Wanted, table: Table) -> None:
        """``table``: of the source. Raises: UsageError if it does not have the columns of the condition"""
        self._filter = row_filter(wanted.where, table) if wanted.where else None
        named = () if self._filter is None else self._filter.columns
        lake = [column.source for column in wanted.columns]
        by_name = {column.name: column for column in table.columns}
        self._size = len(lake)
        self.columns = (*lake, *(name for name in named if name not in lake))
        """The source's names of the columns."""
        self._judged: list[tuple[int, Column]] = [(self.columns.index(name), by_name[name]) for name in named]

    def of(self, rows: Sequence[Sequence[Value]]) -> Sequence[Sequence[Value]]:
        """The rows that meet the condition, in the lake's columns. Raises: MessageError if it cannot be evaluated"""
        if self._filter is None or not rows:
            return rows
        cells = [[_value(row[at], column) for row in rows] for at, column in self._judged]
        bad: dict[int, str] = {}
        unkept = self._filter.unkept(cells, range(len(rows)), bad)
        if bad:
            raise MessageError(f"{UNREADABLE}: {next(iter(bad.values()))}")
        return [row[: self._size] for at, row in enumerate(rows) if at not in unkept]


def _value(cell: Value, column: Column) -> Value:
    """A cell in the canonical form that conditions need."""
    if isinstance(cell, str):
        return cell.encode() if is_bytes(column.type) else cell
    return cell if cell is None or is_bytes(column.type) else cell.decode("utf-8", "surrogateescape")
