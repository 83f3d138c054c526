"""Reads and writes Simple messages in Avro, which all have one schema.

There is no header and no registry. The schema is a union of records, and a message is always the last of them. So every
message begins with byte 0x16, which no JSON does. In Avro's terms::

    Message         record: type enum(WATERMARK, BOOTSTRAP, DDL, DML), payload union of the records of these names
    Watermark       version int, commitTs long, buildTs long
    Bootstrap       version int, buildTs long, tableSchema TableSchema
    DDL             version int, type enum(CREATE … QUERY), sql string, commitTs long, buildTs long,
                    tableSchema and preTableSchema: null or TableSchema
    DML             version int, database string, table string, tableID long, type enum(INSERT, UPDATE, DELETE),
                    commitTs long, buildTs long, schemaVersion long, claimCheckLocation null or string,
                    handleKeyOnly null or boolean, checksum null or Checksum, data and old: null or a map
    Checksum        version int, corrupted boolean, current long, previous long
    TableSchema     database string, table string, tableID long, version long, columns array, indexes array
    ColumnSchema    name string, dataType DataType, nullable boolean, default null or string
    DataType        mysqlType string, charset string, collate string, length long, decimal null or int,
                    elements null or array of string, unsigned null or boolean, zerofill null or boolean
    IndexSchema     name string, unique boolean, primary boolean, nullable boolean, columns array of string

The content of a map is in ``simple.avro.rows``. Source: the vectors, read byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.protocols.simple.avro.rows import skip_map
from ticdc_spark.protocols.simple.avro.table import read_optional_table, read_table, write_optional_table, write_table
from ticdc_spark.protocols.simple.message import MAX_TS, WireChecksum, WireMessage
from ticdc_spark.wire.avro_binary import (
    optional,
    read_boolean,
    read_long,
    read_text,
    readable,
    write_long,
    write_text,
)

MARK = b"\x16"
"""First byte of every message: the place of its record in the union."""
_WATERMARK, _BOOTSTRAP, _DDL, _DML = MARK + b"\0\0", MARK + b"\2\2", MARK + b"\4\4", MARK + b"\6\6"
_DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
_ROW_TYPES = ("INSERT", "UPDATE", "DELETE")
_ROW_TYPE_BYTES = {name: write_long(number) for number, name in enumerate(_ROW_TYPES)}
_UNSIGNED_32 = 2**32 - 1
_read_location = optional(read_text)
_read_flag = optional(read_boolean)


def read_message(value: bytes) -> WireMessage:
    """Read a message. Its images are its raw maps, with the union's byte (0x02) before them.

    Raises: MessageError if it is no message.
    """
    read = _READERS.get(value[:3])
    if read is None:
        raise MessageError(f"Simple in Avro begins with {value[:3]!r}; expected one of {sorted(_READERS)}")
    with readable():
        message, end = read(value, 3)
    if end != len(value):
        raise MessageError(f"Simple in Avro with {len(value) - end} bytes behind its end")
    return message


def _read_watermark(data: bytes, at: int) -> tuple[WireMessage, int]:
    version, at = read_long(data, at)
    commit_ts, at = _read_ts(data, at)
    build_ts, at = read_long(data, at)
    return WireMessage(version=version, type="WATERMARK", commit_ts=commit_ts, build_ts=build_ts), at


def _read_bootstrap(data: bytes, at: int) -> tuple[WireMessage, int]:
    version, at = read_long(data, at)
    build_ts, at = read_long(data, at)
    table, at = read_table(data, at)
    return WireMessage(version=version, type="BOOTSTRAP", commit_ts=0, build_ts=build_ts, table_schema=table), at


def _read_ddl(data: bytes, at: int) -> tuple[WireMessage, int]:
    version, at = read_long(data, at)
    kind, at = _read_symbol(data, at, _DDL_TYPES)
    sql, at = read_text(data, at)
    commit_ts, at = _read_ts(data, at)
    build_ts, at = read_long(data, at)
    table, at = read_optional_table(data, at)
    pre_table, at = read_optional_table(data, at)
    message = WireMessage(
        version=version,
        type=kind,
        sql=sql,
        commit_ts=commit_ts,
        build_ts=build_ts,
        table_schema=table,
        pre_table_schema=pre_table,
    )
    return message, at


def _read_row(data: bytes, at: int) -> tuple[WireMessage, int]:
    version, at = read_long(data, at)
    database, at = read_text(data, at)
    table, at = read_text(data, at)
    table_id, at = read_long(data, at)
    kind, at = _read_symbol(data, at, _ROW_TYPES)
    commit_ts, at = _read_ts(data, at)
    build_ts, at = read_long(data, at)
    schema_version, at = _read_ts(data, at)
    location, at = _read_location(data, at)
    keys_only, at = _read_flag(data, at)
    checksum, at = _read_checksum(data, at)
    # only an update has two images: there the first must be read to find the second
    end = len(data)
    middle = end - 1 if kind == "INSERT" else at + 1 if kind == "DELETE" else _skip_image(data, at)
    if at >= end or (kind != "UPDATE" and data[middle if kind == "INSERT" else at] != 0):
        raise MessageError(f"{kind} with an image that it should not have, or a broken one")
    message = WireMessage(
        version=version,
        type=kind,
        database=database,
        table=table,
        table_id=table_id,
        commit_ts=commit_ts,
        build_ts=build_ts,
        schema_version=schema_version,
        claim_check_location=location or "",
        handle_key_only=bool(keys_only),
        checksum=checksum,
        data=_image(data[at:middle]),
        old=_image(data[middle:end]),
    )
    return message, end


_READERS: dict[bytes, Callable[[bytes, int], tuple[WireMessage, int]]] = {
    _WATERMARK: _read_watermark,
    _BOOTSTRAP: _read_bootstrap,
    _DDL: _read_ddl,
    _DML: _read_row,
}


def _skip_image(data: bytes, at: int) -> int:
    branch = data[at]
    if branch == 0:
        return at + 1
    if branch != 2:
        raise MessageError(f"an image of Avro union branch byte 0x{branch:02x}; allowed: 0x00, 0x02")
    return skip_map(data, at + 1)


def _image(raw: bytes) -> msgspec.Raw:
    return msgspec.Raw(b"" if raw == b"\0" else raw)


def _read_ts(data: bytes, at: int) -> tuple[int, int]:
    ts, at = read_long(data, at)
    if ts < 0:
        raise MessageError(f"a timestamp or version of {ts}; allowed: 0 … {MAX_TS}")
    return ts, at


def _read_symbol(data: bytes, at: int, symbols: tuple[str, ...]) -> tuple[Any, int]:
    symbol, at = read_long(data, at)
    if not 0 <= symbol < len(symbols):
        raise MessageError(f"field `type` is number {symbol}; allowed: 0 … {len(symbols) - 1}")
    return symbols[symbol], at


@optional
def _read_checksum(data: bytes, at: int) -> tuple[WireChecksum, int]:
    version, at = read_long(data, at)
    corrupted, at = read_boolean(data, at)
    current, at = read_long(data, at)
    previous, at = read_long(data, at)
    if not (0 <= current <= _UNSIGNED_32 and 0 <= previous <= _UNSIGNED_32):
        raise MessageError(f"a checksum of {current} and {previous}; allowed: 0 … {_UNSIGNED_32}")
    return WireChecksum(version, corrupted, current, previous), at


def write_message(message: WireMessage) -> bytes:
    """Write a message. Its images are from ``simple.avro.rows.row_writer``."""
    version, build_ts = write_long(message.version), _write_ts(message.build_ts or 0)
    commit_ts = _write_ts(message.commit_ts)
    if message.type == "WATERMARK":
        return _WATERMARK + version + commit_ts + build_ts
    if message.type == "BOOTSTRAP":
        assert message.table_schema is not None
        return _BOOTSTRAP + version + build_ts + write_table(message.table_schema)
    if message.type in _DDL_TYPES:
        kind = write_long(_DDL_TYPES.index(message.type))
        tables = write_optional_table(message.table_schema) + write_optional_table(message.pre_table_schema)
        return _DDL + version + kind + write_text(message.sql) + commit_ts + build_ts + tables
    location = message.claim_check_location
    return b"".join(
        (
            _DML,
            version,
            _write_names(message.database, message.table, message.table_id),
            _ROW_TYPE_BYTES[message.type],
            commit_ts,
            build_ts,
            _write_ts(message.schema_version),
            b"\2" + write_text(location) if location else b"\0",
            b"\2\1" if message.handle_key_only else b"\0",
            _write_checksum(message.checksum),
            bytes(message.data) or b"\0",
            bytes(message.old) or b"\0",
        )
    )


# rows of one transaction or millisecond are consecutive, and rows of a table have one version
_write_ts = lru_cache(maxsize=4096)(write_long)


@lru_cache(maxsize=4096)
def _write_names(database: str, table: str, table_id: int) -> bytes:
    return write_text(database) + write_text(table) + write_long(table_id)


def _write_checksum(sums: WireChecksum | None) -> bytes:
    if sums is None:
        return b"\0"
    numbers = write_long(sums.current) + write_long(sums.previous)
    return b"\2" + write_long(sums.version) + (b"\1" if sums.corrupted else b"\0") + numbers
