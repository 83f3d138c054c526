"""The identity of the table that has a name now: the server's own id for it, whatever its name and columns are."""

from __future__ import annotations

import re
from typing import Any

from ticdc_spark.model import TableName

_NO_FILE_NAMES = 1115
"""MySQL 9.7 has no character set for names of files, so only tables whose names lack ``_OWN_CODES`` show their ids."""
UNTOLD = frozenset({1109, 1142, 1146, 1227, _NO_FILE_NAMES})
"""Error codes of a server that does not show ids: also if the user lacks PROCESS, or there is no such view."""
_TIDB = "SELECT TIDB_TABLE_ID FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_MADE = "SELECT CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_FILE = "CONVERT(CAST(CONVERT(%s USING filename) AS BINARY) USING utf8mb4)"
_INNODB = (
    "SELECT TABLE_ID FROM information_schema.{view} WHERE SUBSTRING_INDEX(SUBSTRING_INDEX(NAME, '#P#', 1), '#p#', 1) "
    "= CONCAT({schema}, '/', {table}) ORDER BY TABLE_ID"
)
"""InnoDB names tables by their files, and has one for each partition."""
_OWN_CODES = re.compile("[\u00c0-\u05ff\u1e00-\u1fff\u2160-\u217f\u24b0-\u24ef\uff20-\uff5f]")
"""Letters that may have codes of their own in a file's name, which the server is asked for."""
_WRITTEN = re.compile(r"[^0-9A-Za-z_]")


def table_identity(cursor: Any, version: str, name: TableName) -> str:
    """A text that no other table has. A RENAME may change it. Creating or emptying a table does.

    For MariaDB and MySQL it has InnoDB's ids of the table and its partitions, and the time of its last DDL (MySQL: of
    its CREATE). It is valid while the transaction of ``cursor`` blocks DDL. A transaction that has read the table does
    so until its end. ``version``: the server's. Raises: PyMySQL's errors, also the ones in ``UNTOLD``
    """
    if "TiDB" in version:
        cursor.execute(_TIDB, name)
        return _cells(cursor)
    old = "mariadb" in version.lower() or version.startswith("5.")
    view = "INNODB_SYS_TABLES" if old else "INNODB_TABLES"
    (schema, database), (table, file) = (
        (_FILE, part) if _OWN_CODES.search(part) else ("%s", file_name(part)) for part in name
    )
    cursor.execute(_INNODB.format(view=view, schema=schema, table=table), (database, file))
    ids = _cells(cursor)
    cursor.execute(_MADE, name)
    return f"{ids} {_cells(cursor)}".strip()


def file_name(name: str) -> str:
    """The name of a table's file, for a name without ``_OWN_CODES``: ``@`` and the number of a character."""
    return _WRITTEN.sub(lambda found: f"@{ord(found[0]):04x}", name)


def cure(code: int, user: object, name: TableName) -> str:
    """What to do about an error code in ``UNTOLD``. ``name``: of the table that was looked for."""
    if code == _NO_FILE_NAMES:
        why = "this version of MySQL does not show the id if a name has letters like é"
        return f"rename `{name[0]}`.`{name[1]}`, or exclude it: {why}"
    return f"GRANT PROCESS ON *.* TO the user {user!r}"


def named_by(sql: str, name: TableName) -> bool:
    """Whether a statement may name a table, or drop its database: one of its words does, in any case."""
    text, (schema, table) = sql.casefold(), name
    if any(quote in table for quote in '`"'):
        return True  # it may be written with more quotes
    is_of_databases = "database" in text or "schema" in text
    return table.casefold() in text or (is_of_databases and schema.casefold() in text)


def _cells(cursor: Any) -> str:
    return " ".join(str(row[0]) for row in cursor.fetchall() if row[0] is not None)
