"""A schema file of a storage sink: the table after a DDL, and the DDL. Source: ``pkg/cloudstorage/schema_file.go``."""

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Index, SchemaChange, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.mysql.types import TIME_TYPES

_WITH_LENGTH = frozenset({"char", "varchar", "binary", "varbinary", "bit"})


class _Column(msgspec.Struct, rename={"name": "ColumnName", "type": "ColumnType"}):
    name: str
    type: str
    precision: str = msgspec.field(default="", name="ColumnPrecision")
    scale: str = msgspec.field(default="", name="ColumnScale")
    nullable: str = msgspec.field(default="", name="ColumnNullable")
    primary: str = msgspec.field(default="", name="ColumnIsPk")
    elements: tuple[str, ...] = msgspec.field(default=(), name="ColumnElems")


class SchemaFile(msgspec.Struct):
    """The fields of a schema file that are read."""

    table: str = msgspec.field(name="Table")
    schema: str = msgspec.field(name="Schema")
    version: int = msgspec.field(name="TableVersion")
    query: str = msgspec.field(name="Query")
    type: int = msgspec.field(name="Type")
    columns: tuple[_Column, ...] | None = msgspec.field(default=None, name="TableColumns")

    def change(self) -> SchemaChange | None:
        """The DDL; ``None``: the file only describes the table."""
        if not self.query:
            return None
        return SchemaChange(
            commit_ts=self.version, query=self.query, kind=str(self.type), schema=self.schema, name=self.table
        )

    def described(self) -> Table:
        """The table. Of its keys, only the primary key is known. Raises: MessageError for a type"""
        columns = tuple(
            Column(name=one.name, type=_type(one), nullable=one.nullable != "false") for one in self.columns or ()
        )
        key = tuple(one.name for one in self.columns or () if one.primary == "true")
        primary = Index(name="primary", unique=True, primary=True, nullable=False, columns=key)
        return Table(schema=self.schema, name=self.table, columns=columns, indexes=(primary,) if key else ())


_DECODER = msgspec.json.Decoder(SchemaFile)


def read_schema_file(content: bytes) -> SchemaFile:
    """Raises: MessageError"""
    try:
        found = _DECODER.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"not a schema file: {error}; begins with {content[:80]!r}") from error
    if not 0 < found.version < 1 << 63:
        raise MessageError(f"schema file: TableVersion is {found.version}; allowed: 1 … 2^63 - 1")
    return found


def _type(column: _Column) -> ColumnType:
    name, _, unsigned = column.type.lower().partition(" ")
    length = column.precision if column.precision.isdigit() else ""
    scale = column.scale if column.scale.isdigit() else ""
    if name in ("enum", "set"):
        quoted = ("'" + member.replace("'", "''") + "'" for member in column.elements)
        text = f"{name}({','.join(quoted)})"
    elif name == "decimal" or (name in ("float", "double") and scale):
        text = f"{name}({length or 10},{scale or 0})"
    elif name in TIME_TYPES:
        text = f"{name}({scale})" if scale else name
    else:
        is_boolean = name == "tinyint" and length == "1"
        text = f"{name}({length})" if is_boolean or (length and name in _WITH_LENGTH) else name
    return parse_type(f"{text} {unsigned}".strip())
