"""Which table has a name now: what the server itself calls it, whatever its name and its columns are."""

from __future__ import annotations

from typing import Any

from ticdc_spark.model import TableName

UNTOLD = frozenset({1109, 1142, 1146, 1227})
"""Codes of errors of a server that does not tell it: the user lacks PROCESS, or there is no such view."""
_TIDB = "SELECT TIDB_TABLE_ID FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_MADE = "SELECT CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_FILE = "CONVERT(CAST(CONVERT(%s USING filename) AS BINARY) USING utf8mb4)"
_INNODB = (
    "SELECT TABLE_ID FROM information_schema.{view} WHERE SUBSTRING_INDEX(SUBSTRING_INDEX(NAME, '#P#', 1), '#p#', 1) "
    f"= CONCAT({_FILE}, '/', {_FILE}) ORDER BY TABLE_ID"
)
"""InnoDB names a table by its files, and has one for each partition."""


def table_identity(cursor: Any, version: str, name: TableName) -> str:
    """A text that no other table has. RENAME leaves it, or changes it; what makes or empties a table changes it.

    MariaDB and MySQL give InnoDB's ids of the table and its partitions, and the time of its last DDL (MySQL: of its
    CREATE). It stays true for as long as the transaction of ``cursor`` keeps DDL from the table: one that has read it
    does, until its end. ``version``: the server's. Raises: PyMySQL's errors, those of ``UNTOLD`` among them
    """
    if "TiDB" in version:
        cursor.execute(_TIDB, name)
        return _cells(cursor)
    old = "mariadb" in version.lower() or version.startswith("5.")
    cursor.execute(_INNODB.format(view="INNODB_SYS_TABLES" if old else "INNODB_TABLES"), name)
    ids = _cells(cursor)
    cursor.execute(_MADE, name)
    return f"{ids} {_cells(cursor)}".strip()


def named_by(sql: str, name: TableName) -> bool:
    """Whether a statement may name a table, or drop its database: a word of it looks so, in whatever case."""
    text, (schema, table) = sql.casefold(), name
    if any(quote in table for quote in '`"'):
        return True  # it is written with more quotes
    is_of_databases = "database" in text or "schema" in text
    return table.casefold() in text or (is_of_databases and schema.casefold() in text)


def _cells(cursor: Any) -> str:
    return " ".join(str(row[0]) for row in cursor.fetchall() if row[0] is not None)
