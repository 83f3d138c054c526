"""How Debezium's JSON writes and reads a value of each MySQL type.

The protocol loses some values: DECIMAL is a double, years below 100 are moved, a zero date is null or the epoch, and
NULL in a column with a default is that default. Source: ``debezium`` in the vectors' notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType
from ticdc_spark.mysql import SPATIAL_TYPES
from ticdc_spark.protocols.debezium import reads, values
from ticdc_spark.protocols.debezium.values import Connects, Write, plain
from ticdc_spark.protocols.shared.json_rows import Cell


class TypeCodec(NamedTuple):
    """A MySQL type on the wire."""

    read: Callable[[ColumnType], Cell]
    """The cell in JSON, and how it is read."""
    jdbc: int
    """The code in ``tableChanges`` (``java.sql.Types``)."""
    connect: Connects
    write: Callable[[ColumnType, bool], Write]
    """Arguments: the column's type and whether it is nullable."""


def _integer_codec(jdbc: int, kind: str, unsigned: str) -> TypeCodec:
    return TypeCodec(reads.read_integer, jdbc, plain(kind, unsigned=unsigned), values.write_integer)


def _text_codec(jdbc: int) -> TypeCodec:
    return TypeCodec(reads.read_text, jdbc, plain("string"), values.write_text)


_CHAR, _VARCHAR, _BINARY, _VARBINARY, _BLOB, _INTEGER, _OTHER = 1, 12, -2, -3, 2004, 4, 1111
CODECS = {
    "tinyint": _integer_codec(5, "int16", "int16"),
    "smallint": _integer_codec(5, "int16", "int32"),
    "mediumint": _integer_codec(_INTEGER, "int32", "int32"),
    "int": _integer_codec(_INTEGER, "int32", "int64"),
    "bigint": _integer_codec(-5, "int64", "int64"),
    "float": TypeCodec(reads.read_float, 6, values.connect_float, values.write_float),
    "double": TypeCodec(reads.read_float, 8, plain("double"), values.write_float),
    "decimal": TypeCodec(reads.read_decimal, 3, plain("double"), values.write_decimal),
    "bit": TypeCodec(reads.read_bit, -7, values.connect_bit, values.write_bit),
    "date": TypeCodec(reads.read_date, 91, plain("int32", "io.debezium.time.Date"), values.write_date),
    "datetime": TypeCodec(reads.read_datetime, 93, values.connect_datetime, values.write_datetime),
    "timestamp": TypeCodec(
        reads.read_timestamp, 2014, plain("string", "io.debezium.time.ZonedTimestamp"), values.write_timestamp
    ),
    "time": TypeCodec(reads.read_time, 92, plain("int64", "io.debezium.time.MicroTime"), values.write_time),
    "year": TypeCodec(reads.read_year, _INTEGER, plain("int32", "io.debezium.time.Year"), values.write_year),
    "enum": TypeCodec(reads.read_enum, _CHAR, values.connect_enum, values.write_enum),
    "set": TypeCodec(reads.read_set, _CHAR, values.connect_set, values.write_set),
    "json": TypeCodec(reads.read_plain, _OTHER, plain("string", "io.debezium.data.Json"), values.write_document),
    "vector": TypeCodec(
        reads.read_plain,
        _VARCHAR,
        plain("string", "io.debezium.data.TiDBVectorFloat32", version=None),
        values.write_document,
    ),
    "char": _text_codec(_CHAR),
    "binary": _text_codec(_BINARY),
    "varbinary": _text_codec(_VARBINARY),
    **dict.fromkeys(("varchar", "var_string", "tinytext", "text", "mediumtext", "longtext"), _text_codec(_VARCHAR)),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), _text_codec(_BLOB)),
}
"""MySQL type → codec."""


def codec_for(column_type: ColumnType) -> TypeCodec:
    """How values of a type are sent.

    Raises: MessageError for a type that Debezium cannot carry.
    """
    found = CODECS.get(column_type.name)
    if found is None:
        raise MessageError(f"column type {column_type.name!r} is not known to debezium")
    return found


def cell(column_type: ColumnType) -> Cell:
    """The cell of a column of this type. Only Debezium's own connectors send geometries, so they are only read.

    Raises: MessageError for a type that Debezium cannot carry.
    """
    if column_type.name in SPATIAL_TYPES:
        return reads.read_geometry(column_type)
    return codec_for(column_type).read(column_type)
