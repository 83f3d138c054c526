"""How a column's cells are read. Its schema must agree with the table map.

A ``Cell`` is a piece of the code that reads a row (see ``rows``). It has a fixed size, or a length before the bytes,
and the expression that makes the canonical value from ``x``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ticdc_spark.capture.binlog.values import numbers, times
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.capture.binlog.values.foreign import inet4_text, inet6_text, uuid_text
from ticdc_spark.capture.binlog.values.json_text import json_text
from ticdc_spark.capture.binlog.wire import table_map as wire_types
from ticdc_spark.capture.binlog.wire.table_map import Wire
from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType
from ticdc_spark.mysql import INTEGER_BITS, float_text, fsp, is_bytes, is_text
from ticdc_spark.mysql.vectors import vector_text


class Cell(NamedTuple):
    """How a cell is converted to a value."""

    expression: str
    """Code with ``{x}``, the unpacked value or the bytes after the length, and ``{f}``, which is ``function``."""
    format: str = ""
    """For ``struct``, little-endian; empty if the row has the size."""
    length: int = 0
    """How many bytes the length before the value has."""
    function: Callable[[Any], Any] | None = None
    lenient: bool = False
    """Whether it is text, in which bytes that are not in the character set stay bytes."""


_INTEGERS = {"tinyint": (wire_types.TINY, "b"), "smallint": (wire_types.SHORT, "h"), "int": (wire_types.LONG, "i")}
_INTEGERS |= {"bigint": (wire_types.LONGLONG, "q"), "mediumint": (wire_types.INT24, "3s")}
_BLOB_LENGTHS = {"tiny": 1, "medium": 3, "long": 4}
_TEXT, _CALL, _PLAIN = "str({x})", "{f}({x})", "{x}"
_BINARY = 63


class _Disagrees(Exception):
    """The table map has another type, which the text says."""


def cell_of(kind: ColumnType, wire: Wire, charsets: Charsets) -> Cell:
    """How the cells of a column are read.

    Raises: MessageError if the table map has another type than the schema.
    """
    try:
        for read in (_number, _time, _chosen, _text):
            found = read(kind, wire, charsets)
            if found is not None:
                return found
    except _Disagrees as error:
        raise MessageError(str(error)) from None
    raise MessageError(f"type {kind.name} is not read from a binlog (wire type {wire.code})")


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise _Disagrees(f"{what} is {found}, not {expected}")


def _number(kind: ColumnType, wire: Wire, charsets: Charsets) -> Cell | None:
    name = kind.name
    if name in INTEGER_BITS:
        code, form = _INTEGERS[name]
        _expect("the wire type", wire.code, code)
        if wire.unsigned is not None:
            _expect("the column unsigned", wire.unsigned, kind.unsigned)
        if form == "3s":
            signed = not kind.unsigned
            return Cell(_CALL, form, function=lambda data: str(int.from_bytes(data, "little", signed=signed)))
        return Cell(_TEXT, form.upper() if kind.unsigned else form)
    if name == "decimal":
        _expect("the wire type", wire.code, wire_types.DECIMAL)
        precision, scale = wire.meta >> 8, wire.meta & 255
        _expect("precision and scale", (precision, scale), (kind.length, kind.decimal))
        size = numbers.decimal_size(precision, scale)
        return Cell(_CALL, f"{size}s", function=numbers.decimal_text(precision, scale))
    if name in ("float", "double"):
        bits, code, form = (32, wire_types.FLOAT, "f") if name == "float" else (64, wire_types.DOUBLE, "d")
        _expect("the wire type", wire.code, code)
        return Cell(_CALL, form, function=lambda number: float_text(number, bits))
    if name == "bit":
        _expect("the wire type", wire.code, wire_types.BIT)
        _expect("the count of bits", wire.meta, kind.length)
        return Cell(_CALL, f"{(wire.meta + 7) // 8}s", function=numbers.bit_text)
    if name == "year":
        _expect("the wire type", wire.code, wire_types.YEAR)
        return Cell('(str({x} + 1900) if {x} else "0")', "B")
    return None


_TIMES: dict[str, tuple[int, int, Callable[[int], Callable[[bytes], str]]]] = {
    "datetime": (wire_types.DATETIME2, 5, times.datetime_text),
    "timestamp": (wire_types.TIMESTAMP2, 4, times.timestamp_text),
    "time": (wire_types.TIME2, 3, times.time_text),
}
_OLD_TIMES = {
    ("datetime", wire_types.DATETIME): ("8s", times.old_datetime_text),
    ("timestamp", wire_types.TIMESTAMP): ("4s", times.old_timestamp_text),
    ("time", wire_types.TIME): ("3s", times.old_time_text),
}


def _time(kind: ColumnType, wire: Wire, charsets: Charsets) -> Cell | None:
    if kind.name == "date":
        _expect("the wire type", wire.code, wire_types.DATE)
        return Cell(_CALL, "3s", function=times.date_text)
    if kind.name not in _TIMES:
        return None
    old = _OLD_TIMES.get((kind.name, wire.code))
    if old is not None:
        # MariaDB's own form of fractions has no digits in the table map
        _expect("fractional digits of a table in the old format", fsp(kind), 0)
        return Cell(_CALL, old[0], function=old[1])
    code, size, reader = _TIMES[kind.name]
    _expect("the wire type", wire.code, code)
    _expect("the count of fractional digits", wire.meta, fsp(kind))
    return Cell(_CALL, f"{size + times.fraction_size(wire.meta)}s", function=reader(wire.meta))


_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _chosen(kind: ColumnType, wire: Wire, charsets: Charsets) -> Cell | None:
    if kind.name not in ("enum", "set"):
        return None
    _expect("the wire type", wire.code, wire_types.ENUM if kind.name == "enum" else wire_types.SET)
    members = tuple(charsets.text(member, wire.collation) for member in wire.members)
    _expect("the list of members", members, kind.elements)
    if wire.meta in _UNSIGNED:
        return Cell(_TEXT, _UNSIGNED[wire.meta])
    return Cell('str(int.from_bytes({x}, "little"))', f"{wire.meta}s")


_FOREIGN = {("char", 16): uuid_text, ("varchar", 16): inet6_text, ("varchar", 4): inet4_text}
"""MariaDB's own types, which become text. Keys: type name here and size in the row."""


def _text(kind: ColumnType, wire: Wire, charsets: Charsets) -> Cell | None:
    name = kind.name
    if name == "json":
        _expect("the wire type", wire.code, wire_types.JSON)
        return Cell(_CALL, length=wire.meta, function=json_text)
    if name == "vector":
        _expect("the wire type", wire.code, wire_types.VECTOR)
        return Cell(_CALL, length=wire.meta, function=vector_text)
    if name == "longblob" and wire.code == wire_types.GEOMETRY:
        return Cell(_PLAIN, length=wire.meta)
    if not is_bytes(kind) and not is_text(kind):
        return None
    foreign = wire.code == wire_types.STRING and wire.collation == _BINARY and _FOREIGN.get((name, wire.meta))
    if foreign and is_text(kind):
        size = wire.meta
        return Cell(_CALL, length=1, function=lambda data: foreign(data.ljust(size, b"\0")))
    length = _length_size(name, wire)
    if is_bytes(kind):
        _expect("the character set", wire.collation, _BINARY)
        padded = name == "binary"
        return Cell("{x}.ljust(" + str(wire.meta) + ', b"\\0")' if padded else _PLAIN, length=length)
    charset = charsets.names(_BINARY if wire.collation is None else wire.collation)[0]
    if charset == "binary":
        raise _Disagrees("the column is bytes, not text")
    decode = charsets.decoder(charset)
    if charset.startswith("utf8"):
        return Cell("{x}.decode()", length=length, lenient=True)
    return Cell(_CALL, length=length, function=decode, lenient=True)


def _length_size(name: str, wire: Wire) -> int:
    """How many bytes the length before a text or bytes has."""
    if name.endswith(("text", "blob")):
        _expect("the wire type", wire.code, wire_types.BLOB)
        _expect(
            "the size of the length", wire.meta, _BLOB_LENGTHS.get(name.removesuffix("text").removesuffix("blob"), 2)
        )
        return wire.meta
    if name.startswith("var"):
        _expect("the wire type", wire.code, wire_types.VARCHAR)
    else:
        _expect("the wire type", wire.code, wire_types.STRING)
    return 1 if wire.meta < 256 else 2
