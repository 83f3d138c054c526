"""Counts of what a process has sent, for its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from ticdc_spark.model import RowChange

_TABLE, _OP = attrgetter("table"), attrgetter("op")


class TableRows(msgspec.Struct, frozen=True):
    """Rows of a table with one operation. The table has its name at the source."""

    schema: str
    table: str
    op: str
    rows: int


class SentCounts:
    """Counts for one thread. They remain when a producer is replaced."""

    def __init__(self) -> None:
        self.bytes = 0
        """Of messages: keys and values, before compression by Kafka's client."""
        self.ddls = 0
        self.retries: Counter[str] = Counter()
        """By the name of the fault."""
        self._rows: Counter[tuple[str, str, str]] = Counter()

    def add_changes(self, changes: Sequence[RowChange]) -> None:
        """Count rows that are sent."""
        for table, some in groupby(changes, _TABLE):
            for op, rows in Counter(map(_OP, some)).items():
                self._rows[table.schema, table.name, op] += rows

    def add_rows(self, counted: Iterable[TableRows]) -> None:
        """Count rows that another process has sent."""
        for one in counted:
            self._rows[one.schema, one.table, one.op] += one.rows

    @property
    def rows(self) -> tuple[TableRows, ...]:
        """The rows of all tables."""
        return tuple(TableRows(*key, rows) for key, rows in self._rows.items())
