"""The Open protocol's type codes of DDL, from SQL: TiDB's numbers of its DDL jobs."""

from __future__ import annotations

import re

from ticdc_spark.ddl import classify
from ticdc_spark.ddl.job_parts import job_parts, view_event
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import (
    AddColumn,
    AddForeignKey,
    AddIndex,
    Alteration,
    AlterTable,
    ChangeColumn,
    Charset,
    CreateTable,
    DatabaseDdl,
    DropColumn,
    DropForeignKey,
    DropIndex,
    DropTables,
    MoveRows,
    NoEffect,
    OtherDdl,
    RenameColumn,
    RenameIndex,
    RenameTables,
    RenameTo,
    RestoreTable,
    SetDefault,
    Statement,
    TableComment,
    TruncateTable,
    Unsupported,
)

_MULTI_SCHEMA_CHANGE = 61
_TTL = 65
_REORGANIZE = 64
_UNREAD = {"create table": 3, "restore table": 25}
"""Statements that are known, but not what they do."""
_STATEMENTS: dict[type[Statement], int] = {
    CreateTable: 3,
    DropTables: 4,
    TruncateTable: 11,
    RenameTables: 14,
    RestoreTable: 25,
}
_VIEWS = {"create view": 21, "drop view": 24, "": 0}
_DATABASE = {"create": 1, "drop": 2, "alter": 26}
_PARTS: dict[type[Alteration], int] = {
    AddColumn: 5,
    DropColumn: 6,
    AddForeignKey: 9,
    DropForeignKey: 10,
    ChangeColumn: 12,
    RenameColumn: 12,
    RenameTo: 14,
    SetDefault: 15,
    RenameIndex: 18,
    Charset: 22,
    TableComment: 17,
}
# First words of a part, in any case. The document's list ends at 36; the rest are TiDB's.
_WORDS = {
    "AUTO_INCREMENT": 13,
    "FORCE AUTO_INCREMENT": 13,
    "SHARD_ROW_ID_BITS": 16,
    "ADD PARTITION": 19,
    "DROP PARTITION": 20,
    "TRUNCATE PARTITION": 23,
    "ALTER INDEX": 41,
    "EXCHANGE PARTITION": 42,
    "FIRST PARTITION": 20,
    "LAST PARTITION": 19,
    "MERGE FIRST PARTITION": _REORGANIZE,
    "SPLIT MAXVALUE PARTITION": _REORGANIZE,
    "REORGANIZE PARTITION": _REORGANIZE,
    "COALESCE PARTITION": _REORGANIZE,
    "ADD PARTITION PARTITIONS": _REORGANIZE,
    "TTL": _TTL,
    "TTL_ENABLE": _TTL,
    "TTL_JOB_INTERVAL": _TTL,
    "REMOVE TTL": 67,
    "PARTITION BY": 71,
    "REMOVE PARTITIONING": 72,
}


def ddl_type_code(sql: str) -> int:
    """The type code of a DDL; 0 if it has none here.

    Raises: MessageError if the SQL cannot be read.
    """
    statement = parse(sql)
    match statement:
        case DatabaseDdl(what=what):
            return _DATABASE[what]
        case OtherDdl():
            return _VIEWS[view_event(sql)]
        case AlterTable(parts=()):  # TTL_ENABLE as TiCDC sends it
            return _TTL
        case AlterTable():
            codes = [_part(part) for part in job_parts(statement)]
            return _MULTI_SCHEMA_CHANGE if len(codes) > 1 and any(codes) else sum(codes)
        case Unsupported():
            return _UNREAD.get(classify(sql), 0)
    return _STATEMENTS.get(type(statement), 0)


def _part(part: Alteration) -> int:
    match part:
        case AddIndex(index=index):
            return 32 if index.primary else 7
        case DropIndex(unique=True):  # DROP CONSTRAINT, of a CHECK in TiDB
            return 0
        case DropIndex(name=name):
            return 8 if name else 33
        case MoveRows(what=what) | NoEffect(what=what):
            text = " ".join(what.upper().split())
            found = [words for words in _WORDS if re.match(rf"{words}(?![\w$])", text)]
            if not found:  # rows that move in a way that TiDB does not have, such as IMPORT PARTITION
                return _REORGANIZE * isinstance(part, MoveRows)
            return _WORDS[max(found, key=len)]
    return _PARTS[type(part)]
