"""Reads ordinary row messages of Simple in Avro directly into envelopes.

Nearly all of TiCDC's row messages are ordinary. Others (a name of 64 bytes and more, a claim check, numbers of ten
bytes, anything wrong) are read by ``simple.avro.decode.read_message``. It gives the reason for errors, and the same
envelope for ordinary messages.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Checksum, Envelope, Op
from ticdc_spark.protocols.simple.avro.rows import skip_map
from ticdc_spark.protocols.simple.avro.types import IMAGE
from ticdc_spark.wire.avro_binary import read_long, read_text

_START = b"\x16\6\6\2"
"""A row message of version 1."""
_INSERT, _UPDATE, _DELETE = b"\0", b"\2", b"\4"
_LONG = rb"[\x80-\xff]{0,8}+[\x00-\x7f]"
# tableID, type, commitTs, buildTs, schemaVersion, no claimCheckLocation, handleKeyOnly, checksum
_FIELDS = re.compile(
    rb"(L)([\x00\x02\x04])(L)L(L)\x00(\x00|\x02[\x00\x01])(?:\x00|\x02(L)([\x00\x01])(L)(L))".replace(b"L", _LONG)
)
_MAX_SUM = 2**32 - 1


def read_envelope(value: bytes) -> Envelope | None:
    """The envelope of a row message; ``None`` if the message is not an ordinary one."""
    try:
        return _read_envelope(value)
    except (MessageError, IndexError, UnicodeDecodeError):
        return None


def _read_envelope(value: bytes) -> Envelope | None:
    if value[:4] != _START:
        return None
    names_end = 5 + (value[4] >> 1)
    names_end += 1 + (value[names_end] >> 1)
    fields = _FIELDS.match(value, names_end)
    if fields is None:
        return None
    schema, table = _names(value[4:names_end])
    table_id, kind, commit_ts, version, keys_only, *sums = fields.groups()
    at = fields.end()
    op: Op
    before: bytes | None
    after: bytes | None
    if kind == _INSERT:
        op, before, after = "insert", None, value[at:-1]
        whole = value[-1] == 0 and after[:1] == IMAGE
    elif kind == _DELETE:
        op, before, after = "delete", value[at + 1 :], None
        whole = value[at] == 0 and before[:1] == IMAGE
    else:
        middle = skip_map(value, at + 1)
        op, before, after = "update", value[middle:], value[at:middle]
        whole = after[:1] == before[:1] == IMAGE
    ts, schema_key = _number(commit_ts), _version(version)
    if not (whole and ts >= 0 and schema and table and schema_key):
        return None
    checksum = None
    if sums[0] is not None:
        number, corrupted, current, previous = map(_number, sums)
        if not (0 <= current <= _MAX_SUM and 0 <= previous <= _MAX_SUM):
            return None
        checksum = Checksum(version=number, corrupted=corrupted != 0, current=current, previous=previous)
    return Envelope(
        op,
        schema,
        table,
        ts,
        before,
        after,
        _table_id(table_id),
        schema_key,
        keys_only == b"\2\1",
        None,
        checksum,
        None,
    )


@lru_cache(maxsize=4096)
def _names(raw: bytes) -> tuple[str, str]:
    schema, at = read_text(raw, 0)
    table, at = read_text(raw, at)
    if at != len(raw):
        raise MessageError("names whose lengths take more than a byte")
    return schema, table


@lru_cache(maxsize=4096)
def _table_id(raw: bytes) -> int | None:
    return read_long(raw, 0)[0] or None


@lru_cache(maxsize=4096)
def _version(raw: bytes) -> str:
    """The text of a schema version; empty if there is none, or it is wrong."""
    version, _ = read_long(raw, 0)
    return str(version) if version > 0 else ""


def _number(raw: bytes) -> int:
    """A long of up to nine bytes. The seven bits of each are joined in pairs, fours and eights."""
    bits = int.from_bytes(raw, "little") & 0x7F7F7F7F7F7F7F7F7F
    bits = bits & 0x7F007F007F007F007F | (bits & 0x7F007F007F007F00) >> 1
    bits = bits & 0x3FFF00003FFF00003FFF | (bits & 0x3FFF00003FFF0000) >> 2
    bits = bits & 0xFFFFFFF | bits >> 4 & 0xFFFFFFF0000000 | bits >> 8 & 0x7F00000000000000
    return (bits >> 1) ^ -(bits & 1)
