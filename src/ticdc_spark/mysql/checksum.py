"""TiDB's row checksum by columns: CRC-32 over the values of a row, in the order of the columns' ids.

NULL and GEOMETRY add nothing. Integers, YEAR, ENUM (index), SET and BIT (number) add 8 bytes, little endian in two's
complement. FLOAT and DOUBLE add the 8 bytes of a double. VECTOR adds its stored bytes. All other types add the length
of their text or bytes in 4 bytes, then the text or bytes. TIMESTAMP is in UTC. TiCDC sends this checksum, whichever
version TiDB itself stores. Source: TiDB's rowcodec, and the ``*_checksum`` vectors.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from zlib import crc32

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql.types import is_integer

Parts: TypeAlias = Callable[[Sequence[Value]], list[bytes]]
"""From the values of one column to what each adds to its row's checksum; ``b""`` for None."""

_INTEGER = struct.Struct("<Q")
_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")
_LENGTH = struct.Struct("<I")
_MASK = 2**64 - 1


def column_parts(column_type: ColumnType) -> Parts:
    """What the canonical values of a type add to their rows' checksums. Raises: MessageError for other values"""
    of = _column(column_type)

    def parts(cells: Sequence[Value]) -> list[bytes]:
        try:
            return of(cells)
        except (ValueError, OverflowError, struct.error, msgspec.MsgspecError) as error:
            raise MessageError(f"no {column_type.name} to compute a checksum of: {error}") from error

    return parts


def row_checksums(columns: Sequence[ColumnType]) -> Callable[[Sequence[Sequence[Value]]], list[int]]:
    """Compile the checksums of rows, given as a list of canonical values per column, in the order of the columns'
    ids."""
    parts = [column_parts(column) for column in columns]

    def checksums(values: Sequence[Sequence[Value]]) -> list[int]:
        encoded = [of(cells) for of, cells in zip(parts, values, strict=True)]
        return [crc32(b"".join(row)) for row in zip(*encoded, strict=True)]

    return checksums


def _column(column_type: ColumnType) -> Parts:
    if column_type.name == "geometry":
        return lambda cells: [b""] * len(cells)
    if is_integer(column_type):
        return _integers
    one = _ONE_BY_ONE.get(column_type.name)
    if one is None:
        return _sized
    return lambda cells: [b"" if cell is None else one(cell) for cell in cells]


def _integers(cells: Sequence[Any]) -> list[bytes]:
    pack, mask = _INTEGER.pack, _MASK
    return [b"" if cell is None else pack(int(cell) & mask) for cell in cells]


def _double(text: str) -> bytes:
    number = float(text)
    return _DOUBLE.pack(number if math.isfinite(number) else 0.0)


def _float(text: str) -> bytes:
    # the text is the shortest that reads back to the 32-bit float; TiDB widens that float
    return _DOUBLE.pack(*_FLOAT.unpack(_FLOAT.pack(float(text))))


def _vector(text: str) -> bytes:
    numbers = msgspec.json.decode(text, type=list[float])
    return struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)


def _sized(cells: Sequence[Any]) -> list[bytes]:
    pack = _LENGTH.pack
    raws = [cell.encode() if cell.__class__ is str else cell for cell in cells]
    return [b"" if raw is None else pack(len(raw)) + raw for raw in raws]


_ONE_BY_ONE: Mapping[str, Callable[[Any], bytes]] = {"float": _float, "double": _double, "vector": _vector}
