"""Names in other letters than those of the table: in SQL as it was typed, and in the messages of DDL.

TiDB compares the names of databases and tables without case. A table's own name is as its CREATE or RENAME was typed;
its database's as CREATE DATABASE was. TiCDC passes SQL on as it is, and its DDL messages may name a database in other
letters than rows do (pingcap/tiflow#10047). In the world of a story a name is what all its spellings have in common:
small letters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Literal, TypeAlias

from msgspec.structs import replace

from ticdc_spark.model import SchemaChange, Table

SCHEMAS = ("app", "b")
NAMES = ("t1", "t2", "t3", "t_old", "x1", "x2")
"""Few names, so that each is used again by another table; ``t*`` is what a filter may include."""

Where: TypeAlias = Literal["", "sql", "messages"]
"""``sql``: SQL alone names tables in any letters. ``messages``: those of DDL do, too."""
_MENTION = re.compile(f"`({'|'.join((*SCHEMAS, *NAMES))})`")
_CREATED = re.compile(r"CREATE TABLE (?:`\w+`\.)?`(\w+)`")
_RENAMED = re.compile(r"`(\w+)`$")


def folded(name: tuple[str, str]) -> tuple[str, str]:
    """What all spellings of a name have in common."""
    return name[0].lower(), name[1].lower()


class Letters:
    """The letters of one story, with dice of their own."""

    def __init__(self, where: Where, seed: int) -> None:
        self.where, self._rand = where, Random(seed)
        self.databases: dict[str, str] = {}
        """Each database's own name, by what its spellings have in common."""
        self.typed = 0
        """Mentions in letters that are not those of the name."""

    def spell(self, word: str) -> str:
        """A name as somebody types it."""
        dice = self._rand.random()
        spelt = word.upper() if dice < 0.25 else word.capitalize() if dice < 0.45 else word
        self.typed += spelt != word
        return spelt

    def statement(self, changes: Sequence[SchemaChange]) -> list[SchemaChange]:
        """The schema changes of one statement as they were typed, with the names that tables get by them."""
        return [self._change(change) for change in changes]

    def _change(self, change: SchemaChange) -> SchemaChange:
        query = _MENTION.sub(lambda found: f"`{self.spell(found[1].lower())}`", change.query)
        change = replace(change, query=query)
        if change.table is None:
            name = query.split("`")[1]
            if query.startswith("CREATE"):
                self.databases[change.schema] = name
            return replace(change, schema=self._in_message(self.databases[change.schema]))
        if change.kind in ("CREATE", "RENAME"):
            found = (_CREATED if change.kind == "CREATE" else _RENAMED).search(query)
            assert found is not None, query
            own = replace(change.table, schema=self.databases[change.table.schema.lower()], name=found[1])
            change = replace(change, schema=own.schema, name=own.name, table=own)
        return change

    def sent(self, change: SchemaChange) -> SchemaChange:
        """A schema change of tables as its messages name them."""
        table = change.table
        if self.where != "messages" or table is None:
            return change
        schema = self._in_message(table.schema)
        return replace(change, schema=schema, table=_in(table, schema), pre_table=self._before(change, schema))

    def _before(self, change: SchemaChange, schema: str) -> Table | None:
        before = change.pre_table
        if before is None or before.schema.lower() != schema.lower():
            return before
        return _in(before, schema)

    def _in_message(self, name: str) -> str:
        return self.spell(name.lower()) if self.where == "messages" else name


def _in(table: Table, schema: str) -> Table:
    return replace(table, schema=schema)
