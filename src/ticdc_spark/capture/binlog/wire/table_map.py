"""TABLE_MAP events: what the rows of a table look like, with the names and character sets of its columns.

Names, signs, character sets and members need ``binlog_row_metadata=FULL``, which is required.
"""

from __future__ import annotations

from typing import NamedTuple

from ticdc_spark.capture.binlog.wire.parts import bits, packed, packed_bytes, uint
from ticdc_spark.errors import MessageError
from ticdc_spark.model import TableName


class Wire(NamedTuple):
    """How the cells of a column are written."""

    code: int
    """MySQL's type. An ENUM or SET, which the binlog disguises as CHAR, has its own type."""
    meta: int
    """Length, precision and scale, fractional digits or bytes of length, by the type."""
    unsigned: bool | None = None
    """``None``: unknown."""
    collation: int | None = None
    """Collation id of a text, ENUM or SET; 63 for bytes."""
    members: tuple[bytes, ...] = ()


class TableMap(NamedTuple):
    """A table in the format of the row events that follow."""

    schema: str
    name: str
    columns: tuple[Wire, ...]
    names: tuple[str, ...]
    """Empty without full metadata."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 7, 8, 9
DATE, TIME, DATETIME, YEAR, VARCHAR, BIT = 10, 11, 12, 13, 15, 16
TIMESTAMP2, DATETIME2, TIME2 = 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
VECTOR, JSON, DECIMAL, ENUM, SET = 242, 245, 246, 247, 248
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = 249, 250, 251, 252, 253, 254, 255

_NUMERIC = frozenset((TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24, YEAR, DECIMAL))
_TEXT = frozenset((VARCHAR, VARCHAR_COMPRESSED, BLOB_COMPRESSED, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB))
_TEXT |= {VAR_STRING, STRING, VECTOR}  # a VECTOR has a collation, that of bytes
_META_SIZES = {FLOAT: 1, DOUBLE: 1, TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1, BLOB: 1, GEOMETRY: 1, JSON: 1, VECTOR: 1}
_META_SIZES |= {TINY_BLOB: 1, MEDIUM_BLOB: 1, LONG_BLOB: 1, BLOB_COMPRESSED: 1}
_META_SIZES |= {VARCHAR: 2, VAR_STRING: 2, STRING: 2, BIT: 2, DECIMAL: 2, ENUM: 2, SET: 2, VARCHAR_COMPRESSED: 2}

# the fields of the optional metadata
_SIGNS, _DEFAULT_CHARSET, _CHARSETS, _NAMES, _SET_MEMBERS, _ENUM_MEMBERS = 1, 2, 3, 4, 5, 6
_MEMBER_DEFAULT_CHARSET, _MEMBER_CHARSETS = 10, 11


def table_map(body: bytes, *, mariadb: bool) -> tuple[int, TableMap]:
    """The table's id, and the table.

    Raises: MessageError for what cannot be read.
    """
    table_id = uint(body, 0, 6)
    size = uint(body, 8, 1)
    schema, at = body[9 : 9 + size].decode(), 10 + size
    size = uint(body, at, 1)
    name, at = body[at + 1 : at + 1 + size].decode(), at + 2 + size
    count, at = packed(body, at)
    codes, at = body[at : at + count], at + count
    meta, at = packed_bytes(body, at)
    columns = _with_meta(codes, meta)
    fields = _fields(body, at + (count + 7) // 8)
    names = _strings(fields.get(_NAMES, b""))
    if names and len(names) != count:
        raise MessageError(f"binlog: the table map of `{schema}`.`{name}` has {len(names)} names for {count} columns")
    columns = _described(columns, fields, mariadb)
    return table_id, TableMap(schema, name, columns, tuple(text.decode() for text in names))


def _with_meta(codes: bytes, meta: bytes) -> tuple[Wire, ...]:
    columns, at = [], 0
    for code in codes:
        size = _META_SIZES.get(code, 0)
        value = uint(meta, at, size)
        if code == STRING:
            code, value = _string(meta[at], meta[at + 1])
        elif code == BIT:
            value = meta[at + 1] * 8 + meta[at]
        elif code == DECIMAL:
            value = meta[at] << 8 | meta[at + 1]
        columns.append(Wire(code, value))
        at += size
    return tuple(columns)


def _string(first: int, second: int) -> tuple[int, int]:
    """CHAR, or an ENUM or SET disguised as CHAR. For a CHAR above 255 bytes, two bits of the length are in the type."""
    if first & 0x30 != 0x30:
        return first | 0x30, second | ((first & 0x30) ^ 0x30) << 4
    return first, second


def _fields(body: bytes, at: int) -> dict[int, bytes]:
    fields = {}
    while at < len(body):
        field = body[at]
        fields[field], at = packed_bytes(body, at + 1)
    return fields


def _strings(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        text, at = packed_bytes(data, at)
        found.append(text)
    return found


def _member_lists(data: bytes) -> list[tuple[bytes, ...]]:
    found, at = [], 0
    while at < len(data):
        count, at = packed(data, at)
        members = []
        for _ in range(count):
            member, at = packed_bytes(data, at)
            members.append(member)
        found.append(tuple(members))
    return found


def _described(columns: tuple[Wire, ...], fields: dict[int, bytes], mariadb: bool) -> tuple[Wire, ...]:
    """The columns with their signs, collations and members. MariaDB counts geometries among the texts."""
    described = list(columns)
    numeric = [at for at, column in enumerate(columns) if column.code in _NUMERIC]
    if _SIGNS in fields:
        reversed_bits = bytes(int(f"{byte:08b}"[::-1], 2) for byte in fields[_SIGNS])
        for at, unsigned in zip(numeric, bits(reversed_bits, 0, len(numeric)), strict=True):
            if columns[at].code == YEAR and not mariadb:
                break  # whether MySQL counts YEAR as a number depends on its version
            described[at] = described[at]._replace(unsigned=unsigned)
    texts = [at for at, column in enumerate(columns) if column.code in _TEXT or (mariadb and column.code == GEOMETRY)]
    chosen = [at for at, column in enumerate(columns) if column.code in (ENUM, SET)]
    for places, default, single in (
        (texts, _DEFAULT_CHARSET, _CHARSETS),
        (chosen, _MEMBER_DEFAULT_CHARSET, _MEMBER_CHARSETS),
    ):
        for at, collation in zip(places, _collations(fields, default, single, len(places)), strict=False):
            described[at] = described[at]._replace(collation=collation)
    for code, field in ((ENUM, _ENUM_MEMBERS), (SET, _SET_MEMBERS)):
        places = [at for at in chosen if columns[at].code == code]
        for at, members in zip(places, _member_lists(fields.get(field, b"")), strict=False):
            described[at] = described[at]._replace(members=members)
    return tuple(described)


def _collations(fields: dict[int, bytes], default: int, single: int, count: int) -> list[int]:
    """One collation a column: all of them, or a default with exceptions."""
    if single in fields:
        return _numbers(fields[single])
    if default not in fields:
        return []
    first, *pairs = _numbers(fields[default])
    exceptions = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return [exceptions.get(at, first) for at in range(count)]


def _numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, at = packed(data, at)
        found.append(number)
    return found
