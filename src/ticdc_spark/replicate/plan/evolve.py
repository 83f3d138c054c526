"""Evolve: what a DDL does to the lake. Pure: from a DDL and the tables as they are, to actions.

The schemas before and after come from the message where it carries them; the SQL tells what two schemas cannot: that
a column was renamed and not replaced, and that rows move without row messages.
"""

from collections.abc import Mapping
from typing import TypeAlias, assert_never

import msgspec

from ticdc_spark.ddl import column_renames
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import (
    AlterTable,
    CreateTable,
    DatabaseDdl,
    DropTables,
    MoveRows,
    OtherDdl,
    RenameTables,
    RenameTo,
    RestoreTable,
    Statement,
    TruncateTable,
    Unsupported,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, Table
from ticdc_spark.mysql import NO_CONSTANT, default_value
from ticdc_spark.sinks.base import ColumnChanges, TableName
from ticdc_spark.spark.types import LakeColumn

NAMED_OTHERWISE = "named otherwise"
"""Kind of a DDL whose names are not those of the rows."""
ENTERS, LEAVES = "enters the filter", "leaves the filter"
"""Kinds of a RENAME by which a table comes into what ``tables`` under [job] names, or goes out of it."""


class Create(msgspec.Struct, frozen=True):
    """CREATE TABLE."""

    table: Table


class Drop(msgspec.Struct, frozen=True):
    """DROP TABLE."""

    names: tuple[TableName, ...]


class Truncate(msgspec.Struct, frozen=True):
    """TRUNCATE TABLE: the same columns, no rows."""

    table: Table


class Alter(msgspec.Struct, frozen=True):
    """ALTER TABLE, and a RENAME of the table when ``old`` is another name."""

    old: TableName
    table: Table
    renames: dict[str, str]
    """Columns, old name to new."""


class Enter(msgspec.Struct, frozen=True):
    """A table comes under a name that the job wants, with rows that the job has never seen."""

    table: Table


class Leave(msgspec.Struct, frozen=True):
    """A table goes on under a name that the job does not want."""

    name: TableName


class CreateDatabase(msgspec.Struct, frozen=True):
    """CREATE DATABASE."""

    name: str


class DropDatabase(msgspec.Struct, frozen=True):
    """DROP DATABASE: drops the tables that this job owns there."""

    name: str


class Nothing(msgspec.Struct, frozen=True):
    """No effect on the lake: index, comment, view, TTL …"""

    why: str


class Refused(msgspec.Struct, frozen=True):
    """A DDL that this version does not replay."""

    why: str


Action: TypeAlias = Create | Drop | Truncate | Alter | Enter | Leave | CreateDatabase | DropDatabase | Nothing | Refused


def action(change: SchemaChange) -> Action:
    """Say what a DDL does to the lake."""
    if change.kind == NAMED_OTHERWISE:
        return Refused("it has names with characters that Avro does not allow, which rows have in another form")
    try:
        statement = parse(change.query)
    except MessageError as error:
        return Refused(f"the SQL cannot be read: {error}")
    return _of(statement, change)


def _of(statement: Statement, change: SchemaChange) -> Action:
    match statement:
        case DatabaseDdl(what="create"):
            return CreateDatabase(statement.name or change.schema)
        case DatabaseDdl(what="drop"):
            return DropDatabase(statement.name or change.schema)
        case DatabaseDdl() | OtherDdl():
            return Nothing(statement.what)
        case CreateTable():
            return Refused("no schema comes with it") if change.table is None else Create(change.table)
        case DropTables():
            gone = change.pre_table or change.table
            if gone is not None:
                return Drop(((gone.schema, gone.name),))
            return Drop(tuple((schema or change.schema, name) for schema, name in statement.names))
        case TruncateTable():
            return Refused("no schema comes with it") if change.table is None else Truncate(change.table)
        case RestoreTable():
            return Refused("rows come back without row messages")
        case RenameTables() | AlterTable():
            return _at_the_filter(_alter(statement, change), change.kind)
        case Unsupported(reason):
            return Refused(reason)
        case _:
            assert_never(statement)


def _at_the_filter(act: Action, kind: str) -> Action:
    """What a RENAME is to a job that wants only one of its names."""
    if isinstance(act, Alter) and kind == ENTERS:
        return Enter(act.table)
    return Leave(act.old) if isinstance(act, Alter) and kind == LEAVES else act


def _alter(statement: RenameTables | AlterTable, change: SchemaChange) -> Action:
    if change.table is None:
        return Refused("no schema comes with it")
    old = (change.table.schema, change.table.name)
    if isinstance(statement, AlterTable):
        moves = [part.what for part in statement.parts if isinstance(part, MoveRows) and not part.lossless]
        if moves:
            return Refused(f"{moves[0]} changes rows without row messages")
        if not any(isinstance(part, RenameTo) for part in statement.parts):
            return Alter(old, change.table, column_renames(change.query))
    if change.pre_table is not None:
        old = (change.pre_table.schema, change.pre_table.name)
    else:
        schema, name = statement.name if isinstance(statement, AlterTable) else statement.pairs[0][0]
        old = (schema or change.schema, name)
    return Alter(old, change.table, column_renames(change.query))


def names(act: Action, tables: Mapping[TableName, object]) -> tuple[TableName, ...]:
    """The tables whose timelines an action binds together; ``tables`` are all that are known."""
    match act:
        case Create(table) | Truncate(table) | Enter(table):
            return ((table.schema, table.name),)
        case Drop(gone):
            return gone
        case Leave(name):
            return (name,)
        case Alter():
            return tuple(dict.fromkeys((act.old, (act.table.schema, act.table.name))))
        case DropDatabase(schema):
            return tuple(name for name in tables if name[0] == schema)
        case CreateDatabase() | Nothing() | Refused():
            return ()
        case _:
            assert_never(act)


class Rewrite(msgspec.Struct, frozen=True):
    """A type change that the lake cannot promote: every value is converted, as MySQL converts."""

    column: LakeColumn
    old_type: str
    expression: str
    """Spark SQL over ``{old}``, the column's old values."""


class Fill(msgspec.Struct, frozen=True):
    """A new column whose old rows are not NULL."""

    column: LakeColumn
    value: str | bytes | None
    """Canonical; ``None`` with ``moment``: the DDL's own time."""
    moment: bool = False


class Evolution(msgspec.Struct, frozen=True):
    """How one table gets from its live columns to the wanted ones."""

    changes: ColumnChanges
    fills: tuple[Fill, ...]
    rewrites: tuple[Rewrite, ...]


def evolution(live: Mapping[str, str], wanted: tuple[LakeColumn, ...], renames: Mapping[str, str]) -> Evolution:
    """Compare the live columns of a table (name to Spark type) with the wanted ones.

    ``renames``: lake names, old to new.
    """
    folded = {old.casefold(): new for old, new in renames.items()}
    after = {column.name.casefold(): column for column in wanted}
    rename = [
        (name, after[folded[name.casefold()].casefold()].name)
        for name in live
        if name.casefold() in folded and folded[name.casefold()].casefold() in after
    ]
    moved = {old for old, _ in rename}
    taken = {new.casefold() for _, new in rename}
    # A column whose name another one takes is dropped by the same statement.
    drop = tuple(
        name for name in live if name not in moved and (name.casefold() not in after or name.casefold() in taken)
    )
    kept = {name: kind for name, kind in live.items() if name not in moved and name not in drop}
    known = {new.casefold(): live[old] for old, new in rename}
    known |= {name.casefold(): kind for name, kind in kept.items()}
    # A change of case alone is a rename too.
    rename += [(name, after[name.casefold()].name) for name in kept if after[name.casefold()].name != name]
    add = tuple(column for column in wanted if column.name.casefold() not in known)
    changed = [column for column in wanted if known.get(column.name.casefold(), column.type.spark) != column.type.spark]
    promote = tuple(column for column in changed if _promotes(known[column.name.casefold()], column.type.spark))
    rewrites = tuple(
        Rewrite(column, known[column.name.casefold()], _conversion(known[column.name.casefold()], column))
        for column in changed
        if column not in promote
    )
    fills = tuple(fill for column in add if (fill := _fill(column)) is not None)
    return Evolution(ColumnChanges(rename=tuple(rename), add=add, drop=drop, promote=promote), fills, rewrites)


def _fill(column: LakeColumn) -> Fill | None:
    value = default_value(column.column)
    if value is NO_CONSTANT:
        return Fill(column, None, moment=True) if column.type.arrow in {"date", "local", "instant"} else None
    return None if value is None else Fill(column, value)


def _promotes(old: str, new: str) -> bool:
    """What Iceberg changes in metadata alone."""
    if (old, new) in {("int", "bigint"), ("float", "double")}:
        return True
    if old.startswith("decimal(") and new.startswith("decimal("):
        (old_precision, old_scale), (precision, scale) = (map(int, kind[8:-1].split(",")) for kind in (old, new))
        return scale == old_scale and precision > old_precision
    return False


def _conversion(old: str, column: LakeColumn) -> str:
    """Spark SQL that converts as MySQL does; it fails on a value that does not fit, it never makes a NULL of it."""
    new = column.type.spark
    if old == "string" and new == "binary":
        return "encode({old}, 'UTF-8')"
    if old == "binary" and new == "string":
        return "decode({old}, 'UTF-8')"
    if old in {"float", "double", "string"} and new in {"int", "bigint"}:
        return f"CAST(round(CAST({{old}} AS double)) AS {new})"
    if old.startswith("decimal") and new in {"int", "bigint"}:
        return f"CAST(round({{old}}) AS {new})"
    if old == "boolean" and new != "string":
        return f"CAST(CAST({{old}} AS int) AS {new})"
    if old == "boolean":
        return "CAST(CAST({old} AS int) AS string)"
    return f"CAST({{old}} AS {new})"
