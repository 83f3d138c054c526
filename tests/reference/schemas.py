"""The reference's view of DDL: what a schema change does to the tables of a lake, and to a row of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ticdc_spark.ddl import apply_ddl, column_renames, ddl_tables
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import CreateTable, DatabaseDdl, DropTables, OtherDdl, RestoreTable, TruncateTable
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Column, ColumnType, Row, SchemaChange, Table, Value
from ticdc_spark.mysql import canonical_datetime, enum_index, enum_name, fsp

Name: TypeAlias = tuple[str, str]
Tables: TypeAlias = Mapping[Name, tuple[Table, Mapping[Any, Row]]]


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What a DDL does to one table: CREATE has no ``before``, DROP no ``after``, RENAME two names."""

    before: Name | None
    after: Name | None
    table: Table | None = None
    """The schema after it."""
    old: Table | None = None
    """The schema before it."""
    keep_rows: bool = True
    renames: Mapping[str, str] = {}
    """Columns: old name to new."""


def effects(change: SchemaChange, tables: Tables, dropped: Mapping[Name, Table]) -> Iterator[Effect]:
    """The effects of a DDL on tables that are live in the lake; ``dropped`` are those that may be recovered.

    Raises: UnsupportedDdl.
    """
    statement = parse(change.query)
    if isinstance(statement, OtherDdl):
        return
    if isinstance(statement, DatabaseDdl):
        if statement.what == "drop":
            schema = _database(statement.name or change.schema, tables)
            yield from [Effect(before=name, after=None) for name in tables if name[0] == schema]
        return
    if change.table is None:
        yield from _effects_of_sql(change, tables, dropped)
        return
    after = (change.table.schema, change.table.name)
    if isinstance(statement, DropTables):
        yield Effect(before=after, after=None)
    elif isinstance(statement, CreateTable | RestoreTable):
        yield Effect(before=None, after=after, table=change.table)
    elif isinstance(statement, TruncateTable):
        yield Effect(before=after, after=after, table=change.table, keep_rows=False)
    else:
        before = _name_before(change, after)
        old = tables[before][0] if before in tables else change.pre_table
        yield Effect(before=before, after=after, table=change.table, old=old, renames=column_renames(change.query))


def _database(name: str, tables: Tables) -> str:
    """A database as its tables have it: SQL may name it in another case."""
    schemas = sorted({schema for schema, _ in tables})
    return name if name in schemas else next((one for one in schemas if one.lower() == name.lower()), name)


def _as_sent(name: Name, change: SchemaChange) -> Name:
    """A new name as rows have it: the message has it beside its SQL, which may write it in another case."""
    schema = change.schema if change.schema.lower() == name[0].lower() else name[0]
    return schema, change.name if change.name.lower() == name[1].lower() else name[1]


def _effects_of_sql(change: SchemaChange, tables: Tables, dropped: Mapping[Name, Table]) -> Iterator[Effect]:
    """For a protocol that carries only SQL."""
    live = {name: table for name, (table, _) in tables.items()}
    effect = apply_ddl(live, change.schema, change.query, dropped=dropped)
    if effect.unsupported:
        raise UnsupportedDdl(f"{change.query}: {effect.unsupported}")
    for name in effect.dropped:
        yield Effect(before=name, after=None)
    for name in effect.truncated:
        yield Effect(before=name, after=name, table=live[name], keep_rows=False)
    for table in effect.created:
        new = _as_sent((table.schema, table.name), change)
        yield Effect(before=None, after=new, table=replace(table, schema=new[0], name=new[1]))
    # the message of a move into another schema names the new one, its SQL may name neither
    moves = {
        old if old in live else next(name for name in live if name[1] == old[1]): _as_sent(new, change)
        for old, new in effect.renamed
    }
    altered = {(each.before.schema, each.before.name): each for each in effect.altered}
    for name in moves | altered:
        after, renames = (altered[name].after, altered[name].renames) if name in altered else (live[name], {})
        new = moves.get(name, (after.schema, after.name))
        after = replace(after, schema=new[0], name=new[1])
        yield Effect(before=name, after=new, table=after, old=live[name], renames=renames)


def _name_before(change: SchemaChange, after: Name) -> Name:
    named_before, named_after = ddl_tables(change.query, change.schema)
    if [name for _, name in named_before] == [name for _, name in named_after]:
        # no RENAME, at most a move into another schema; the pre_table of EXCHANGE PARTITION is the other table
        return (named_before[0][0], after[1]) if named_before[0][0] != named_after[0][0] else after
    return (change.pre_table.schema, change.pre_table.name) if change.pre_table else named_before[0]


def alter(effect: Effect, row: Row, fill: Callable[[Column], Value]) -> Row:
    """A row under the schema after a DDL. A column that no row carries (virtual) stays away."""
    if effect.old is None or effect.table is None or effect.old.columns == effect.table.columns:
        return row
    types = {column.name: column.type for column in effect.old.columns}
    origin = {new.lower(): old for old, new in effect.renames.items()}
    spelt = {name.lower(): name for name in row}
    altered: dict[str, Value] = {}
    for column in effect.table.columns:
        name = origin.get(column.name.lower(), column.name)
        held = spelt.get(name.lower())
        if held is not None:
            altered[column.name] = convert(row[held], types[held], column.type)
        elif name not in types and not column.virtual:
            altered[column.name] = fill(column)
    return altered


def convert(value: Value, old: ColumnType, new: ColumnType) -> Value:
    """A value after MODIFY COLUMN, as MySQL converts it; only what the vectors and the workload need."""
    if not isinstance(value, str) or old == new:
        return value
    match new.name:
        case "decimal":
            return str(Decimal(value).quantize(Decimal(1).scaleb(-(new.decimal or 0)), ROUND_HALF_UP))
        case "datetime" | "timestamp" | "time":
            return canonical_datetime(value, fsp(new))
        case "enum" if old.name == "enum":
            return enum_index(new, enum_name(old, value))
    return value
