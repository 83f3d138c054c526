"""Kinds of DDL, from their SQL, with TiCDC's names for ``ignore-event``."""

from __future__ import annotations

import re
from collections.abc import Callable

from ticdc_spark.ddl import classify
from ticdc_spark.ddl.job_parts import job_parts, view_event
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import (
    AddColumn,
    AddIndex,
    Alteration,
    AlterTable,
    ChangeColumn,
    Charset,
    DropColumn,
    DropIndex,
    MoveRows,
    NoEffect,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
)
from ticdc_spark.errors import MessageError

DML_EVENTS = ("insert", "update", "delete")
TABLE_EVENTS = (
    "rename table",
    "modify table comment",
    "modify table charset and collate",
    "add table partition",
    "drop table partition",
    "truncate table partition",
    "exchange table partition",
    "reorganize table partition",
    "alter table partitioning",
    "remove table partitioning",
    "add column",
    "drop column",
    "modify column",
    "set default value",
    "rebase auto id",
    "add primary key",
    "drop primary key",
    "create index",
    "drop index",
    "rename index",
    "alter index visibility",
    "alter ttl info",
    "alter ttl remove",
    "multi schema change",
)
"""Events that ``alter table`` also means."""
DDL_EVENTS = (
    *TABLE_EVENTS,
    "create database",
    "drop database",
    "modify schema charset and collate",
    "create table",
    "drop table",
    "truncate table",
    "recover table",
    "create view",
    "drop view",
    "add foreign key",
    "drop foreign key",
    "add fulltext index",
    "create hybrid index",
)
SYNONYMS = {"create schema": "create database", "drop schema": "drop database"}
EVENTS = ("all dml", "all ddl", *DML_EVENTS, "alter table", *SYNONYMS, *DDL_EVENTS)
"""All names that ``ignore-event`` accepts."""
DATABASE_EVENTS = frozenset(("create database", "drop database", "modify schema charset and collate"))


def ddl_event(sql: str) -> str | None:
    """The kind of a DDL; ``None``: TiCDC does not replicate it.

    An ALTER TABLE with several parts is ``multi schema change``, as in TiDB. SQL that cannot be read gets its kind from
    its first words, and an ALTER TABLE is then ``alter table``.
    """
    kind = classify(sql)
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    if kind == "alter table":
        event = _alter_event(sql)
        return "add fulltext index" if event == "create index" and _FULLTEXT.search(sql) else event
    return view_event(sql) or None


def _alter_event(sql: str) -> str | None:
    try:
        statement = parse(sql)
    except MessageError:
        return "alter table"
    if not isinstance(statement, AlterTable):
        return "alter table"
    if not statement.parts:  # TTL_ENABLE as TiCDC sends it
        return "alter ttl info"
    parts = job_parts(statement)
    events = [event for event in map(_part_event, parts) if event is not None]
    if not events:
        return None
    return "multi schema change" if len(parts) > 1 else events[0]


def _part_event(part: Alteration) -> str | None:
    for kind, event in _BY_PART:
        if isinstance(part, kind):
            return event(part) if callable(event) else event
    return None


def _index_event(part: Alteration) -> str:
    assert isinstance(part, AddIndex)
    return "add primary key" if part.index.primary else "create index"


def _drop_index_event(part: Alteration) -> str | None:
    assert isinstance(part, DropIndex)
    if part.unique:  # DROP CONSTRAINT, of a CHECK in TiDB
        return None
    return "drop index" if part.name else "drop primary key"


def _rows_event(part: Alteration) -> str:
    assert isinstance(part, MoveRows)
    what = part.what.lower()
    for begins, event in _PARTITIONS.items():
        if what.startswith(begins):
            return event
    return "reorganize table partition"


def _other_event(part: Alteration) -> str | None:
    assert isinstance(part, NoEffect)
    what = " ".join(part.what.lower().split())
    return next((event for pattern, event in _OTHERS if re.match(pattern, what)), None)


_BY_KIND = {
    "create database": "create database",
    "drop database": "drop database",
    "alter database": "modify schema charset and collate",
    "create table": "create table",
    "drop table": "drop table",
    "truncate table": "truncate table",
    "rename table": "rename table",
    "restore table": "recover table",
}
_BY_PART: tuple[tuple[type, str | Callable[[Alteration], str | None]], ...] = (
    (AddColumn, "add column"),
    (DropColumn, "drop column"),
    (ChangeColumn, "modify column"),
    (RenameColumn, "modify column"),
    (SetDefault, "set default value"),
    (AddIndex, _index_event),
    (DropIndex, _drop_index_event),
    (RenameIndex, "rename index"),
    (RenameTo, "rename table"),
    (Charset, "modify table charset and collate"),
    (MoveRows, _rows_event),
    (NoEffect, _other_event),
)
_FULLTEXT = re.compile(r"\badd\s+fulltext\s+index\b", re.IGNORECASE)
_PARTITIONS = {
    "add partition partitions": "reorganize table partition",
    "exchange": "exchange table partition",
    "truncate": "truncate table partition",
    "drop partition": "drop table partition",
    "add partition": "add table partition",
    "remove partitioning": "remove table partitioning",
    "partition": "alter table partitioning",
    "first": "drop table partition",
    "last": "add table partition",
}
_OTHERS = (
    (r"comment\b", "modify table comment"),
    (r"add partition\b", "add table partition"),
    (r"alter index\b", "alter index visibility"),
    (r"auto_increment\b", "rebase auto id"),
    (r"(ttl|ttl_enable|ttl_job_interval)\b", "alter ttl info"),
    (r"remove ttl\b", "alter ttl remove"),
    (r"drop foreign key\b", "drop foreign key"),
    (r"add foreign key\b", "add foreign key"),
)
