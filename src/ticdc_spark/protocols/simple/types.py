"""How Simple JSON writes and reads a value of each MySQL type.

Every value is a JSON string or null, numbers too. Only these differ from the canonical form: binary types (base64),
FLOAT and DOUBLE (never with an exponent), TIMESTAMP (``{"location", "value"}``, local time), and text that is not
UTF-8 (each bad byte becomes ``\\ufffd``: lost). Source: ``simple`` in the vectors' notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import are_canonical_floats, canonical_float, fsp, is_bytes, local_timestamp, utc_timestamp
from ticdc_spark.protocols.base import ReadOptions

Read: TypeAlias = Callable[[Any], Value]
Write: TypeAlias = Callable[[Any], Any]


class Timestamp(msgspec.Struct, gc=False):
    """A TIMESTAMP on the wire: local text and the changefeed's time zone."""

    location: str
    value: str


class TypeCodec(NamedTuple):
    """A type's JSON type, and the conversions from and to the canonical value; ``None``: they are the same."""

    wire: Any
    read: Callable[[ColumnType, ReadOptions], Read] | None = None
    write: Callable[[str], Write] | None = None
    are_read: Callable[[list[Any]], bool] | None = None
    """As in ``Cell``."""


def _read_timestamp(column_type: ColumnType, options: ReadOptions) -> Read:
    digits, ambiguous = fsp(column_type), options.ambiguous_timestamp
    return lambda sent: utc_timestamp(sent.value, sent.location, digits, ambiguous)


def _write_timestamp(zone: str) -> Write:
    return lambda text: {"location": zone, "value": local_timestamp(text, zone)}


def _write_float(text: str) -> str:
    return format(Decimal(text), "f") if "e" in text else text


_BAD_BYTE = re.compile("[\udc80-\udcff]")


def _write_text(value: str | bytes) -> str | msgspec.Raw:
    if isinstance(value, str):
        return value
    # Go writes the escape for a bad byte, but the plain character if the text itself has U+FFFD
    pieces = (msgspec.json.encode(piece)[1:-1] for piece in _BAD_BYTE.split(value.decode("utf-8", "surrogateescape")))
    return msgspec.Raw(b'"' + rb"\ufffd".join(pieces) + b'"')


def _float(bits: int) -> TypeCodec:
    read = partial(canonical_float, bits=bits)
    return TypeCodec(str, lambda *_: read, lambda _: _write_float, partial(are_canonical_floats, bits=bits))


_PLAIN = TypeCodec(str)
_TEXT = TypeCodec(str, None, lambda _: _write_text)
_BYTES = TypeCodec(bytes)  # msgspec reads and writes bytes as base64
_CODECS: Mapping[str, TypeCodec] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit", "enum", "set"), _PLAIN),
    **dict.fromkeys(("decimal", "date", "datetime", "time", "json", "vector"), _PLAIN),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "var_string"), _TEXT),
    "float": _float(32),
    "double": _float(64),
    "timestamp": TypeCodec(Timestamp, _read_timestamp, _write_timestamp),
}


def codec_for(column_type: ColumnType) -> TypeCodec:
    """How values of a type are sent.

    Raises: MessageError for a type that rows never carry.
    """
    if is_bytes(column_type):
        return _BYTES
    found = _CODECS.get(column_type.name)
    if found is None:
        raise MessageError(f"Simple carries no values of type {column_type.name!r}")
    return found
