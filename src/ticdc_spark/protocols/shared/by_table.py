"""What is compiled once for a table, and kept while rows of it come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ticdc_spark.model import Table

_KEPT = 1024
T = TypeVar("T")


class ByTable(Generic[T]):
    """By the object that a table is: another version of it is another one."""

    def __init__(self, make: Callable[..., T], *more: Any) -> None:
        """``make``: called with a table and ``more``."""
        self._make, self._more = make, more
        self._found: dict[int, tuple[Table, T]] = {}
        """With the table, so that its id is not given to another."""

    def of(self, table: Table) -> T:
        """What was made of a table. Raises: what making it raises"""
        found = self._found.get(id(table))
        if found is None:
            if len(self._found) >= _KEPT:
                self._found.clear()
            found = self._found[id(table)] = table, self._make(table, *self._more)
        return found[1]

    def __reduce__(self) -> tuple[Any, ...]:
        # compiled functions do not travel to tasks
        return ByTable, (self._make, *self._more)
