"""Reads the extension fields of a value from its end, without reading the columns before them.

Every byte of an Avro number except its last one has its high bit set. So a number can be read backwards if the byte
before it is known to have none. After the columns come op (one letter), commit_ts, physical time and, with checksums,
the checksum's digits, corrupted and version. There is only op if ``avro-include-before-value`` sends old rows and
``enable-tidb-extension`` is off. A delete has a value only with the former, and its checksum is the old row's.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Checksum
from ticdc_spark.protocols.avro.schema import Schema
from ticdc_spark.wire.avro_binary import read_long, readable
from ticdc_spark.wire.confluent import HEAD

_OPS = {ord(op): op for op in "cud"}
_UNSIGNED_32 = 2**32 - 1


class Tail(NamedTuple):
    """The extension fields; ``op`` is c, u or d."""

    op: str
    commit_ts: int
    checksum: Checksum | None


def read_tail(value: bytes, schema: Schema) -> Tail:
    """Read the extension fields of a framed value.

    Raises: MessageError if they are not there.
    """
    with readable():
        end, checksum = len(value), None
        if len(schema.extra) == 1:
            return Tail(_op(value, end), 0, None)
        if len(schema.extra) > 3:
            checksum, end = _checksum(value, end)
        at = _number(value, _number(value, end))  # physical time repeats commit_ts
        op = _op(value, at)
        commit_ts, _ = read_long(value, at)
    if commit_ts < 0:
        raise MessageError(f"_tidb_commit_ts is {commit_ts}; allowed: 0 … 2^63 - 1")
    if op == "d" and checksum is not None:
        checksum = msgspec.structs.replace(checksum, current=0, previous=checksum.current)
    return Tail(op, commit_ts, checksum)


def _op(value: bytes, end: int) -> str:
    op = _OPS.get(value[end - 1]) if end > HEAD + 1 else None
    if op is None or value[end - 2] != 2:
        raise MessageError("a value without its extension fields: _tidb_op is not where it should be")
    return op


def _number(value: bytes, end: int) -> int:
    """The begin of the number that ends at ``end``."""
    at = end - 1
    while at > HEAD and value[at - 1] >= 0x80:
        at -= 1
    if at <= HEAD or value[end - 1] >= 0x80:
        raise MessageError("a value without its extension fields: no number where one should be")
    return at


def _checksum(value: bytes, end: int) -> tuple[Checksum | None, int]:
    version_at = _number(value, end)
    version, _ = read_long(value, version_at)
    corrupted = value[version_at - 1]
    at = version_at - 1
    while at > HEAD and 0x30 <= value[at - 1] <= 0x39:
        at -= 1
    digits = value[at : version_at - 1]
    if corrupted > 1 or value[at - 1] != len(digits) * 2 or len(digits) > 10:
        raise MessageError("a value without its extension fields: no checksum where one should be")
    current = int(digits or b"0")
    if current > _UNSIGNED_32:
        raise MessageError(f"_tidb_row_level_checksum is {current}; allowed: 0 … {_UNSIGNED_32}")
    return Checksum(version=version, corrupted=corrupted == 1, current=current, previous=0), at - 1
