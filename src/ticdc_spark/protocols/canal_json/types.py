"""How canal-json writes and reads a value of each MySQL type, and the types' names and JDBC codes.

Every value is a JSON string or null. These differ from the canonical form: binary types (one character of ISO-8859-1
for each byte), FLOAT and DOUBLE (never with an exponent), TIMESTAMP (local time, without its zone), and
text that is not UTF-8 (each bad byte becomes ``\\ufffd``: lost). Source: ``canal-json`` in the vectors' notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import (
    canonical_float,
    canonical_integer,
    format_type,
    is_bytes,
    local_timestamp,
    utc_timestamp,
)
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.shared.go_text import decimal_float, quote_long
from ticdc_spark.protocols.shared.json_rows import Cell
from ticdc_spark.protocols.shared.json_writer import Write

Read: TypeAlias = Callable[[Any], Value]

_VARCHAR, _CHAR, _BLOB, _CLOB, _BIT = 12, 1, 2004, 2005, -7
_TINYINT, _SMALLINT, _INTEGER, _BIGINT, _DECIMAL = -6, 5, 4, -5, 3


class TypeCodec(NamedTuple):
    """A MySQL type on the wire."""

    jdbc: int
    """The code in ``sqlType`` (``java.sql.Types``)."""
    read: Callable[[ColumnType, ReadOptions], Read] | None = None
    """``None``: the text is the canonical value."""
    write: Callable[[ColumnType, str], Write] = lambda *_: encode_basestring
    """Arguments: the column's type and the time zone."""
    wider: tuple[int, int] | None = None
    """An unsigned value above the first number has the second as its code: the value decides, not the type."""


def _read_float(column_type: ColumnType, _: ReadOptions) -> Read:
    bits = 32 if column_type.name == "float" else 64
    return lambda text: canonical_float(text, bits)


def _write_float(*_: object) -> Write:
    return lambda text: f'"{decimal_float(text) or format(Decimal(canonical_float(text, 64)), "f")}"'


def _read_integer(*_: object) -> Read:
    return canonical_integer


def _read_timestamp(_: ColumnType, options: ReadOptions) -> Read:
    zone, ambiguous = options.source_timezone, options.ambiguous_timestamp

    def read(text: str) -> Value:
        if zone is None:
            raise MessageError("TIMESTAMP without a time zone: source-timezone must name the changefeed's")
        # the text itself has as many digits as the column
        return utc_timestamp(text, zone, max(len(text) - 20, 0), ambiguous)

    return read


def _write_timestamp(_: ColumnType, zone: str) -> Write:
    return lambda text: encode_basestring(local_timestamp(text, zone))


def _read_bytes(*_: object) -> Read:
    def read(text: str) -> Value:
        try:
            return text.encode("latin-1")
        except UnicodeEncodeError as error:
            raise MessageError(f"binary value with character {text[error.start]!r}, which is no byte") from error

    return read


def _write_bytes(*_: object) -> Write:
    return lambda value: quote_long((value.encode() if isinstance(value, str) else value).decode("latin-1"))


def _write_text(*_: object) -> Write:
    return quote_long


def _text(jdbc: int) -> TypeCodec:
    return TypeCodec(jdbc, None, _write_text)


def _float(jdbc: int) -> TypeCodec:
    return TypeCodec(jdbc, _read_float, _write_float)


_BYTES = TypeCodec(_BLOB, _read_bytes, _write_bytes)
CODECS: Mapping[str, TypeCodec] = {
    "tinyint": TypeCodec(_TINYINT, wider=(0x7F, _SMALLINT)),
    "smallint": TypeCodec(_SMALLINT, wider=(0x7FFF, _INTEGER)),
    "mediumint": TypeCodec(_INTEGER),
    "int": TypeCodec(_INTEGER, wider=(0x7FFFFFFF, _BIGINT)),
    "bigint": TypeCodec(_BIGINT, wider=(0x7FFFFFFFFFFFFFFF, _DECIMAL)),
    "year": TypeCodec(_VARCHAR, _read_integer),
    "bit": TypeCodec(_BIT),
    "enum": TypeCodec(_INTEGER),
    "set": TypeCodec(_BIT),
    "float": _float(7),
    "double": _float(8),
    "decimal": TypeCodec(_DECIMAL),
    "date": TypeCodec(91),
    "time": TypeCodec(92),
    "datetime": TypeCodec(93),
    "timestamp": TypeCodec(93, _read_timestamp, _write_timestamp),
    "json": _text(_VARCHAR),
    "vector": TypeCodec(_VARCHAR),
    **dict.fromkeys(("varchar", "var_string"), _text(_VARCHAR)),
    "char": _text(_CHAR),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), _text(_CLOB)),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _BYTES),
}
"""MySQL type → codec. CHAR, VARCHAR and TEXT of character set binary are sent as bytes."""


def codec_for(column_type: ColumnType) -> TypeCodec:
    """How values of a type are sent.

    Raises: MessageError for a type that rows never carry.
    """
    found = CODECS.get(column_type.name)
    if found is None:
        raise MessageError(f"canal-json carries no values of type {column_type.name!r}")
    return _BYTES if is_bytes(column_type) else found


def cell(column_type: ColumnType, options: ReadOptions) -> Cell:
    """The content of such a column in an image, and how it is read."""
    read = codec_for(column_type).read
    return Cell(str | None, read(column_type, options) if read else None)


def jdbc_type(column_type: ColumnType) -> int | Callable[[Value], str]:
    """The code in ``sqlType``; for an unsigned integer, a function of the value."""
    found = codec_for(column_type)
    code, wider = found.jdbc, found.wider
    if wider is None or not column_type.unsigned:
        return code
    limit, narrow, wide = wider[0], str(code), str(wider[1])
    return lambda value: wide if isinstance(value, str) and int(value) > limit else narrow


def type_name(column_type: ColumnType, content_compatible: bool) -> str:
    """The type in ``mysqlType``: ``int unsigned``, and with ``content_compatible`` ``int(10) unsigned``."""
    if content_compatible:
        return format_type(column_type)
    plain = column_type.name
    if plain not in ("bit", "year"):
        plain += (" unsigned" if column_type.unsigned else "") + (" zerofill" if column_type.zerofill else "")
    return plain
