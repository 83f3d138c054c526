"""What Spark's filters exclude from a topic: partitions, offsets and rows that need not be read.

Spark also applies its filters to the rows, so a filter that is not understood here only costs time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ticdc_spark.model import Envelope, Op

_HIGHEST = 2**63 - 1


class Span(msgspec.Struct, frozen=True):
    """Numbers from ``first`` to ``last``, both included."""

    first: int = 0
    last: int = _HIGHEST

    def also(self, other: Span) -> Span:
        """The numbers that are in both."""
        return Span(max(self.first, other.first), min(self.last, other.last))

    def has(self, number: int) -> bool:
        """Whether it contains a number."""
        return self.first <= number <= self.last


class Bounds(msgspec.Struct, frozen=True):
    """The part of a topic to read. A set that is ``None`` contains everything."""

    sets: dict[str, frozenset[Any]] = {}
    """Allowed values of ``topic``, ``partition``, ``schema``, ``table`` and ``_change_type``."""
    offsets: Span = Span()
    commits: Span = Span()

    def wants_place(self, topic: str, partition: int) -> bool:
        """Whether a partition may have rows to read."""
        return self._in("topic", topic) and self._in("partition", partition)

    def wants_row(self, row: Envelope) -> bool:
        """Whether a row may have to be read."""
        is_named = self._in("schema", row.schema) and self._in("table", row.table)
        return is_named and self.commits.has(row.commit_ts) and self._wants_op(row.op)

    def _wants_op(self, op: Op) -> bool:
        wanted = self.sets.get("_change_type")
        # A row that cannot be read is `unreadable`, whatever its op is.
        return wanted is None or "unreadable" in wanted or not wanted.isdisjoint(_CHANGE_TYPES.get(op, (op,)))

    def _in(self, name: str, value: object) -> bool:
        return name not in self.sets or value in self.sets[name]


_SETS = ("topic", "partition", "schema", "table", "_change_type")
_CHANGE_TYPES: Mapping[Op, tuple[str, ...]] = {"update": ("update_preimage", "update_postimage")}
"""The types of the rows that a change becomes, if they are not called as its op."""
_SPANS = {
    "EqualTo": lambda value: Span(value, value),
    "GreaterThan": lambda value: Span(value + 1),
    "GreaterThanOrEqual": lambda value: Span(value),
    "LessThan": lambda value: Span(0, value - 1),
    "LessThanOrEqual": lambda value: Span(0, value),
}


def bounds_of(filters: Iterable[Any], *, typed: bool) -> Bounds:
    """The bounds of Spark filters, all of which a row must pass. ``typed``: for the typed form."""
    found = Bounds()
    for one in filters:
        # by the names of Spark's classes, which do not exist in Spark 4.0
        how = type(one).__name__
        path: tuple[str, ...] = getattr(one, "attribute", ())
        value: Any = getattr(one, "value", None)
        if len(path) != 1:
            continue
        column = path[0].removeprefix("_") if typed and path[0] in ("_topic", "_partition", "_offset") else path[0]
        is_own = column.startswith("_") or not typed or column != path[0]
        values = frozenset(value) if how == "In" else frozenset([value])
        if column in _SETS and is_own and how in ("In", "EqualTo"):
            found = _with_set(found, column, values)
        elif column in ("offset", "_commit_version") and is_own and how in _SPANS and isinstance(value, int):
            found = _with_span(found, column, _SPANS[how](value))
    return found


def _with_set(bounds: Bounds, column: str, values: frozenset[Any]) -> Bounds:
    return msgspec.structs.replace(bounds, sets={**bounds.sets, column: bounds.sets.get(column, values) & values})


def _with_span(bounds: Bounds, column: str, span: Span) -> Bounds:
    if column == "offset":
        return msgspec.structs.replace(bounds, offsets=bounds.offsets.also(span))
    return msgspec.structs.replace(bounds, commits=bounds.commits.also(span))
