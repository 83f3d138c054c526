"""Which DDL a changefeed sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ticdc_spark.changefeed.filter.ddl_events import DATABASE_EVENTS, ddl_event
from ticdc_spark.changefeed.filter.events import EventRule
from ticdc_spark.changefeed.filter.tables import TableRules
from ticdc_spark.ddl import ddl_tables
from ticdc_spark.errors import MessageError, UnsupportedDdl
from ticdc_spark.model import SchemaChange, TableName

Verdict: TypeAlias = Literal["send", "ignore", "discard"]
"""``ignore``: it is not sent, but its table is still followed, with the new schema. ``discard``: it changes no table
that is followed, or is of a kind that TiCDC does not replicate."""


def judge_ddl(change: SchemaChange, tables: TableRules, rules: Sequence[EventRule]) -> Verdict:
    """What to do with a DDL of one table or database.

    The rules check the old name of a RENAME. If only the new name is excluded, the RENAME is the table's last DDL that
    is sent. An EXCHANGE PARTITION is sent if the rules accept one of its two tables.

    Raises: UnsupportedDdl, as TiCDC does, if the rules accept only the new name of a RENAME.
    """
    event = ddl_event(change.query)
    if event is None:
        return "discard"
    if event in DATABASE_EVENTS:
        schema = change.schema or change.name
        if not tables.matcher.accepts_schema(schema):
            return "discard"
        return "ignore" if any(_ignores(rule, event, change, (schema, "")) for rule in rules) else "send"
    if event == "exchange table partition":
        accepted = [name for name in _exchanged(change) if not _why_left_out(tables, name, change)]
        if not accepted:
            return "discard"
        return "ignore" if any(_ignores(rule, event, change, name) for rule in rules for name in accepted) else "send"
    before, after = ddl_names(change)
    if before != after:
        is_old = not _why_left_out(tables, before, change)
        is_new = not _why_left_out(tables, after, change)
        if is_new and not is_old:
            raise UnsupportedDdl(
                f"`filter.rules` accepts only the new name of a RENAME: the old name {_shown(before)} is not accepted, "
                f"the new name {_shown(after)} is. Accept the old name too, or exclude the new one: {change.query}"
            )
        if not is_old:
            return "discard"
    elif _why_left_out(tables, after, change):
        return "discard"
    return "ignore" if any(_ignores(rule, event, change, before) for rule in rules) else "send"


def ddl_names(change: SchemaChange) -> tuple[TableName, TableName]:
    """The name of a DDL's table before and after it. They differ only for RENAME."""
    named = change.full_name
    before = change.pre_table.full_name if change.pre_table else None
    after = change.table.full_name if change.table else None
    if before is None and after is None and change.kind in ("rename table", "alter table"):
        before, after = _names_in_sql(change, named)
    before = before or after or named
    return before, after or before


def _exchanged(change: SchemaChange) -> tuple[TableName, ...]:
    """The two tables of an EXCHANGE PARTITION."""
    known = (table.full_name for table in (change.table, change.pre_table) if table is not None)
    try:
        in_sql, _ = ddl_tables(change.query, change.schema)
    except MessageError:
        in_sql = ()
    return tuple(dict.fromkeys((*known, *in_sql, change.full_name)))


def _names_in_sql(change: SchemaChange, named: TableName) -> tuple[TableName, TableName]:
    try:
        olds, news = ddl_tables(change.query, change.schema)
    except MessageError:
        return named, named
    for old, new in zip(olds, news, strict=True):
        if named in (old, new):
            return old, new
    return named, named


def _why_left_out(tables: TableRules, name: TableName, change: SchemaChange) -> str:
    return tables.why_not_named(*name) or tables.why_ineligible(change.table or change.pre_table)


def _ignores(rule: EventRule, event: str, change: SchemaChange, name: TableName) -> bool:
    schema, table = name
    applies = rule.matcher.accepts(schema, table) if table else rule.matcher.accepts_schema(schema)
    return applies and rule.ignores_ddl(event, change.query)


def _shown(name: TableName) -> str:
    return f"`{name[0]}`.`{name[1]}`"
