"""Details of a table that its Simple schema lacks, from the SQL of its DDL.

Simple sorts columns by their ids, which differs from the table's order after ADD COLUMN … FIRST or AFTER. It does not
mark generated columns. A table whose DDL was not seen stays as in its schema.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec.structs import replace

from ticdc_spark.model import Column, SchemaChange, Table, TableName
from ticdc_spark.streams.sql_tables import SqlTables

_HIDDEN = "_V$_"
"""Prefix of TiDB's virtual columns for an index's expressions. SQL does not name these columns."""
_VERSIONS = 10_000


class SqlDetails:
    """Completes the tables of Simple's schemas by SQL. Its memory is bounded."""

    def __init__(self) -> None:
        self._sql = SqlTables()
        self._tables: OrderedDict[tuple[str, str, int | None], Table] = OrderedDict()

    def follow(self, change: SchemaChange) -> None:
        """Take the details of a DDL. A copy in another partition is ignored."""
        if self._sql.has_followed(change):
            return
        if change.pre_table is not None:
            self.learn(change.pre_table)
        self._sql.follow(change, [change.table] if change.table is not None else [])
        if change.table is not None:
            self.learn(change.table)

    def learn(self, table: Table) -> None:
        """Take the schema of a DDL or a BOOTSTRAP."""
        if not _lacks_details(table) or _key(table) in self._tables:
            return
        known = self._sql.tables.get(_name(table))
        whole = table if known is None or _names(known) != _names(table) else _merged(table, known)
        # with hidden columns, as columns that are added later follow them
        self._sql.tables[_name(table)] = self._tables[_key(table)] = whole
        if len(self._tables) > _VERSIONS:
            self._tables.popitem(last=False)

    def complete(self, table: Table) -> Table:
        """The table with its columns in order, and generated ones marked, if that is known.

        A table that is not from a Simple schema is already complete.
        """
        return self._tables.get(_key(table), table) if _lacks_details(table) else table


def _lacks_details(table: Table) -> bool:
    """Whether it is from a Simple schema, which does not say whether columns are virtual."""
    return table.version is not None and bool(table.columns) and table.columns[0].virtual is None


def _merged(table: Table, sql: Table) -> Table:
    by_name = {column.name: column for column in table.columns}
    columns = [_marked(by_name.pop(column.name), column) for column in sql.columns if column.name in by_name]
    hidden = [replace(column, virtual=True) for column in by_name.values()]
    return replace(table, columns=(*columns, *hidden))


def _marked(column: Column, sql: Column) -> Column:
    return replace(column, virtual=sql.virtual, stored=sql.stored)


def _name(table: Table) -> TableName:
    return table.schema, table.name


def _key(table: Table) -> tuple[str, str, int | None]:
    return table.schema, table.name, table.version


def _names(table: Table) -> set[str]:
    return {column.name for column in table.columns if not column.name.startswith(_HIDDEN)}
