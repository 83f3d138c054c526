"""Kinds of DDL, from their SQL, with TiCDC's names for ``ignore-event``."""

from __future__ import annotations

import re

from ticdc_spark.ddl import classify
from ticdc_spark.errors import MessageError
from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code

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


_EVENTS = {
    1: "create database",
    2: "drop database",
    3: "create table",
    4: "drop table",
    5: "add column",
    6: "drop column",
    7: "create index",
    8: "drop index",
    9: "add foreign key",
    10: "drop foreign key",
    11: "truncate table",
    12: "modify column",
    13: "rebase auto id",
    14: "rename table",
    15: "set default value",
    17: "modify table comment",
    18: "rename index",
    19: "add table partition",
    20: "drop table partition",
    21: "create view",
    22: "modify table charset and collate",
    23: "truncate table partition",
    24: "drop view",
    25: "recover table",
    26: "modify schema charset and collate",
    32: "add primary key",
    33: "drop primary key",
    41: "alter index visibility",
    42: "exchange table partition",
    61: "multi schema change",
    64: "reorganize table partition",
    65: "alter ttl info",
    67: "alter ttl remove",
    71: "alter table partitioning",
    72: "remove table partitioning",
}
"""By the numbers of TiDB's DDL jobs."""
_UNREAD = {"alter database": _EVENTS[26], "restore table": _EVENTS[25], "none": None}
"""By the first words, where they are not the kind's name."""
_FULLTEXT = re.compile(r"\badd\s+fulltext\s+index\b", re.IGNORECASE)


def ddl_event(sql: str) -> str | None:
    """The kind of a DDL; ``None``: TiCDC does not replicate it.

    SQL that cannot be read gets its kind from its first words, and an ALTER TABLE is then ``alter table``.
    """
    try:
        event = _EVENTS.get(ddl_type_code(sql))
    except MessageError:
        return _UNREAD.get(kind := classify(sql), kind)
    return "add fulltext index" if event == "create index" and _FULLTEXT.search(sql) else event
