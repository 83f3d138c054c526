"""The rows of a full read that the lake keeps, with the values of virtual generated columns."""

from __future__ import annotations

from collections.abc import Sequence

from ticdc_spark.capture.snapshot.base import Wanted
from ticdc_spark.config.computed import computed
from ticdc_spark.config.row_filters import row_filter
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, Value
from ticdc_spark.mysql import is_bytes
from ticdc_spark.spark.tasks import UNREADABLE


class KeptRows:
    """A row is read with ``columns``: the lake's, then others that the condition or an expression names."""

    def __init__(self, wanted: Wanted, table: Table) -> None:
        """``table``: of the source. Raises: UsageError if it does not have the columns of the condition"""
        self._filter = row_filter(wanted.where, table) if wanted.where else None
        lake = [column.source for column in wanted.columns]
        self._computed = [computed(*one, table) for one in wanted.computed]
        judged = () if self._filter is None else self._filter.columns
        named = dict.fromkeys((*judged, *(name for one in self._computed for name in one.reads)))
        by_name = {column.name: column for column in table.columns}
        self._size = len(lake)
        self.columns = (*lake, *(name for name in named if name not in lake))
        """The source's names of the columns."""
        self._named = {name: (self.columns.index(name), is_bytes(by_name[name].type)) for name in named}

    def of(self, rows: Sequence[Sequence[Value]]) -> Sequence[Sequence[Value]]:
        """The rows that meet the condition, in the lake's columns. Raises: MessageError if it cannot be evaluated"""
        if (self._filter is None and not self._computed) or not rows:
            return rows
        cells = {
            name: [_value(row[at], is_binary=is_binary) for row in rows]
            for name, (at, is_binary) in self._named.items()
        }
        bad: dict[int, str] = {}
        every, unkept = range(len(rows)), set[int]()
        if self._filter is not None:
            unkept = self._filter.unkept([cells[name] for name in self._filter.columns], every, bad)
        found = [[*row[: self._size]] for row in rows]
        for one in self._computed:
            at = self.columns.index(one.name)
            for row, value in zip(found, one.cells([cells[name] for name in one.reads], len(rows)), strict=True):
                row[at] = value
        if bad:
            raise MessageError(f"{UNREADABLE}: {next(iter(bad.values()))}")
        return [row for at, row in enumerate(found) if at not in unkept]


def _value(cell: Value, *, is_binary: bool) -> Value:
    """A cell in the canonical form that conditions need."""
    if isinstance(cell, str):
        return cell.encode() if is_binary else cell
    return cell if cell is None or is_binary else cell.decode("utf-8", "surrogateescape")
