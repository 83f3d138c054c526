"""Events of a binlog, and the small ones: GTIDs, queries, heads of row events."""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

from ticdc_spark.capture.binlog.wire.parts import packed, uint
from ticdc_spark.errors import MessageError


class Kind(IntEnum):
    """The types of events that are read. MariaDB's own begin at 160."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_0 = 20
    UPDATE_ROWS_0 = 21
    DELETE_ROWS_0 = 22
    WRITE_ROWS_1 = 23
    UPDATE_ROWS_1 = 24
    DELETE_ROWS_1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    WRITE_ROWS_2 = 30
    UPDATE_ROWS_2 = 31
    DELETE_ROWS_2 = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_2 = 41
    GTID_TAGGED = 42
    MARIADB_GTID = 162
    MARIADB_START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_1 = 166
    UPDATE_ROWS_COMPRESSED_1 = 167
    DELETE_ROWS_COMPRESSED_1 = 168
    WRITE_ROWS_COMPRESSED_2 = 169
    UPDATE_ROWS_COMPRESSED_2 = 170
    DELETE_ROWS_COMPRESSED_2 = 171


HEADER = struct.Struct("<IBIIIH")
"""Timestamp, kind, server_id, size, end, flags."""


class Event(NamedTuple):
    """An event without its header and checksum."""

    kind: int
    timestamp: int
    """Seconds since the epoch; 0 for artificial events of this connection."""
    end: int
    """Offset of its end in the file; 0 inside a transaction of MariaDB, for artificial events, and for a ROTATE."""
    size: int
    """Size in the file, with header and checksum."""
    body: bytes


class Gtid(NamedTuple):
    """The begin of a group of events."""

    text: str
    """``domain-server-sequence`` of MariaDB, ``uuid:number`` or ``uuid:tag:number`` of MySQL, empty for one of MySQL
    without GTIDs."""
    standalone: bool
    """Whether it is one statement, without the end of a transaction (MariaDB). MySQL does not say."""
    timestamp_us: int
    """When it was committed, in microseconds since the epoch; 0: unknown (MariaDB, MySQL before 8.0)."""
    alter: str = ""
    """``start`` or ``rollback``: MariaDB logs an ALTER in two phases, and these have no effect."""


_STANDALONE, _GROUP_COMMIT, _XA = 1, 2, 64 | 128
_START_ALTER, _COMMIT_ALTER, _ROLLBACK_ALTER = 2, 4, 8


def mariadb_gtid(event: Event, server_id: int) -> Gtid:
    """Read a GTID event of MariaDB. ``server_id``: from the event's header."""
    body = event.body
    sequence, domain, flags = uint(body, 0, 8), uint(body, 8, 4), uint(body, 12, 1)
    at = 13 + (8 if flags & _GROUP_COMMIT else 0)
    if flags & _XA:
        at += 6 + uint(body, at + 4, 1) + uint(body, at + 5, 1)
    more = body[at] if at < len(body) else 0
    alter = "start" if more & _START_ALTER else "rollback" if more & _ROLLBACK_ALTER else ""
    return Gtid(f"{domain}-{server_id}-{sequence}", bool(flags & _STANDALONE), 0, alter)


def mysql_gtid(event: Event) -> Gtid:
    """Read a GTID event of MySQL, also an anonymous one."""
    body = event.body
    text = ""
    if event.kind == Kind.GTID:
        uuid = body[1:17].hex()
        text = f"{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}:{uint(body, 17, 8)}"
    # flags 1, uuid 16, number 8, a byte that announces two logical clocks of 8, then the commit's time: 7 bytes, whose
    # highest bit announces the original time, since 8.0.1
    committed = uint(body, 42, 7) & ~(1 << 55) if len(body) >= 49 and body[25] == 2 else 0
    return Gtid(text, False, committed)


class Query(NamedTuple):
    """A statement."""

    schema: str
    """The default database; empty for none."""
    sql: bytes
    charset: int | None
    """Collation id of the client's character set, which the statement has."""
    database_charset: int | None
    """Collation id of the default database."""
    sql_mode: int
    error: int = 0
    """Error code, if it failed after it had changed something; 0: it did not fail."""


def server_version(event: Event) -> str:
    """The version of the server that wrote a file, from its FORMAT_DESCRIPTION event; ``""``: it says none."""
    return event.body[2:52].rstrip(b"\0").decode("ascii", "replace")


ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
# The fixed sizes of status variables by code, in MySQL and MariaDB. Variables of other forms are read below.
_SIZES = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1}
_SIZES |= {128: 3, 129: 8}


def query(event: Event) -> Query:
    """Read a QUERY event, or a LOAD DATA event. A compressed text is unpacked."""
    body = event.body
    schema_size, status_size = uint(body, 8, 1), uint(body, 11, 2)
    at = 26 if event.kind == Kind.EXECUTE_LOAD_QUERY else 13
    status, at = body[at : at + status_size], at + status_size
    schema = body[at : at + schema_size].decode("utf-8", "replace")
    sql = body[at + schema_size + 1 :]
    if event.kind == Kind.QUERY_COMPRESSED:
        sql = inflate(sql)
    mode, client, database = _status(status)
    return Query(schema, sql, client, database, mode, uint(body, 9, 2))


def _status(status: bytes) -> tuple[int, int | None, int | None]:
    """sql_mode, the client's collation and the database's."""
    mode, client, database, at = 0, None, None, 0
    while at < len(status):
        code = status[at]
        at += 1
        if code == 1:
            mode = uint(status, at, 8)
        elif code == 4:
            client = uint(status, at, 2)
        elif code == 8:
            database = uint(status, at, 2)
        size = _status_size(status, code, at)
        if size is None:
            break  # unknown ones follow: the needed ones have low codes, which come first
        at += size
    return mode, client, database


def _status_size(status: bytes, code: int, at: int) -> int | None:
    if code in _SIZES:
        return _SIZES[code]
    if code == 2:  # a zero-terminated name
        return 2 + uint(status, at, 1)
    if code in (5, 6):
        return 1 + uint(status, at, 1)
    if code == 11:
        user = 1 + uint(status, at, 1)
        return user + 1 + uint(status, at + user, 1)
    if code == 12:
        count, end = uint(status, at, 1), at + 1
        for _ in range(count if count < 254 else 0):  # 254: too many to name
            end = status.index(0, end) + 1
        return end - at
    if code == 131:
        return 1 + 4 * uint(status, at, 1)
    return None


def xa_prepare(event: Event) -> tuple[str, bool]:
    """The transaction's name as in XA COMMIT, and whether it is committed at once."""
    body = event.body
    form, first, second = uint(body, 1, 4), uint(body, 5, 4), uint(body, 9, 4)
    global_id, branch = body[13 : 13 + first], body[13 + first : 13 + first + second]
    return f"X'{global_id.hex()}',X'{branch.hex()}',{form}", bool(body[0])


def inflate(data: bytes) -> bytes:
    """Unpack MariaDB's compression: a byte with the size of the length, the length, zlib."""
    head = uint(data, 0, 1)
    if head & 0xF0 != 0x80:
        raise MessageError(f"compressed binlog event begins with {head:#x}; zlib (0x80) is known")
    size = head & 7
    length = int.from_bytes(data[1 : 1 + size], "big")
    try:
        unpacked = zlib.decompress(data[1 + size :], bufsize=length)
    except zlib.error as error:
        raise MessageError(f"compressed binlog event cannot be unpacked: {error}") from error
    if len(unpacked) != length:
        raise MessageError(f"compressed binlog event has {len(unpacked)} bytes instead of {length}")
    return unpacked


_WRITE = {Kind.WRITE_ROWS_1, Kind.WRITE_ROWS_2, Kind.WRITE_ROWS_COMPRESSED_1, Kind.WRITE_ROWS_COMPRESSED_2}
_UPDATE = {Kind.UPDATE_ROWS_1, Kind.UPDATE_ROWS_2, Kind.UPDATE_ROWS_COMPRESSED_1, Kind.UPDATE_ROWS_COMPRESSED_2}
_DELETE = {Kind.DELETE_ROWS_1, Kind.DELETE_ROWS_2, Kind.DELETE_ROWS_COMPRESSED_1, Kind.DELETE_ROWS_COMPRESSED_2}
ROW_KINDS = {
    **{int(kind): "insert" for kind in _WRITE},
    **{int(kind): "update" for kind in _UPDATE},
    **{int(kind): "delete" for kind in _DELETE},
}
"""The kinds of row events that are read, and what they do."""
_WITH_EXTRA = {Kind.WRITE_ROWS_2, Kind.UPDATE_ROWS_2, Kind.DELETE_ROWS_2}
_WITH_EXTRA |= {Kind.WRITE_ROWS_COMPRESSED_2, Kind.UPDATE_ROWS_COMPRESSED_2, Kind.DELETE_ROWS_COMPRESSED_2}
_COMPRESSED = range(Kind.WRITE_ROWS_COMPRESSED_1, Kind.DELETE_ROWS_COMPRESSED_2 + 1)


class RowsHead(NamedTuple):
    """The head of a row event, before its rows."""

    table_id: int
    columns: int
    whole: bool
    """Whether all columns are in the images before and after."""
    rows: bytes


def table_id_of(event: Event) -> int:
    """The table id of a row event."""
    return int.from_bytes(event.body[:6], "little")


def rows_head(event: Event) -> RowsHead:
    """Read a row event up to its rows."""
    body, kind = event.body, event.kind
    at = 8
    if kind in _WITH_EXTRA:
        at += uint(body, 8, 2)  # the length counts itself
    columns, at = packed(body, at)
    size = (columns + 7) // 8
    full = (1 << columns) - 1
    whole = uint(body, at, size) & full == full
    at += size
    if ROW_KINDS[kind] == "update":
        whole = whole and uint(body, at, size) & full == full
        at += size
    rows = body[at:]
    return RowsHead(table_id_of(event), columns, whole, inflate(rows) if kind in _COMPRESSED else rows)
