"""Names of tables and databases as written, and the one spelling under which the job knows each.

TiDB compares names ignoring case, and TiCDC passes SQL on as typed. The case of a database may even change in its
messages: some versions take the name from a DDL's job, which has it in lower case (tiflow#10047). So names that differ
only by case are one name. It keeps the spelling that the job met first, also for a later table with that name. Rows of
both tables may wait, and only their commit_ts distinguishes them.
"""

from __future__ import annotations

import msgspec

from ticdc_spark.model import TableName
from ticdc_spark.names import folded, folded_part


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The known names, for tasks. Of names that differ only by case, the first one counts."""

    tables: tuple[TableName, ...] = ()
    databases: tuple[str, ...] = ()
    """Databases. The databases of ``tables`` may be missing."""
    exact: bool = False
    """Whether the names come from a server that may distinguish case."""


NO_NAMES = Names()
"""No names are known."""


class KnownNames:
    """The known names: looks names up and adds new ones."""

    def __init__(self, names: Names = NO_NAMES) -> None:
        self._exact = names.exact
        self._tables: dict[TableName, list[TableName]] = {}
        """Spellings by their common form. There may be several if ``exact``, and for tables in older states."""
        self._databases: dict[str, list[str]] = {}
        for name in names.tables:
            self._tables.setdefault(folded(name), []).append(name)
        for one in (*names.databases, *(schema for schema, _ in names.tables)):
            self.add_database(one)

    def names(self) -> Names:
        """The known names, for tasks."""
        tables = tuple(name for same in self._tables.values() for name in same)
        databases = tuple(name for same in self._databases.values() for name in same)
        return Names(tables=tables, databases=databases, exact=self._exact)

    def of_rows(self, name: TableName) -> TableName:
        """The table of rows with this name."""
        return name if self._exact else self.table(name)

    def table(self, name: TableName) -> TableName:
        """The table that a name in SQL means. An unknown table keeps its name, in the known spelling of its
        database."""
        same = self._tables.get(folded(name), ())
        return name if name in same else same[0] if same else (self.database(name[0]), name[1])

    def database(self, name: str) -> str:
        """The database that a name means. An unknown database keeps its name."""
        same = self._databases.get(folded_part(name), ())
        return name if name in same or not same else same[0]

    def add(self, name: TableName) -> None:
        """Add a name that rows or a new table have."""
        name = self.of_rows(name)
        same = self._tables.setdefault(folded(name), [])
        if name not in same:
            same.append(name)
            self.add_database(name[0])

    def meet(self, name: TableName) -> None:
        """Add a table that SQL names, if it is unknown. Not if case counts, because SQL may use another case."""
        if not self._exact:
            self.add(name)

    def add_database(self, name: str) -> None:
        """Add a database."""
        same = self._databases.setdefault(folded_part(name), [])
        if not same or (self._exact and name not in same):
            same.append(name)


def is_same_name(one: TableName, other: TableName) -> bool:
    """Whether two names differ at most by case."""
    return folded(one) == folded(other)
