"""Names in a DDL: tables before and after it, and renamed columns."""

from collections.abc import Sequence

import msgspec

from ticdc_spark.ddl.lex import Name
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.references import statement_of
from ticdc_spark.ddl.statements import (
    AddColumn,
    Alteration,
    AlterTable,
    ChangeColumn,
    CreateTable,
    DropColumn,
    DropTables,
    MoveRows,
    RenameColumn,
    RenameTables,
    RenameTo,
    RestoreTable,
    Statement,
    TableComment,
    TruncateTable,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, TableName


def column_renames(sql: str) -> dict[str, str]:
    """Columns that an ALTER TABLE renames: old name to new, as written (RENAME COLUMN, CHANGE).

    A CHANGE of a column that the same statement adds renames none. Names are compared ignoring case in MySQL. Empty for
    every other statement.
    Raises: MessageError if the SQL cannot be read.
    """
    statement = parse(sql)
    if not isinstance(statement, AlterTable):
        return {}
    renames: dict[str, str] = {}
    for part in statement.parts:
        if isinstance(part, RenameColumn):
            renames[part.old] = part.new
        elif (
            isinstance(part, ChangeColumn)
            and part.old.lower() != part.definition.column.name.lower()
            and not _is_of_added(part, statement.parts)
        ):
            renames[part.old] = part.definition.column.name
    return renames


def _is_of_added(change: ChangeColumn, parts: Sequence[Alteration]) -> bool:
    """Whether a MODIFY or CHANGE takes the place of a column that the statement adds, as in MariaDB."""
    new = change.definition.column.name.lower()
    return any(
        isinstance(part, AddColumn) and not part.if_not_exists and part.definition.column.name.lower() == new
        for part in parts
    )


def replaced_columns(sql: str) -> tuple[str, ...]:
    """Columns that an ALTER TABLE drops and adds again, named as in the ADD: all rows get the default.

    Raises: MessageError if the SQL cannot be read.
    """
    statement = parse(sql)
    parts = statement.parts if isinstance(statement, AlterTable) else ()
    dropped = {part.name.lower() for part in parts if isinstance(part, DropColumn)}
    added = [part.definition.column.name for part in parts if isinstance(part, AddColumn)]
    return tuple(name for name in added if name.lower() in dropped)


class Comments(msgspec.Struct, frozen=True):
    """Comments that a DDL writes. ``""`` removes one."""

    columns: dict[str, str] = {}
    """By the columns' names after the DDL."""
    table: str | None = None
    """``None``: it writes none of the table."""


def written_comments(statement: Statement) -> Comments:
    """The comments that a CREATE TABLE or ALTER TABLE writes; none for every other statement."""
    match statement:
        case CreateTable():
            found, table = [*statement.columns], statement.comment
        case AlterTable():
            found = [part.definition for part in statement.parts if isinstance(part, AddColumn | ChangeColumn)]
            texts = [part.text for part in statement.parts if isinstance(part, TableComment)]
            table = texts[-1] if texts else None
        case _:
            return Comments()
    return Comments({one.column.name: one.comment for one in found if one.comment is not None}, table)


def computed_columns(sql: str) -> tuple[str, ...]:
    """Columns that an ALTER TABLE adds, and whose values in existing rows the server computes: AUTO_INCREMENT, or a
    default that is an expression. Empty for SQL that cannot be read, and for every other statement.
    """
    try:
        statement = parse(sql, "escape")
    except MessageError:
        return ()
    parts = statement.parts if isinstance(statement, AlterTable) else ()
    # the last definition of a column counts
    added = {
        part.definition.column.name.lower(): part.definition
        for part in parts
        if isinstance(part, AddColumn) or (isinstance(part, ChangeColumn) and _is_of_added(part, parts))
    }
    return tuple(
        one.column.name
        for one in added.values()
        if one.computed or (one.filled and one.column.type.name != "timestamp")
    )


def ddl_tables(sql: str, default_schema: str) -> tuple[tuple[TableName, ...], tuple[TableName, ...]]:
    """Tables that a DDL names before it and after it.

    CREATE has none before, DROP none after. ALTER and TRUNCATE have the same table in both. RENAME has the old and the
    new names in the same order. EXCHANGE PARTITION has both tables in both. RECOVER and FLASHBACK have the restored
    table after. A statement on databases, views and similar objects names none. Beware of Open's RENAME into another
    database: its message only has the new database, under which an unqualified old name is not found
    (``replicate.plan.spelling``).
    Raises: MessageError if the SQL cannot be read.
    """
    return _tables(parse(sql), default_schema)


def change_tables(change: SchemaChange) -> tuple[tuple[TableName, ...], tuple[TableName, ...]]:
    """The same for a DDL with the job's names of its tables. Raises: MessageError"""
    return _tables(statement_of(change), change.schema)


def _tables(statement: Statement, default_schema: str) -> tuple[tuple[TableName, ...], tuple[TableName, ...]]:
    def full(name: Name) -> TableName:
        return name[0] or default_schema, name[1]

    match statement:
        case CreateTable():
            return (), (full(statement.name),)
        case RestoreTable():
            return (), (full(statement.new or statement.name),)
        case DropTables():
            return tuple(map(full, statement.names)), ()
        case TruncateTable():
            return (full(statement.name),), (full(statement.name),)
        case RenameTables():
            return tuple(full(old) for old, _ in statement.pairs), tuple(full(new) for _, new in statement.pairs)
        case AlterTable():
            return _altered(statement, full(statement.name), default_schema)
    return (), ()


def _altered(
    statement: AlterTable, name: TableName, default_schema: str
) -> tuple[tuple[TableName, ...], tuple[TableName, ...]]:
    before, after = [name], [name]
    for part in statement.parts:
        if isinstance(part, RenameTo):
            after[0] = (part.new[0] or default_schema, part.new[1])
        elif isinstance(part, MoveRows) and part.other:
            other = (part.other[0] or default_schema, part.other[1])
            before.append(other)
            after.append(other)
    return tuple(before), tuple(after)
