"""Names of tables and databases as somebody writes them, and the one spelling by which the job knows each.

TiDB compares names without case, and TiCDC passes SQL on as it was typed. In its messages the case of a database may
change, too: some of its versions take the name from a DDL's job, where it is in lower case (tiflow#10047). So names
that are equal without case are one name. It keeps the spelling that the job met first, also for a table that takes the
name later: rows of both may wait, and only their commit_ts tells them apart.
"""

from __future__ import annotations

import msgspec

from ticdc_spark.model import TableName
from ticdc_spark.names import folded, folded_part


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The names that are known, as tasks get them. Of names that are equal without case, the first one counts."""

    tables: tuple[TableName, ...] = ()
    databases: tuple[str, ...] = ()
    """Those of ``tables`` need not be among them."""
    exact: bool = False
    """Whether rows, and what comes by DDL, have the names of a server that may tell case apart."""


NO_NAMES = Names()
"""Nothing is known."""


class KnownNames:
    """The names that are known, to look others up in and to add others to."""

    def __init__(self, names: Names = NO_NAMES) -> None:
        self._exact = names.exact
        self._tables: dict[TableName, list[TableName]] = {}
        """By what all spellings of a name have in common. Several for ``exact``, and of tables in older states."""
        self._databases: dict[str, list[str]] = {}
        for name in names.tables:
            self._tables.setdefault(folded(name), []).append(name)
        for one in (*names.databases, *(schema for schema, _ in names.tables)):
            self.add_database(one)

    def names(self) -> Names:
        """What is known, for tasks."""
        tables = tuple(name for same in self._tables.values() for name in same)
        databases = tuple(name for same in self._databases.values() for name in same)
        return Names(tables=tables, databases=databases, exact=self._exact)

    def of_rows(self, name: TableName) -> TableName:
        """The table that rows are of, by the name that they have."""
        return name if self._exact else self.table(name)

    def table(self, name: TableName) -> TableName:
        """The table that a name in SQL means; one that is not known keeps it, in its database."""
        same = self._tables.get(folded(name), ())
        return name if name in same else same[0] if same else (self.database(name[0]), name[1])

    def database(self, name: str) -> str:
        """The database that is meant by a name; one that is not known keeps it."""
        same = self._databases.get(folded_part(name), ())
        return name if name in same or not same else same[0]

    def add(self, name: TableName) -> None:
        """Rows have a name, or a table comes under it: it is known from here on."""
        name = self.of_rows(name)
        same = self._tables.setdefault(folded(name), [])
        if name not in same:
            same.append(name)
            self.add_database(name[0])

    def meet(self, name: TableName) -> None:
        """SQL names a table: if it is not known, it is from here on. Where case counts, SQL may have other letters."""
        if not self._exact:
            self.add(name)

    def add_database(self, name: str) -> None:
        """A database comes."""
        same = self._databases.setdefault(folded_part(name), [])
        if not same or (self._exact and name not in same):
            same.append(name)


def is_same_name(one: TableName, other: TableName) -> bool:
    """Whether two names are one but for case."""
    return folded(one) == folded(other)
