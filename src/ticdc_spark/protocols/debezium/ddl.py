"""The tables in Debezium's DDL messages: ``tableChanges``.

TiCDC parses the DDL again, and the SQL of a column overrides the table. So the digits of a time type are missing if the
SQL omits them, and a default of a time type is the text in the SQL. Columns that the SQL does not define are sent
without AUTO_INCREMENT, ON UPDATE and comments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ticdc_spark.ddl.build import charset_of
from ticdc_spark.ddl.charsets import DEFAULT_CHARSET
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    Charset,
    ColumnDef,
    CreateTable,
    DatabaseDdl,
    OtherDdl,
    RenameTables,
    RenameTo,
    Statement,
)
from ticdc_spark.model import Column, SchemaChange, Table
from ticdc_spark.mysql import TIME_TYPES, default_length, fsp, handle_key
from ticdc_spark.protocols.debezium.types import CODECS
from ticdc_spark.protocols.debezium.values import quote
from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code

_CREATE_TABLE, _DROP_TABLE, _CREATE_VIEW, _DROP_VIEW, _DROP_INDEX = 3, 4, 21, 24, 8
_KINDS = {
    _CREATE_TABLE: "CREATE",
    _CREATE_VIEW: "CREATE",
    _DROP_TABLE: "DROP",
    _DROP_VIEW: "DROP",
    _DROP_INDEX: "DROP",
}
"""TiDB's number of a DDL job → kind of change. All others are ALTER."""
_NO_TABLES = frozenset((1, 2, 11, 26))
"""DDL of databases, and TRUNCATE."""
_NOT_SENT = frozenset((9, 10, 25, 65, 66, 67))
"""Foreign keys, RECOVER and FLASHBACK, TTL."""
_HIDDEN = "_V$_"
"""Prefix of TiDB's hidden columns, which are the expressions of an index."""
_VARCHAR = 12
_DEFAULT_LENGTHS = {"varchar": 5, "varbinary": 5, "var_string": 5}
_WITH_LENGTH = frozenset(
    (
        *("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "bit", "vector"),
        *("char", "varchar", "var_string", "binary", "varbinary"),
    )
)
_WITHOUT_SIGN = frozenset(("year", "bit", "decimal"))


def table_changes(change: SchemaChange) -> str | None:
    """``tableChanges`` as JSON; ``None``: TiCDC sends no message for this DDL.

    Raises: MessageError if the SQL cannot be read.
    """
    code = ddl_type_code(change.query)
    statement = parse(change.query)
    if code in _NOT_SENT or (code == 0 and isinstance(statement, OtherDdl)):
        return None
    if code in _NO_TABLES:
        return "[]"
    table = None if code == _DROP_TABLE else change.table
    described = "null" if table is None else _table(table, statement)
    kind = _KINDS.get(code, "ALTER")
    return f'[{{"type":"{kind}","id":{quote(_identity(change, statement))},"table":{described}}}]'


def database_of(query: str) -> str:
    """The database that its DDL names, for messages that have it only in the SQL; ``""`` for other DDL."""
    statement = parse(query)
    return statement.name or "" if isinstance(statement, DatabaseDdl) else ""


def _identity(change: SchemaChange, statement: Statement) -> str:
    names = [change.full_name]
    if change.table is not None:
        names = [change.table.full_name]
    old = _renamed(change, statement)
    if old is not None:
        names = [old, *names]
    return ",".join(f'"{schema}"."{table}"' for schema, table in names)


def _renamed(change: SchemaChange, statement: Statement) -> tuple[str, str] | None:
    """The name before a RENAME."""
    match statement:
        case RenameTables(pairs=((old, _), *_)):
            name = old
        case AlterTable(name=old, parts=parts) if any(isinstance(part, RenameTo) for part in parts):
            name = old
        case _:
            return None
    if change.pre_table is not None:
        return change.pre_table.schema, change.pre_table.name
    return name[0] or change.schema, name[1]


def _table(table: Table, statement: Statement) -> str:
    written = {definition.column.name.lower(): definition for definition in _definitions(statement)}
    columns = [column for column in table.columns if not column.name.startswith(_HIDDEN)]
    described = {
        "defaultCharsetName": _charset(statement, table),
        "primaryKeyColumnNames": list(handle_key(table)),
        "columns": [_column(at, column, written.get(column.name.lower())) for at, column in enumerate(columns, 1)],
        "comment": None,
    }
    return _json(described)


def _json(value: Any) -> str:
    """JSON as TiCDC writes it: strings by its own rules."""
    match value:
        case str():
            return quote(value)
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
        case dict():
            return "{" + ",".join(f'"{name}":{_json(field)}' for name, field in value.items()) + "}"
    return msgspec.json.encode(value).decode()


def _charset(statement: Statement, table: Table) -> str | None:
    """The default charset of a table. If it is unknown, the SQL or the columns show it."""
    if table.charset is not None:
        return table.charset
    match statement:
        case CreateTable():
            return (statement.charset or DEFAULT_CHARSET).name
        case AlterTable(parts=parts):
            return next((part.name for part in parts if isinstance(part, Charset)), charset_of(table).charset)
    return DEFAULT_CHARSET.name


def _definitions(statement: Statement) -> Iterator[ColumnDef]:
    match statement:
        case CreateTable(columns=columns):
            yield from columns
        case AlterTable(parts=parts):
            yield from (part.definition for part in parts if isinstance(part, AddColumn | ChangeColumn))


def _column(position: int, column: Column, written: ColumnDef | None) -> dict[str, Any]:
    kind = column.type
    known = CODECS.get(kind.name)
    sign = " UNSIGNED" * kind.unsigned + " ZEROFILL" * kind.zerofill if kind.name not in _WITHOUT_SIGN else ""
    name = kind.name.upper()
    filled = written is not None and written.filled
    return {
        "name": column.name,
        "jdbcType": known.jdbc if known else _VARCHAR,
        "nativeType": None,
        "comment": None,
        "defaultValueExpression": _default(column, written),
        "enumValues": [f"'{member}'" for member in kind.elements] if kind.elements else None,
        "typeName": name + sign,
        "typeExpression": name + _suffix(column) + sign,
        "charsetName": None if kind.charset == "binary" else kind.charset,
        "length": _length(column, written),
        "scale": kind.decimal if kind.name in ("decimal", "float", "double") else None,
        "position": position,
        "optional": column.nullable,
        "autoIncremented": filled,
        "generated": filled,
    }


def _suffix(column: Column) -> str:
    kind = column.type
    if kind.name == "double" and kind.decimal:
        return f"({kind.length},{kind.decimal})"
    return f"({kind.length})" if kind.name == "vector" and kind.length is not None else ""


def _length(column: Column, written: ColumnDef | None) -> int | None:
    kind = column.type
    if kind.name in TIME_TYPES:
        # here, missing is not the same as 0
        return fsp(kind) or (None if written else 0)
    if kind.name == "year":
        return None if written else 4
    if kind.name == "decimal":
        return kind.length
    if kind.name == "enum":
        return 1
    if kind.name == "set":
        return 2 * len(kind.elements) - 1
    if kind.name not in _WITH_LENGTH:
        return None
    default = _DEFAULT_LENGTHS.get(kind.name) or default_length(msgspec.structs.replace(kind, length=None))
    return None if kind.length == default else kind.length


def _default(column: Column, written: ColumnDef | None) -> str | None:
    kind, default = column.type, column.default
    if written is not None and (kind.name in TIME_TYPES or kind.name == "year"):
        default = _written_default(written, default)
    if default is None:
        return None
    if kind.name == "bit":
        return _bits(int(default), kind.length or 1)
    if kind.name in TIME_TYPES and str(default).upper().startswith("CURRENT_TIMESTAMP"):
        return "1970-01-01 00:00:00"
    return str(default)


def _written_default(definition: ColumnDef, stored: str | int | None) -> str | int | None:
    """TiCDC sees no sign: a negative number is an expression to its parser."""
    written = definition.written
    if written is None or definition.column.default is None:
        return stored
    if written.kind == "number":
        return stored if written.text.startswith("-") else written.text
    return definition.column.default


def _bits(number: int, length: int) -> str:
    """Bits as text. The first byte has as many digits as in the type, the others have eight."""
    first, *rest = number.to_bytes(max((number.bit_length() + 7) // 8, 1))
    return f"{first:0{length % 8 or 1}b}" + "".join(f"{byte:08b}" for byte in rest)
