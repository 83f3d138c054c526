"""Reads the tables of a server, and converts their types to types that TiDB has too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from ticdc_spark.capture.binlog.connection import Connection
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.ddl import Charset, Dialect, parse_create
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.mysql import SPATIAL_TYPES, default_length

SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
"""Never captured."""
_LISTED = """SELECT table_schema, table_name FROM information_schema.tables
WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema NOT IN %s ORDER BY table_schema, table_name"""
_CHARSETS = """SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata
UNION ALL SELECT '', @@character_set_server, @@collation_server"""
_VERSIONED = re.compile(r"\bWITH SYSTEM VERSIONING\b")
_GONE = {1146, 1049}

_TEXTS = {"uuid": ("char", 36), "inet6": ("varchar", 39), "inet4": ("varchar", 15)}
_LONGBLOB = ColumnType(name="longblob", length=4294967295, charset="binary", collate="binary")


def read_tables(connection: Connection, wanted: Callable[[str, str], bool], *, mariadb: bool) -> tuple[Table, ...]:
    """All present tables except the system's. They may change while they are read.

    Raises: SourceFault; UsageError for ``wanted`` tables that cannot be read, or whose names are the same to readers of
    TiCDC's messages.
    """
    tables: list[Table] = []
    folded: dict[tuple[str, str], Table] = {}
    for schema, name in connection.rows(_LISTED, (tuple(SYSTEM_SCHEMAS),)):
        try:
            found = connection.rows(f"SHOW CREATE TABLE {quoted(schema)}.{quoted(name)}")
        except Exception as error:
            if getattr(error.__cause__, "args", (0,))[0] in _GONE:
                continue  # it was dropped since it was listed
            raise
        try:
            dialect: Dialect = "mariadb" if mariadb else "mysql"
            table = parse_create(_VERSIONED.sub("", str(found[0][1])), schema, "escape", dialect)
            tables.append(presented(table))
            same = folded.setdefault((schema.lower(), name.lower()), table) if wanted(schema, name) else table
            if same is not table:
                raise UsageError(
                    f"`{same.schema}`.`{same.name}` and `{schema}`.`{name}` differ only in capital letters, and "
                    "readers of the messages take them for one: exclude one by a rule of [filter], or rename it"
                )
        except MessageError as error:
            if not wanted(schema, name):
                continue
            raise UsageError(f"the schema of `{schema}`.`{name}` cannot be read: {error}") from error
    return tuple(tables)


def read_charsets(connection: Connection) -> dict[str, Charset]:
    """The default character sets of the server and of all present databases. Raises: SourceFault"""
    return {
        str(name): Charset(str(charset), str(collate), False) for name, charset, collate in connection.rows(_CHARSETS)
    }


def presented(table: Table) -> Table:
    """The table with types that TiDB has: UUID and INET as text, geometries as bytes."""
    columns = tuple(_presented(column) for column in table.columns)
    return table if columns == table.columns else replace(table, columns=columns)


def presented_all(tables: Iterable[Table]) -> tuple[Table, ...]:
    """``presented`` for several tables."""
    return tuple(map(presented, tables))


def _presented(column: Column) -> Column:
    name = column.type.name
    if name in _TEXTS:
        text, length = _TEXTS[name]
        kind = ColumnType(name=text, length=length, charset="ascii", collate="ascii_bin")
    elif name in SPATIAL_TYPES:
        kind = _LONGBLOB
    elif name == "varchar" and (column.type.length or 0) > 65535:  # a lax sql_mode converts it to a TEXT
        wide = "mediumtext" if (column.type.length or 0) <= 16777215 else "longtext"
        kind = replace(column.type, name=wide, length=default_length(ColumnType(name=wide)))
    else:
        return column
    return replace(column, type=kind)
