"""The tables in Debezium's messages: the schema block of a row, and ``tableChanges`` of a DDL.

DDL is followed by its SQL (``ddl``), which loses nothing. ``tableChanges`` lacks generated columns, indexes other than
the handle key, collations, UNSIGNED of a DECIMAL, and the zone of a TIMESTAMP's default. It is for a stream that is not
read from its begin, in which an ALTER names a table whose CREATE was not seen.

A row's block has less. It is for streams without DDL: of TiCDC before v9, and of connectors' row topics. Types are the
widest that the block allows:

- With TiDB's extension (``tidb_type``), or if a connector propagates source types, a column has its type's name. TiCDC
  sends no lengths. Its DECIMAL is a double without precision and scale, and is read as DOUBLE (text in Avro as
  LONGTEXT).
- Without them, int16, int32 and int64 are SMALLINT, INT and BIGINT (a BIGINT UNSIGNED from 2^63 on is negative).
  Strings are LONGTEXT: bytes that TiCDC, or a connector in a text mode, sends as base64 stay base64.
- DATETIME has 3 or 6 digits; TIME and TIMESTAMP have 6.
- ENUM and SET have their members. A member with a backslash before a comma is read as two.
- The key is from the message's key: TiCDC's handle key. Virtual columns are declared, but never sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Index, Table
from ticdc_spark.mysql import TIME_TYPES, default_length, is_text, parse_type
from ticdc_spark.protocols.debezium.blocks import Block, WireField, columns_of, parts
from ticdc_spark.protocols.debezium.native import DECIMAL
from ticdc_spark.protocols.debezium.types import codec_for
from ticdc_spark.wire.compression import unpack

_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_TABLES_KEPT = 128
_WIDEST = {
    "boolean": "bit(1)",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "string": "longtext",
    "bytes": "longblob",
}
_SEMANTIC = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Timestamp": "datetime(3)",
    "org.apache.kafka.connect.data.Timestamp": "datetime(3)",
    "io.debezium.time.MicroTimestamp": "datetime(6)",
    "io.debezium.time.NanoTimestamp": "datetime(6)",
    "io.debezium.time.ZonedTimestamp": "timestamp(6)",
    "io.debezium.time.Time": "time(3)",
    "org.apache.kafka.connect.data.Time": "time(3)",
    "io.debezium.time.MicroTime": "time(6)",
    "io.debezium.time.NanoTime": "time(6)",
    "io.debezium.time.Year": "year",
    "io.debezium.data.Json": "json",
    "io.debezium.data.TiDBVectorFloat32": "vector",
}
_MEMBERS = {"io.debezium.data.Enum": "enum", "io.debezium.data.EnumSet": "set"}
_GEOMETRY = "io.debezium.data.geometry."
_BITS = "io.debezium.data.Bits"
_COMMA = re.compile(r"(?<!\\),")
_BINARY_DIGITS = re.compile("[01]+")
_PROPAGATED = "__debezium.source.column."
_WITH_LENGTH = frozenset(("char", "varchar", "binary", "varbinary", "bit", "decimal", *TIME_TYPES))
_PRECISION = "connect.decimal.precision"
_MAX_PRECISION, _MAX_BITS = 65, 64
_NOW = ("1970-01-01 00:00:00", "1970-01-01T00:00:00")
"""Texts that mean CURRENT_TIMESTAMP. No TIMESTAMP is that early."""
_UNWRITTEN = {"varchar": 5, "varbinary": 5, "var_string": 5}
"""Lengths that TiCDC treats as defaults, and omits."""


def table_of_row(schema: str, name: str, key: bytes | None, value: bytes) -> Table:
    """The table that a row's message describes.

    Raises: MessageError if the message has no schema block, or one with columns that are not understood.
    """
    try:
        block = parts(unpack(value))[1]
        keys = parts(unpack(key))[1] if key else None
        if block is None:
            raise MessageError(
                f"no DDL in what was read fits the rows of `{schema}`.`{name}`, and they have no schema block"
            )
        return _table_of_blocks(schema, name, keys.raw if keys else b"", block.raw)
    except _BAD as error:
        raise MessageError(f"`{schema}`.`{name}`: the schema block is not understood: {error}") from error


@lru_cache(_TABLES_KEPT)
def _table_of_blocks(schema: str, name: str, key: bytes, value: bytes) -> Table:
    keys = [field.field for field in Block(key).schema.fields or ()] if key else []
    return table_of_fields(schema, name, columns_of(Block(value)), keys)


def table_of_fields(schema: str, name: str, fields: Iterable[WireField], keys: Iterable[str]) -> Table:
    """The table of a row's fields and its key's names.

    Raises: MessageError for a field of unknown type, or if there are no fields.
    """
    # the new architecture declares virtual columns twice
    columns = {field.field: _column(field) for field in fields}
    if not columns:
        raise MessageError(f"`{schema}`.`{name}`: the schema block declares no columns")
    return _table(schema, name, tuple(columns.values()), [column for column in keys if column in columns])


def _table(schema: str, name: str, columns: tuple[Column, ...], keys: Sequence[str]) -> Table:
    primary = Index(name="primary", unique=True, primary=True, nullable=False, columns=tuple(keys))
    return Table(schema=schema, name=name, columns=columns, indexes=(primary,) if keys else ())


def _column(field: WireField) -> Column:
    column_type = _bounded(field.field, _type(field))
    return Column(
        name=field.field, type=column_type, nullable=field.optional, default=_default(column_type, field.default)
    )


def _type(field: WireField) -> ColumnType:
    parameters = field.parameters or {}
    if field.name in _MEMBERS:
        members = [member.replace("\\,", ",") for member in _COMMA.split(parameters.get("allowed", ""))]
        kind = ColumnType(name=_MEMBERS[field.name], elements=tuple(members))
        return msgspec.structs.replace(kind, length=default_length(kind))
    if field.name == DECIMAL:
        precision = parameters.get(_PRECISION) or parameters.get("precision") or _MAX_PRECISION
        return parse_type(f"decimal({precision},{parameters.get('scale', 0)})")
    if (field.name or "").startswith(_GEOMETRY):
        return parse_type("geometry")
    if field.name == _BITS:
        return parse_type(f"bit({parameters.get('length', 64)})")
    if field.name in _SEMANTIC and not field.tidb_type:
        propagated = _propagated(parameters)
        return (
            propagated
            if propagated is not None and propagated.name in TIME_TYPES
            else parse_type(_SEMANTIC[field.name])
        )
    if field.tidb_type:
        return _tidb_type(field)
    found = _propagated(parameters) or _WIDEST.get(field.type)
    if found is None or (field.name and not parameters and field.name not in _SEMANTIC):
        raise MessageError(f"column `{field.field}`: type {field.type!r}, {field.name!r} is not known")
    return parse_type(found) if isinstance(found, str) else found


def _tidb_type(field: WireField) -> ColumnType:
    if field.name in _SEMANTIC and field.tidb_type in TIME_TYPES:
        return parse_type(_SEMANTIC[field.name])
    if field.tidb_type.startswith("decimal"):
        return parse_type("longtext" if field.type == "string" else "double")
    return parse_type(field.tidb_type)


def _propagated(parameters: dict[str, str]) -> ColumnType | None:
    """The source's type, with ``column.propagate.source.type``."""
    name, _, attributes = parameters.get(_PROPAGATED + "type", "").lower().partition(" ")
    if not name:
        return None
    size = ",".join(filter(None, (parameters.get(_PROPAGATED + part, "") for part in ("length", "scale"))))
    return parse_type(f"{name}({size}) {attributes}" if size and name in _WITH_LENGTH else f"{name} {attributes}")


def _bounded(name: str, kind: ColumnType) -> ColumnType:
    """Check numbers of digits or bits against MySQL's limits, as memory would have no bound otherwise."""
    if (kind.decimal or 0) > _MAX_PRECISION or (kind.name == "bit" and (kind.length or 1) > _MAX_BITS):
        raise MessageError(f"column `{name}` is no {kind.name}: its length is {kind.length}, its scale {kind.decimal}")
    return kind


def _default(column_type: ColumnType, sent: Any) -> str | int | None:
    kind = column_type.name
    if sent is None or kind == "json":
        return None
    if kind in ("enum", "set") or is_text(column_type) or (column_type.charset == "binary" and kind.endswith("binary")):
        return str(sent)
    if (isinstance(sent, str) and sent.startswith(_NOW)) or (kind == "datetime" and sent == 0):
        return "CURRENT_TIMESTAMP"
    try:
        cell = codec_for(column_type).read(column_type)
        value = msgspec.convert(int(sent) if isinstance(sent, float) and sent.is_integer() else sent, cell.wire)
        read = str(value) if cell.read is None else cell.read(value)
    except (MessageError, msgspec.ValidationError):
        return None
    if kind == "bit" and read is not None:
        return int(read)
    return read if isinstance(read, str) else None


class WireColumn(msgspec.Struct, rename="camel", gc=False):
    """A column of ``tableChanges``."""

    name: str
    type_name: str
    length: int | None = None
    scale: int | None = None
    charset_name: str | None = None
    optional: bool = True
    default_value_expression: str | None = None
    enum_values: list[str] | None = None


class WireTable(msgspec.Struct, rename="camel", gc=False):
    """A table of ``tableChanges``."""

    columns: list[WireColumn]
    primary_key_column_names: list[str] | None = None


class WireChange(msgspec.Struct, gc=False):
    """An entry of ``tableChanges``."""

    id: str
    table: WireTable | None = None


class WireDdl(msgspec.Struct, gc=False):
    """The needed fields of a DDL's payload."""

    changes: list[WireChange] = msgspec.field(default_factory=list, name="tableChanges")


_DDL = msgspec.json.Decoder(WireDdl)
_ID = re.compile(r'"((?:[^"]|"(?![.,]|$))*)"\."((?:[^"]|"(?![.,]|$))*)"(?:,|$)')


def tables_of_ddl(value: bytes) -> tuple[Table, ...]:
    """The tables after a DDL, from its message's ``tableChanges``; none for a DROP.

    Raises: MessageError if they are not understood.
    """
    try:
        changes = _DDL.decode(parts(unpack(value))[0]).changes
    except _BAD as error:
        raise MessageError(f"`tableChanges` is not understood: {error}") from error
    return tuple(_changed(change.id, change.table) for change in changes if change.table is not None)


def _changed(identity: str, wire: WireTable) -> Table:
    names = _ID.findall(identity)
    if not names:
        raise MessageError(f"`tableChanges` has the id {identity!r}")
    schema, name = names[-1]  # a RENAME's id is the old name, and the new one
    return _table(schema, name, tuple(map(_changed_column, wire.columns)), wire.primary_key_column_names or ())


def _changed_column(wire: WireColumn) -> Column:
    kind = _bounded(wire.name, _changed_type(wire))
    default: str | int | None = wire.default_value_expression
    if isinstance(default, str):
        if kind.name == "bit":
            default = int(default, 2) if _BINARY_DIGITS.fullmatch(default) else None
        elif kind.name in TIME_TYPES and default.startswith(_NOW):
            default = "CURRENT_TIMESTAMP"
    return Column(name=wire.name, type=kind, nullable=wire.optional, default=default)


def _changed_type(wire: WireColumn) -> ColumnType:
    name, _, attributes = wire.type_name.lower().partition(" ")
    if name in ("enum", "set"):
        # each member is quoted, and TiCDC escapes nothing in it
        kind = ColumnType(name=name, elements=tuple(member[1:-1] for member in wire.enum_values or ()))
        return msgspec.structs.replace(kind, charset=wire.charset_name, length=default_length(kind))
    length = _UNWRITTEN.get(name) if wire.length is None else wire.length
    size = ""
    if length is not None:
        size = f"({length},{wire.scale})" if wire.scale is not None and name != "bit" else f"({length})"
    kind = parse_type(f"{name}{size} {attributes}")
    return msgspec.structs.replace(kind, charset=wire.charset_name) if is_text(kind) and wire.charset_name else kind
