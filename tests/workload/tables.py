"""A live table of the workload: its schema and its rows, which are the truth."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tests.workload.columns import Rand, Recipe
from ticdc_spark.model import Index, Row, Table, Value
from ticdc_spark.mysql import handle_key

Key: TypeAlias = tuple[Value, ...]
"""Values of the handle key's columns, in the key's order."""
Name: TypeAlias = tuple[str, str]
"""(schema, table)."""
Truth: TypeAlias = dict[Name, tuple[Table, dict[Key, Row]]]
"""Every table with its rows by handle key, values in normal form."""


class LiveTable:
    """One table: schema, recipes of its columns, rows by key, and its keys in a list to pick from in O(1)."""

    __slots__ = ("_at", "_keys", "free", "identity", "key_columns", "recipes", "rows", "since_bootstrap", "table")

    def __init__(self, table: Table, recipes: Sequence[Recipe]) -> None:
        self.rows: dict[Key, Row] = {}
        self._keys: list[Key] = []
        self._at: dict[Key, int] = {}
        self.since_bootstrap = -1
        self.evolve(table, recipes)

    def evolve(self, table: Table, recipes: Sequence[Recipe]) -> None:
        """Give the table a new schema. The handle key stays what it is."""
        self.table = table
        self.recipes = tuple(recipes)
        self.key_columns = handle_key(table)
        unique = {name for index in table.indexes if index.unique for name in index.columns}
        self.identity = tuple(recipe for recipe in self.recipes if recipe.column.name in unique)
        self.free = tuple(recipe for recipe in self.recipes if recipe.column.name not in unique)
        self.since_bootstrap = -1

    def key(self, row: Row) -> Key:
        """The handle key of a row."""
        return tuple([row[name] for name in self.key_columns])

    def put(self, row: Row) -> None:
        """Insert or replace a row."""
        key = self.key(row)
        if key not in self.rows:
            self._at[key] = len(self._keys)
            self._keys.append(key)
        self.rows[key] = row

    def remove(self, key: Key) -> Row:
        """Delete a row and return it; the last key of the list takes its place there."""
        at, last = self._at.pop(key), self._keys.pop()
        if last != key:
            self._keys[at] = last
            self._at[last] = at
        return self.rows.pop(key)

    def clear(self) -> None:
        """Delete all rows."""
        self.rows, self._keys, self._at = {}, [], {}

    def pick(self, rand: Rand) -> Row:
        """Any live row; there must be one."""
        return self.rows[self._keys[int(rand() * len(self._keys))]]

    def make(self, rand: Rand, number: int) -> dict[str, Value]:
        """A new row; ``number`` is unique in the workload."""
        row: dict[str, Value] = {}
        for recipe in self.recipes:
            nulls = recipe.nulls
            row[recipe.column.name] = None if nulls and rand() < nulls else recipe.make(rand, number)
        return row

    def evolved_rows(self, change: Callable[[Row], Row]) -> None:
        """Replace every row by ``change`` of it; old rows are not touched, others may still hold them."""
        self.rows = {key: change(row) for key, row in self.rows.items()}

    def plain(self) -> list[Recipe]:
        """Columns that stand in no index at all."""
        indexed = {name for index in self.table.indexes for name in index.columns}
        return [recipe for recipe in self.recipes if recipe.column.name not in indexed]


def create_sql(name: str, recipes: Sequence[Recipe], indexes: Sequence[Index]) -> str:
    """CREATE TABLE in TiCDC's spelling, without a schema before the name."""
    parts = [recipe.definition() for recipe in recipes]
    for index in indexes:
        columns = ",".join(f"`{column}`" for column in index.columns)
        word = "PRIMARY KEY" if index.primary else f"{'UNIQUE' if index.unique else 'INDEX'} `{index.name}`"
        parts.append(f"{word}({columns})")
    return f"CREATE TABLE `{name}` ({','.join(parts)})"
