"""Writes row images that are JSON objects: a template for each table, into which a row's values are put as text.

The protocol defines how a value becomes JSON, and the text around it. Writers are compiled once per table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, Table, Value

Write: TypeAlias = Callable[[Any], str]
"""Canonical value (never ``None``) → JSON."""


class Part(NamedTuple):
    """A column: the text before its value, and how the value is written."""

    name: str
    head: str
    write: Write


class JsonWriter:
    """Writes the images of one table. It keeps nothing of one row for the next."""

    def __init__(self, table: Table, parts: Sequence[Part], tail: str = "") -> None:
        """``parts``: the columns that rows may have, in the order of an image. ``tail``: the text after every value."""
        self._table = f"`{table.schema}`.`{table.name}`"
        self._parts = parts
        self._tail = tail
        self._names = frozenset(part.name for part in parts)
        self._count = len(parts)
        self._writes = [part.write for part in parts]
        # every second piece is a value's place
        self._pieces = ["{"]
        for at, part in enumerate(parts):
            self._pieces[-1] += ("," if at else "") + part.head
            self._pieces += ["", tail]
        self._pieces[-1] += "}"
        names = [part.name for part in parts]
        several = len(names) > 1  # for one name, itemgetter gives no tuple
        self._get: Any = itemgetter(*names) if several else lambda row: tuple(row[name] for name in names)

    def whole(self, row: Row) -> tuple[Value, ...] | None:
        """The values of a row that has all columns; ``None`` if it lacks some.

        Raises: MessageError if it has a column that the table does not have.
        """
        if len(row) == self._count:
            try:
                values: tuple[Value, ...] = self._get(row)
            except KeyError:
                pass
            else:
                return values
        if unknown := row.keys() - self._names:
            raise MessageError(f"{self._table} has no column {sorted(unknown)}")
        return None

    def write(self, row: Row, only: Collection[str] | None = None) -> str:
        """The image of a row, or of only the columns in ``only``. ``<``, ``>`` and ``&`` are not escaped.

        Raises: MessageError if the row has a column that the table does not have.
        """
        values = self.whole(row)
        if values is None or only is not None:
            return self._some(row, self._names if only is None else only)
        return self.text(values)

    def text(self, values: tuple[Any, ...]) -> str:
        """The image of values from ``whole``."""
        pieces = self._pieces
        pieces[1::2] = [
            "null" if value is None else write(value)
            for value, write in zip(values, self._writes)  # noqa: B905  quicker, and of one length
        ]
        return "".join(pieces)

    def _some(self, row: Row, only: Collection[str]) -> str:
        cells = []
        for name, head, write in self._parts:
            if name in row and name in only:
                value: Any = row[name]
                text = "null" if value is None else write(value)
                cells.append(f"{head}{text}{self._tail}")
        return "{" + ",".join(cells) + "}"
