"""Reads and writes a table's schema in Simple's Avro. The Avro schema is in ``simple.avro.decode``."""

from __future__ import annotations

from ticdc_spark.errors import MessageError
from ticdc_spark.mysql import INTEGER_BITS
from ticdc_spark.protocols.simple.message import WireColumn, WireIndex, WireTable, WireType, go_text
from ticdc_spark.wire.avro_binary import (
    array,
    optional,
    read_boolean,
    read_long,
    read_text,
    read_text_or_bytes,
    write_long,
    write_text,
)

# The length of a time without fractional digits. The point adds one, and so does each digit. The classic architecture
# sends no `decimal` for these.
_TIME_LENGTHS = {"datetime": 19, "timestamp": 19, "time": 10}
_SIGNED = frozenset({*INTEGER_BITS, "float", "double", "decimal", "bit", "year"})
"""Types for which TiCDC writes `unsigned` and `zerofill`."""
_ALWAYS_UNSIGNED = frozenset({"bit", "year"})

_read_texts = array(read_text)
_read_elements = optional(_read_texts)
_read_number = optional(read_long)
_read_flag = optional(read_boolean)
_read_default = optional(read_text_or_bytes)


def _read_type(data: bytes, at: int) -> tuple[WireType, int]:
    mysql_type, at = read_text(data, at)
    charset, at = read_text(data, at)
    collate, at = read_text(data, at)
    length, at = read_long(data, at)
    decimal, at = _read_number(data, at)
    elements, at = _read_elements(data, at)
    unsigned, at = _read_flag(data, at)
    zerofill, at = _read_flag(data, at)
    if decimal is None and mysql_type in _TIME_LENGTHS:
        decimal = max(length - _TIME_LENGTHS[mysql_type] - 1, 0)
    wire = WireType(
        mysql_type=mysql_type,
        charset=charset,
        collate=collate,
        length=length,
        decimal=decimal or 0,
        elements=elements or (),
        unsigned=mysql_type in _ALWAYS_UNSIGNED if unsigned is None else unsigned,
        zerofill=mysql_type == "year" if zerofill is None else zerofill,
    )
    return wire, at


def _read_column(data: bytes, at: int) -> tuple[WireColumn, int]:
    name, at = read_text(data, at)
    data_type, at = _read_type(data, at)
    nullable, at = read_boolean(data, at)
    sent, at = _read_default(data, at)
    default: str | int | None
    if sent is not None and data_type.mysql_type == "bit":
        # its bytes, where JSON has a number
        default = int.from_bytes(sent.encode() if isinstance(sent, str) else sent, "big")
    else:
        default = go_text(sent) if isinstance(sent, bytes) else sent
    return WireColumn(name, data_type, nullable, default), at


def _read_index(data: bytes, at: int) -> tuple[WireIndex, int]:
    name, at = read_text(data, at)
    unique, at = read_boolean(data, at)
    primary, at = read_boolean(data, at)
    nullable, at = read_boolean(data, at)
    columns, at = _read_texts(data, at)
    return WireIndex(name, unique, primary, nullable, columns), at


_read_columns = array(_read_column)
_read_indexes = array(_read_index)


def read_table(data: bytes, at: int) -> tuple[WireTable, int]:
    """A TableSchema.

    Raises: MessageError, IndexError and UnicodeDecodeError, as ``wire.avro_binary`` does.
    """
    schema, at = read_text(data, at)
    table, at = read_text(data, at)
    table_id, at = read_long(data, at)
    version, at = read_long(data, at)
    columns, at = _read_columns(data, at)
    indexes, at = _read_indexes(data, at)
    if version < 0:
        raise MessageError(f"field `version` of the table's schema is {version}")
    return WireTable(schema, table, table_id, version, columns, indexes), at


read_optional_table = optional(read_table)


def _flag(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def _texts(items: tuple[str, ...]) -> bytes:
    return (write_long(len(items)) if items else b"") + b"".join(map(write_text, items)) + b"\0"


def _write_type(wire: WireType) -> bytes:
    name = wire.mysql_type
    signs = b"\2" + _flag(wire.unsigned) + b"\2" + _flag(wire.zerofill) if name in _SIGNED else b"\0\0"
    return b"".join(
        (
            write_text(name),
            write_text(wire.charset),
            write_text(wire.collate),
            write_long(wire.length),
            b"\2" + write_long(wire.decimal) if name == "decimal" else b"\0",
            b"\2" + _texts(wire.elements) if name in ("enum", "set") else b"\0",
            signs,
        )
    )


def _write_default(column: WireColumn) -> bytes:
    default = column.default
    if default is None:
        return b"\0"
    if isinstance(default, int):
        return b"\2" + write_text(default.to_bytes(max((default.bit_length() + 7) // 8, 1), "big"))
    return b"\2" + write_text(default)


def write_table(wire: WireTable) -> bytes:
    """A TableSchema."""
    columns = [
        write_text(column.name) + _write_type(column.data_type) + _flag(column.nullable) + _write_default(column)
        for column in wire.columns
    ]
    indexes = [
        write_text(index.name)
        + _flag(index.unique)
        + _flag(index.primary)
        + _flag(index.nullable)
        + _texts(index.columns)
        for index in wire.indexes
    ]
    return b"".join(
        (
            write_text(wire.schema),
            write_text(wire.table),
            write_long(wire.table_id),
            write_long(wire.version),
            *((write_long(len(columns)), *columns) if columns else ()),
            b"\0",
            *((write_long(len(indexes)), *indexes) if indexes else ()),
            b"\0",
        )
    )


def write_optional_table(wire: WireTable | None) -> bytes:
    """Null, or a TableSchema."""
    return b"\0" if wire is None else b"\2" + write_table(wire)
