"""How Debezium's JSON holds a value of each MySQL type, both ways.

What the wire has lost stays lost: DECIMAL is a double, years below 100 are moved, a zero date is null or the epoch, and
NULL in a column with a default is that default. Source: ``debezium`` in the vectors' notes.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.protocols import debezium_values as values
from ticdc_spark.protocols.debezium_values import Connects, Write, plain
from ticdc_spark.protocols.json_rows import Cell

Read: TypeAlias = Callable[[Any], Value]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_URL_SAFE = str.maketrans("-_", "+/")
_MILLIS_FSP = 3
"""DATETIME of up to this many fractional digits is in milliseconds, of more in microseconds."""
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d{1,6})?)Z", re.ASCII)
_DIGITS = re.compile(r"(?:\d{4})+", re.ASCII)


class Form(NamedTuple):
    """A MySQL type on the wire: what JSON holds, and how it is read (``None``: it is the canonical value)."""

    wire: Any
    read: Callable[[ColumnType], Read | None]
    jdbc: int
    """The code in ``tableChanges`` (``java.sql.Types``)."""
    connect: Connects
    write: Callable[[ColumnType, bool], Write | None]
    """From the column's type and whether it is nullable. ``None``: the canonical value is what is written."""


def _integer(column_type: ColumnType) -> Read:
    if column_type.name != "bigint" or not column_type.unsigned:
        return str
    return lambda number: str(number + (1 << 64) if number < 0 else number)


def _float(column_type: ColumnType) -> Read:
    bits = 32 if column_type.name == "float" else 64
    return lambda number: mysql.canonical_float(repr(number), bits)


def _decimal(column_type: ColumnType) -> Read:
    scale = column_type.decimal or 0

    def read(number: float | str) -> Value:
        if isinstance(number, str):
            return _decimal_text(number, scale)
        return mysql.canonical_decimal(format(Decimal(repr(number)), "f"), scale)

    return read


def _decimal_text(text: str, scale: int) -> str:
    """Native Debezium: text (decimal.handling.mode string), or base64 of a big-endian unscaled number (precise)."""
    if scale == 0 and _DIGITS.fullmatch(text):
        raise MessageError(f"{text!r} may be a number or base64: decimal.handling.mode is not told")
    try:
        return mysql.canonical_decimal(text, scale)
    except MessageError:
        unscaled = Decimal(int.from_bytes(_bytes(text), signed=True))
    return mysql.canonical_decimal(format(unscaled.scaleb(-scale), "f"), scale)


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text.translate(_URL_SAFE), validate=True)
    except (BadBase64, ValueError) as error:
        raise MessageError(f"{text[:40]!r} is no base64") from error


def _bit(column_type: ColumnType) -> Read:
    length = column_type.length or 1

    def read(bits: bool | str) -> Value:
        number = int(bits) if isinstance(bits, bool) else int.from_bytes(_bytes(bits), "little")
        if number >> length:
            raise MessageError(f"{bits!r} has more than {length} bits")
        return str(number)

    return read


def _date(_: ColumnType) -> Read:
    def read(days: int) -> Value:
        try:
            return date.fromordinal(_EPOCH_DAY + days).isoformat()
        except (ValueError, OverflowError) as error:
            raise MessageError(f"{days} days since the epoch is no date") from error

    return read


def _datetime(column_type: ColumnType) -> Read:
    fsp = mysql.fsp(column_type)
    unit = 1000 if fsp <= _MILLIS_FSP else 1

    def read(ticks: int) -> Value:
        try:
            time = (_EPOCH + timedelta(microseconds=ticks * unit)).replace(tzinfo=None)
            return mysql.canonical_datetime(time.isoformat(" "), fsp)
        except OverflowError as error:
            raise MessageError(f"{ticks} since the epoch is no DATETIME") from error

    return read


def _timestamp(column_type: ColumnType) -> Read:
    fsp = mysql.fsp(column_type)

    def read(text: str) -> Value:
        found = _RFC3339.fullmatch(text)
        if not found:
            raise MessageError(f"{text!r} is no time of the form YYYY-MM-DDTHH:MM:SSZ")
        return mysql.canonical_datetime(f"{found[1]} {found[2]}", fsp)

    return read


def _time(column_type: ColumnType) -> Read:
    fsp = mysql.fsp(column_type)

    def read(micros: int) -> Value:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        hours, seconds = divmod(seconds, 3600)
        if hours > 838:
            raise MessageError(f"{micros} microseconds is beyond a TIME")
        text = f"{'-' if micros < 0 else ''}{hours:02}:{seconds // 60:02}:{seconds % 60:02}.{fraction:06}"
        return mysql.canonical_datetime(text, fsp)

    return read


def _year(_: ColumnType) -> Read:
    return lambda year: mysql.canonical_integer(str(year))


def _enum(column_type: ColumnType) -> Read:
    return lambda name: mysql.enum_index(column_type, name)


def _set(column_type: ColumnType) -> Read:
    return lambda names: mysql.set_mask(column_type, names)


def _text(column_type: ColumnType) -> Read | None:
    return _bytes if mysql.is_bytes(column_type) else None


def _integer_form(jdbc: int, kind: str, unsigned: str) -> Form:
    return Form(int, _integer, jdbc, plain(kind, unsigned=unsigned), values.write_integer)


def _text_form(jdbc: int) -> Form:
    return Form(str, _text, jdbc, plain("string"), values.write_text)


_CHAR, _VARCHAR, _BINARY, _VARBINARY, _BLOB, _INTEGER, _OTHER = 1, 12, -2, -3, 2004, 4, 1111
FORMS = {
    "tinyint": _integer_form(5, "int16", "int16"),
    "smallint": _integer_form(5, "int16", "int32"),
    "mediumint": _integer_form(_INTEGER, "int32", "int32"),
    "int": _integer_form(_INTEGER, "int32", "int64"),
    "bigint": _integer_form(-5, "int64", "int64"),
    "float": Form(float, _float, 6, values.connect_float, values.write_float),
    "double": Form(float, _float, 8, plain("double"), values.write_float),
    "decimal": Form(float | str, _decimal, 3, plain("double"), values.write_decimal),
    "bit": Form(bool | str, _bit, -7, values.connect_bit, values.write_bit),
    "date": Form(int, _date, 91, plain("int32", "io.debezium.time.Date"), values.write_date),
    "datetime": Form(int, _datetime, 93, values.connect_datetime, values.write_datetime),
    "timestamp": Form(
        str, _timestamp, 2014, plain("string", "io.debezium.time.ZonedTimestamp"), values.write_timestamp
    ),
    "time": Form(int, _time, 92, plain("int64", "io.debezium.time.MicroTime"), values.write_time),
    "year": Form(int | str, _year, _INTEGER, plain("int32", "io.debezium.time.Year"), values.write_year),
    "enum": Form(str, _enum, _CHAR, values.connect_enum, values.write_enum),
    "set": Form(str, _set, _CHAR, values.connect_set, values.write_set),
    "json": Form(str, lambda _: None, _OTHER, plain("string", "io.debezium.data.Json"), values.write_document),
    "vector": Form(
        str,
        lambda _: None,
        _VARCHAR,
        plain("string", "io.debezium.data.TiDBVectorFloat32", version=None),
        values.write_document,
    ),
    "char": _text_form(_CHAR),
    "binary": _text_form(_BINARY),
    "varbinary": _text_form(_VARBINARY),
    **dict.fromkeys(("varchar", "var_string", "tinytext", "text", "mediumtext", "longtext"), _text_form(_VARCHAR)),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), _text_form(_BLOB)),
}
"""MySQL type to its form."""


def form(column_type: ColumnType) -> Form:
    """How values of a type are sent.

    Raises: MessageError for a type that Debezium cannot carry.
    """
    found = FORMS.get(column_type.name)
    if found is None:
        raise MessageError(f"column type {column_type.name!r} is not known to debezium")
    return found


def cell(column_type: ColumnType) -> Cell:
    """What a column of this type holds.

    Raises: MessageError for a type that Debezium cannot carry.
    """
    found = form(column_type)
    return Cell(found.wire | None, found.read(column_type))
