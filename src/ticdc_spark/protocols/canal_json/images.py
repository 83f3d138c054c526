"""Images of canal-json without a schema: whole before images, and the table that a single message shows."""

from __future__ import annotations

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Index, Table
from ticdc_spark.mysql import is_bytes, parse_type
from ticdc_spark.protocols.canal_json.types import CODECS
from ticdc_spark.wire.compression import unpack

_CELLS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def whole_before(after: bytes, old: bytes) -> bytes:
    """The before image of an update: ``after`` overlaid with the columns of ``old``; ``old`` itself if that is whole.

    Raises: msgspec's errors if an image is no JSON object.
    """
    before = _CELLS.decode(old)
    now = _CELLS.decode(after)
    return old if before.keys() >= now.keys() else msgspec.json.encode({**now, **before})


class _Described(msgspec.Struct, gc=False):
    database: str = ""
    table: str = ""
    pk_names: list[str] | None = msgspec.field(default=None, name="pkNames")
    mysql_type: dict[str, str] | None = msgspec.field(default=None, name="mysqlType")


_DESCRIBED = msgspec.json.Decoder(_Described)


def table_from_message(value: bytes) -> Table:
    """The table that one of its rows shows. ``value``: a whole message.

    Known are names, types, UNSIGNED, bytes or text, and the primary key; with content-compatible also lengths, scales,
    and ENUM and SET members. Unknown are nullability, character sets, defaults, and other indexes. A partial message
    has only its own columns, in any order.

    Raises: MessageError if the message cannot be read or has an unknown type.
    """
    try:
        message = _DESCRIBED.decode(unpack(value))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"not a canal-json row: {error}") from error
    if not message.mysql_type:
        raise MessageError("a canal-json message without field `mysqlType` has no column types")
    columns = tuple(Column(name=name, type=_type(name, text)) for name, text in message.mysql_type.items())
    key = tuple(message.pk_names or ())
    primary = Index(name="primary", unique=True, primary=True, nullable=False, columns=key)
    return Table(schema=message.database, name=message.table, columns=columns, indexes=(primary,) if key else ())


def _type(name: str, text: str) -> ColumnType:
    found = ColumnType(name=text, charset="binary") if text in ("enum", "set") else parse_type(text)
    if found.name not in CODECS:
        raise MessageError(f"column `{name}`: type {text!r} is not known")
    return found if is_bytes(found) or "(" in text else msgspec.structs.replace(found, length=None)
