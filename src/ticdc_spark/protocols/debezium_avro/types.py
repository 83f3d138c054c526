"""How Debezium in Avro is written: the Avro type of each MySQL type, and its values.

Types are as in Debezium's JSON (``debezium.types``), except that bytes are bytes, DECIMAL is an unscaled number or
text, and a BIGINT UNSIGNED is text or a long that must not overflow. The reading side is ``debezium_avro``. Source: the
vectors of ``ticdc``, and TiCDC's own code (new architecture, August 2026) for cases without vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType
from ticdc_spark.mysql import enum_name, is_bytes, set_names
from ticdc_spark.protocols.avro.types import decimal_writer
from ticdc_spark.protocols.debezium.native import DECIMAL
from ticdc_spark.protocols.debezium.types import codec_for
from ticdc_spark.wire.avro_binary import DOUBLE, FLOAT, write_bytes, write_long, write_text

Write: TypeAlias = Callable[[Any], bytes]
"""Canonical value → Avro. An empty result is null on the wire."""
_AVRO = {"int16": "int", "int32": "int", "int64": "long"}
_MAX_LONG = 2**63 - 1


class WireCodec(NamedTuple):
    """A MySQL type on the wire."""

    schema: Any
    """Avro's type, without null."""
    write: Write


def wire_codec(
    column_type: ColumnType, nullable: bool, *, decimal_string: bool = False, unsigned_string: bool = False
) -> WireCodec:
    """How a column is sent.

    Raises: MessageError for a type that Debezium cannot carry.
    """
    name = column_type.name
    if is_bytes(column_type):
        return WireCodec("bytes", write_bytes)
    if name == "decimal":
        return WireCodec("string", write_text) if decimal_string else _decimal(column_type)
    if name == "bigint" and column_type.unsigned:
        return WireCodec("string", write_text) if unsigned_string else WireCodec("long", _unsigned)
    connect = codec_for(column_type).connect(column_type)
    avro = _AVRO.get(connect.type, connect.type)
    return WireCodec(_described(avro, connect), _writer(column_type, nullable, avro))


def _described(avro: str, connect: Any) -> Any:
    more: dict[str, Any] = {"connect.type": connect.type} if connect.type == "int16" else {}
    if connect.name:
        more["connect.name"] = connect.name
        if connect.version is not None:
            more["connect.version"] = connect.version
    if connect.parameter is not None:
        more["connect.parameters"] = dict([connect.parameter])
    return {**more, "type": avro} if more else avro


def _decimal(column_type: ColumnType) -> WireCodec:
    precision, scale = column_type.length or 10, column_type.decimal or 0
    schema = {
        "connect.name": DECIMAL,
        "connect.parameters": {"precision": str(precision), "scale": str(scale)},
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
        "type": "bytes",
    }
    return WireCodec(schema, decimal_writer(column_type, ""))


def _unsigned(text: str) -> bytes:
    number = int(text)
    if number > _MAX_LONG:
        raise MessageError(f"BIGINT UNSIGNED {text} overflows Avro's long; avro-bigint-unsigned-handling-mode=string")
    return write_long(number)


def _writer(column_type: ColumnType, nullable: bool, avro: str) -> Write:
    name = column_type.name
    if name == "float":
        # FLOAT(M,D) is a double of the same 32 bits
        return _float if avro == "float" else lambda text: DOUBLE.pack(FLOAT.unpack(_float(text))[0])
    if name == "double":
        return lambda text: DOUBLE.pack(float(text))
    if name == "bit":
        return _bits(column_type)
    if name == "timestamp":
        return _timestamp
    if name == "enum":
        return _enum(column_type)
    if name == "set":
        return lambda mask: write_text(set_names(column_type, mask))
    if avro == "string":
        return write_text
    return _number(codec_for(column_type).write(column_type, nullable))


def _number(json: Callable[[Any], str]) -> Write:
    """A number as in Debezium's JSON, or null."""

    def write(text: Any) -> bytes:
        number = json(text)
        return b"" if number == "null" else write_long(int(number))

    return write


def _float(text: str) -> bytes:
    return FLOAT.pack(float(text))


def _bits(column_type: ColumnType) -> Write:
    length = column_type.length or 1
    size = (length + 7) // 8

    def write(text: str) -> bytes:
        number = int(text)
        if number >> length:
            raise MessageError(f"{text} has more than {length} bits")
        raw = number.to_bytes(size, "little")
        return raw if length == 1 else write_bytes(raw)

    return write


def _timestamp(text: str) -> bytes:
    if text.startswith("0000-00-00"):
        return write_text("1970-01-01T00:00:00Z")
    return write_text(f"{text[:10]}T{text[11:]}Z")


def _enum(column_type: ColumnType) -> Write:
    names = {str(at): write_text(name) for at, name in enumerate(("", *column_type.elements))}

    def write(index: str) -> bytes:
        name = names.get(index)
        return write_text(enum_name(column_type, index)) if name is None else name

    return write
