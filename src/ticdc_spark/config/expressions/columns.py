"""Columns of a table in an expression: canonical values, converted to the kinds of expressions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ticdc_spark.config.expressions import convert
from ticdc_spark.config.expressions.collations import collation_of
from ticdc_spark.config.expressions.nodes import Evaluate, Kind, Node, Unsupported
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Row
from ticdc_spark.mysql import TIME_TYPES, enum_name, fsp, is_bytes, is_text, is_utc, local_timestamp, set_names
from ticdc_spark.mysql.types import INTEGER_BITS

_FLOAT = struct.Struct("<f")


def column_node(column: Column, time_zone: str) -> Node:
    """A column. A TIMESTAMP is local time in ``time_zone``."""
    kind_of, name = column.type, column.type.name
    if name in INTEGER_BITS or name == "year":
        return _node(column, "int", int, unsigned=kind_of.unsigned, year=name == "year")
    if name == "decimal":
        return _node(column, "decimal", Decimal, scale=max(kind_of.decimal or 0, 0))
    if name == "double":
        return _node(column, "real", float)
    if name == "float":
        return _node(column, "real", _widened, text=lambda value: convert.real_to_text(value, 32))
    if name in ("enum", "set"):
        return _node(column, "names", int, unsigned=True, text=_names(kind_of), collation=collation_of(kind_of.collate))
    if name == "bit":
        return _node(column, "int", int, unsigned=True, size=((kind_of.length or 1) + 7) // 8)
    if name == "date" or name in TIME_TYPES:
        return _temporal(column, time_zone)
    if name == "json":
        return _node(column, "json", None)
    if is_bytes(kind_of):
        return _node(column, "bytes", None)
    if is_text(kind_of):
        return Node(kind="text", of=_text(column.name), collation=collation_of(kind_of.collate))
    raise Unsupported(f"column {column.name!r} of type {name}")


def _temporal(column: Column, time_zone: str) -> Node:
    name, digits = column.type.name, fsp(column.type)
    if name == "date":
        return _node(column, "date", lambda text: text + convert.MIDNIGHT)
    if name == "time":
        return _node(column, "time", _micros, scale=digits)
    return _node(column, "datetime", _moment(name, time_zone), scale=digits)


def _node(column: Column, kind: Kind, read: Callable[[str], Any] | None, **more: Any) -> Node:
    name = column.name

    def evaluate(row: Row) -> Any:
        try:
            value = row[name]
        except KeyError as error:
            raise _lacking(name) from error
        return value if value is None or read is None else read(value)  # type: ignore[arg-type]

    return Node(kind=kind, of=evaluate, **more)


def _text(name: str) -> Evaluate:
    def evaluate(row: Row) -> Any:
        try:
            value = row[name]
        except KeyError as error:
            raise _lacking(name) from error
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value

    return evaluate


def _lacking(name: str) -> MessageError:
    return MessageError(f"a row lacks column {name!r}, which the condition needs")


def _widened(text: str) -> float:
    """The double as which a FLOAT is compared."""
    number: float = _FLOAT.unpack(_FLOAT.pack(float(text)))[0]
    return number


def _names(column_type: ColumnType) -> Callable[[Any], str]:
    of = enum_name if column_type.name == "enum" else set_names
    return lambda value: of(column_type, str(value))


def _moment(name: str, time_zone: str) -> Callable[[str], str]:
    convert_zone = name == "timestamp" and not is_utc(time_zone)

    def read(text: str) -> str:
        local = local_timestamp(text, time_zone) if convert_zone else text
        whole, _, fraction = local.partition(".")
        return f"{whole}.{fraction.ljust(6, '0')}"

    return read


def _micros(text: str) -> int:
    found = convert.text_to_time(text)
    if found is None:
        raise MessageError(f"{text!r} is no TIME")
    return found
