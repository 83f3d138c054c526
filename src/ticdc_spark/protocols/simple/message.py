"""A Simple message as JSON: its fields in TiCDC's order, and reading and writing a table's schema.

Source: the Simple protocol document, sections "Message format" and "TableSchema definition"; the vectors show which
fields may be absent. Both directions use the same structs, so reading and writing cannot diverge.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from ticdc_spark.model import Checksum, Column, ColumnType, Index, Op, Table
from ticdc_spark.mysql import TIME_TYPES, handle_key

VERSION = 1
MAX_TS = 2**63 - 1

DdlType: TypeAlias = Literal["CREATE", "RENAME", "CINDEX", "DINDEX", "ERASE", "TRUNCATE", "ALTER", "QUERY"]
MessageType: TypeAlias = Literal[DdlType, "INSERT", "UPDATE", "DELETE", "WATERMARK", "BOOTSTRAP"]
Ts: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_TS)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=MAX_TS)]
UInt32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]

NOTHING = msgspec.Raw(b"")

# TiCDC omits a zero (Go's omitempty). For these types, a missing number is a zero.
_ZERO_LENGTH = frozenset({"char", "varchar", "binary", "varbinary", "enum", "set"})
_ZERO_DECIMAL = TIME_TYPES | {"decimal"}
# these write -1 for none
_NO_LENGTH = "vector"
_NO_DECIMAL = "var_string"
_SCALE_UNSENT = ("float", "double")
_ADDED = "primary"
"""The name of the index that TiCDC adds."""


def _wire_name(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join("ID" if word == "id" else word.title() for word in rest)


class WireType(msgspec.Struct, rename=_wire_name, omit_defaults=True):
    """``dataType``."""

    mysql_type: str
    charset: str
    collate: str
    length: Int64 = 0
    decimal: Int64 = 0
    elements: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False


class WireColumn(msgspec.Struct, rename=_wire_name):
    """``columns``; ``default`` is text, or a number for BIT."""

    name: str
    data_type: WireType
    nullable: bool
    default: str | int | None = None


class WireIndex(msgspec.Struct):
    """``indexes``."""

    name: str
    unique: bool
    primary: bool
    nullable: bool
    columns: tuple[str, ...]


class WireTable(msgspec.Struct, rename=_wire_name):
    """``tableSchema`` and ``preTableSchema``."""

    schema: str
    table: str
    table_id: Int64
    version: Ts
    columns: tuple[WireColumn, ...]
    indexes: tuple[WireIndex, ...]


class WireChecksum(msgspec.Struct):
    """``checksum``."""

    version: int
    corrupted: bool
    current: UInt32
    previous: UInt32


class WireMessage(msgspec.Struct, rename=_wire_name, omit_defaults=True, kw_only=True, gc=False):
    """A message of any type. Images stay raw JSON. A missing field has its default."""

    version: int
    database: str = ""
    table: str = ""
    table_id: Int64 = 0
    type: MessageType
    sql: str = ""
    commit_ts: Ts
    build_ts: int | None = None
    schema_version: Ts = 0
    claim_check_location: str = ""
    handle_key_only: bool = False
    checksum: WireChecksum | None = None
    data: msgspec.Raw = NOTHING
    old: msgspec.Raw = NOTHING
    table_schema: WireTable | None = None
    pre_table_schema: WireTable | None = None


DECODER_OF_JSON = msgspec.json.Decoder(WireMessage)
OPS: dict[str, Op] = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
"""The types of messages that carry a row."""


def read_table(wire: WireTable) -> Table:
    """The table of a ``tableSchema``. Virtual columns cannot be marked there."""
    return Table(
        schema=wire.schema,
        name=wire.table,
        columns=tuple(
            Column(name=c.name, type=_read_type(c.data_type), nullable=c.nullable, default=c.default)
            for c in wire.columns
        ),
        indexes=tuple(
            Index(name=i.name, unique=i.unique, primary=i.primary, nullable=i.nullable, columns=i.columns)
            for i in wire.indexes
        ),
        table_id=wire.table_id,
        version=wire.version,
    )


def write_table(table: Table) -> WireTable:
    """The ``tableSchema`` of a table."""
    return WireTable(
        schema=table.schema,
        table=table.name,
        table_id=table.table_id or 0,
        version=table.version or 0,
        columns=tuple(
            WireColumn(c.name, _write_type(c.type), c.nullable, _write_default(c.default)) for c in table.columns
        ),
        indexes=tuple(WireIndex(i.name, i.unique, i.primary, i.nullable, i.columns) for i in _indexes(table)),
    )


def _indexes(table: Table) -> list[Index]:
    """TiCDC adds the key that TiDB has no index for: an integer that orders the rows, or a handle key that is only
    unique."""
    primary = next((index for index in table.indexes if index.primary), None)
    others = [index for index in table.indexes if index is not primary or index.name != _ADDED]
    if primary is None and (columns := tuple(handle_key(table))):
        primary = Index(name=_ADDED, unique=True, primary=True, nullable=False, columns=columns)
    return others if primary is None or primary in others else [*others, primary]


def _read_type(wire: WireType) -> ColumnType:
    name = wire.mysql_type.lower()
    return ColumnType(
        name=name,
        length=wire.length if wire.length > 0 or name in _ZERO_LENGTH else None,
        decimal=wire.decimal if wire.decimal > 0 or name in _ZERO_DECIMAL else None,
        unsigned=wire.unsigned,
        zerofill=wire.zerofill,
        elements=wire.elements,
        charset=wire.charset or None,
        collate=wire.collate or None,
    )


def _write_type(column_type: ColumnType) -> WireType:
    name, length, decimal = column_type.name, column_type.length, column_type.decimal
    return WireType(
        mysql_type=name,
        charset=column_type.charset or "",
        collate=column_type.collate or "",
        length=length if length is not None else -1 if name == _NO_LENGTH else 0,
        decimal=0 if name in _SCALE_UNSENT else decimal if decimal is not None else -1 if name == _NO_DECIMAL else 0,
        elements=column_type.elements,
        unsigned=column_type.unsigned,
        zerofill=column_type.zerofill,
    )


def _write_default(default: str | bytes | int | None) -> str | int | None:
    # Go's encoding/json replaces each byte that is not UTF-8
    return go_text(default) if isinstance(default, bytes) else default


def go_text(raw: bytes) -> str:
    """Bytes as text, with U+FFFD for each byte that is not UTF-8."""
    text = raw.decode("utf-8", "surrogateescape")
    return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in text)


def read_checksum(wire: WireChecksum | None) -> Checksum | None:
    """The row checksum of a message."""
    if wire is None:
        return None
    return Checksum(version=wire.version, corrupted=wire.corrupted, current=wire.current, previous=wire.previous)
