"""Caches what is compiled once for a table, while its rows are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ticdc_spark.model import Table

_KEPT = 1024
T = TypeVar("T")


class ByTable(Generic[T]):
    """A cache by the table's object. Another version of a table is another object."""

    def __init__(self, make: Callable[..., T], *more: Any) -> None:
        """``make``: called with a table and ``more``."""
        self._make, self._more = make, more
        self._found: dict[int, tuple[Table, T]] = {}
        """With the table, so that no other object gets its id."""

    def of(self, table: Table) -> T:
        """The result for a table. Raises: the errors of ``make``"""
        found = self._found.get(id(table))
        if found is None:
            if len(self._found) >= _KEPT:
                self._found.clear()
            found = self._found[id(table)] = table, self._make(table, *self._more)
        return found[1]

    def __reduce__(self) -> tuple[Any, ...]:
        # compiled functions cannot be sent to tasks
        return ByTable, (self._make, *self._more)
