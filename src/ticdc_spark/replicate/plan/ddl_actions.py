"""Turn a DDL into the action that it needs in the target. Pure.

The schemas before and after the DDL come from the message, if it has them. The SQL shows what two schemas cannot:
that a column was renamed and not replaced, or that rows move without row messages.
"""

from collections.abc import Mapping
from typing import TypeAlias, assert_never

import msgspec

from ticdc_spark.ddl import (
    Comments,
    column_renames,
    computed_columns,
    replaced_columns,
    statement_of,
    written_comments,
)
from ticdc_spark.ddl.partition_rows import Alternatives, NotComputed, rows_of
from ticdc_spark.ddl.partitions import is_truncate_of_all, is_validated, partitions_named
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
from ticdc_spark.model import Partitioning, SchemaChange, Table, TableName
from ticdc_spark.replicate.plan.parked import is_parked
from ticdc_spark.replicate.plan.shard_actions import Absorb, Clear, NotFollowed, of_shard

NAMED_OTHERWISE = "named otherwise"
"""Kind of a DDL whose names differ from those in the rows."""
UNCERTAIN = "by columns that are not certain"
"""Kind of a DDL whose table may not have had the source's columns: a schema file gave them, or an earlier DDL may be
missing."""
ENTERS, LEAVES = "enters the filter", "leaves the filter"
"""Kinds of a RENAME to a name that ``tables`` under [job] includes from one that it excludes, or the reverse."""


_NO_DATABASE = "it names a table without its database, and its message has none"
_NO_SCHEMA = "no schema comes with it, and none is known ([schema] file may have its CREATE TABLE)"


class Create(msgspec.Struct, frozen=True):
    """CREATE TABLE."""

    table: Table
    certain: bool = True
    """Whether its columns are known to be those of the source."""
    comments: Comments = Comments()


class Drop(msgspec.Struct, frozen=True):
    """DROP TABLE."""

    names: tuple[TableName, ...]


class Truncate(msgspec.Struct, frozen=True):
    """TRUNCATE TABLE: the same columns, no rows."""

    table: Table
    certain: bool = True
    """Whether its columns are known to be those of the source."""


class Thin(msgspec.Struct, frozen=True):
    """DROP PARTITION and TRUNCATE PARTITION: rows go without row messages."""

    table: Table
    """The table after the DDL."""
    where: Alternatives
    """The rows that it removes."""
    by: Partitioning
    """The partitions by which it is known which rows these are."""


class Exchange(msgspec.Struct, frozen=True):
    """EXCHANGE PARTITION: a partition and a table swap their rows, without row messages."""

    table: Table
    """The partitioned table, after the DDL."""
    other: TableName
    where: Alternatives
    """The rows of the partition."""
    by: Partitioning
    """The partitions by which it is known which rows these are."""
    validated: bool
    """Whether the incoming rows are known to belong to the partition."""


class Alter(msgspec.Struct, frozen=True):
    """ALTER TABLE; also a RENAME of the table if ``old`` is another name."""

    old: TableName
    table: Table
    renames: dict[str, str]
    """Renamed columns: old name to new name."""
    replaced: tuple[str, ...] = ()
    """Columns that it drops and adds again under the same name."""
    certain: bool = True
    """Whether the columns are known to be those of the source."""
    computed: tuple[str, ...] = ()
    """New columns for which the server computed the values of existing rows."""
    inexact: tuple[str, ...] = ()
    """Why existing rows may get other values than at the source, if that is known before it is applied."""
    comments: Comments = Comments()


class Enter(msgspec.Struct, frozen=True):
    """A RENAME to a name that the job replicates: the table has rows that the job has never read."""

    table: Table
    rename: Alter
    """What it is where the job replicates both names."""


class Leave(msgspec.Struct, frozen=True):
    """A RENAME to a name that the job excludes."""

    name: TableName
    rename: Alter
    """What it is where the job replicates both names."""


class Restore(msgspec.Struct, frozen=True):
    """RECOVER TABLE and FLASHBACK TABLE: a parked table comes back."""

    rename: Alter
    """From its hidden name."""
    original: TableName
    """What it was dropped as."""


class CreateDatabase(msgspec.Struct, frozen=True):
    """CREATE DATABASE."""

    name: str


class DropDatabase(msgspec.Struct, frozen=True):
    """DROP DATABASE: drops the tables that this job owns there."""

    name: str
    shards: tuple[Clear, ...] = ()
    """What it does to merged tables with shards in the database."""


class Nothing(msgspec.Struct, frozen=True):
    """No effect on the lake: index, comment, view, TTL …"""

    why: str


class Refused(msgspec.Struct, frozen=True):
    """A DDL that this version does not replay."""

    why: str
    rows_only: bool = False
    """Whether it leaves the columns of its tables unchanged."""


Action: TypeAlias = (
    Create
    | Drop
    | Truncate
    | Thin
    | Exchange
    | Alter
    | Enter
    | Leave
    | Restore
    | Absorb
    | Clear
    | CreateDatabase
    | DropDatabase
    | Nothing
    | Refused
)


def action(change: SchemaChange) -> Action:
    """What a DDL does to the lake."""
    if change.kind == NAMED_OTHERWISE:
        return Refused("it has names with characters that Avro does not allow, which rows have in another form")
    try:
        statement = statement_of(change)
    except MessageError as error:
        return Refused(f"the SQL cannot be read: {error}")
    if change.merged is not None:
        return _of_shard(statement, change, change.merged)
    if change.candidates:
        tables = ", ".join(f"`{schema}`.`{name}`" for schema, name in change.candidates)
        return Refused(f"it names a table without its database, and it may be one of several, such as {tables}")
    return _of(statement, change)


def _no_model(name: str) -> str:
    return f"the columns that `{name}` had then are not known ([schema] file may have the CREATE TABLE of `{name}`)"


def _of_shard(statement: Statement, change: SchemaChange, merged: TableName) -> Action:
    act = of_shard(statement, change, merged, certain=change.kind != UNCERTAIN)
    match act:
        case NotFollowed(why, moves_rows):
            return Refused(why or _NO_SCHEMA, moves_rows and is_of_partitions(change))
        case None:
            return Nothing("it changes no shard")
        case Absorb() | Clear():
            return act
        case _:
            assert_never(act)


def _dropped_shards(change: SchemaChange) -> tuple[Clear, ...]:
    found: dict[TableName, list[TableName]] = {}
    for merged, shard in change.shards:
        found.setdefault(merged, []).append(shard)
    return tuple(Clear(merged, tuple(shards), is_drop=True) for merged, shards in found.items())


def _of(statement: Statement, change: SchemaChange) -> Action:
    match statement:
        case DatabaseDdl(what="create"):
            return CreateDatabase(statement.name or change.schema)
        case DatabaseDdl(what="drop"):
            return DropDatabase(statement.name or change.schema, _dropped_shards(change))
        case DatabaseDdl() | OtherDdl():
            return Nothing(statement.what)
        case CreateTable():
            if change.table is None:
                return Refused(_NO_SCHEMA if statement.like is None else _no_model(statement.like[1]))
            return Create(change.table, change.kind != UNCERTAIN, written_comments(statement))
        case DropTables():
            gone = change.pre_table or change.table
            if gone is not None:
                return Drop((gone.full_name,))
            names = tuple((schema or change.schema, name) for schema, name in statement.names)
            return Drop(names) if all(schema for schema, _ in names) else Refused(_NO_DATABASE)
        case TruncateTable():
            return Refused(_NO_SCHEMA) if change.table is None else Truncate(change.table, change.kind != UNCERTAIN)
        case RestoreTable(name):
            return _restored(change, (name[0] or change.schema, name[1]))
        case RenameTables() | AlterTable():
            return _at_the_filter(_alter(statement, change), change.kind)
        case Unsupported(reason):
            return Refused(reason)
        case _:
            assert_never(statement)


def _restored(change: SchemaChange, original: TableName) -> Action:
    before = change.pre_table
    if change.table is None or before is None or not is_parked(before.full_name):
        none = f"the job has not parked `{original[0]}`.`{original[1]}` (keep-dropped under [ddl])"
        return Refused(f"TiCDC does not send the rows that come back, and {none}")
    return Restore(Alter(before.full_name, change.table, {}), original)


def _at_the_filter(act: Action, kind: str) -> Action:
    """What a RENAME means for a job that replicates only one of its two names."""
    if isinstance(act, Alter) and kind == ENTERS:
        return Enter(act.table, act)
    return Leave(act.old, act) if isinstance(act, Alter) and kind == LEAVES else act


def _alter(statement: RenameTables | AlterTable, change: SchemaChange) -> Action:
    if change.table is None:
        return Refused(_NO_SCHEMA)
    old = change.table.full_name
    if isinstance(statement, AlterTable):
        moves = [part for part in statement.parts if isinstance(part, MoveRows) and not part.lossless]
        if moves:
            return _thin(change, moves[0], is_only=len(statement.parts) == 1)
    renames = isinstance(statement, RenameTables) or any(isinstance(part, RenameTo) for part in statement.parts)
    if renames and change.pre_table is not None:
        old = change.pre_table.full_name
    elif renames:
        schema, name = statement.name if isinstance(statement, AlterTable) else statement.pairs[0][0]
        old = (schema or change.schema, name)
    certain = change.kind != UNCERTAIN
    replaced, computed = replaced_columns(change.query), computed_columns(change.query)
    comments = written_comments(statement)
    return Alter(old, change.table, column_renames(change.query), replaced, certain, computed, comments=comments)


def _thin(change: SchemaChange, part: MoveRows, *, is_only: bool) -> Action:
    """The action of a DDL that removes or exchanges the rows of partitions."""
    assert change.table is not None, "its schema is known"
    if not is_only:
        return Refused(f"{part.what}: TiCDC does not send the rows that it adds or removes", is_of_partitions(change))
    rows = ((),) if is_truncate_of_all(part) else _rows_of(part, change.pre_table)
    if isinstance(rows, NotComputed):
        does = "moves" if part.other else "removes"
        return Refused(f"{part.what}: TiCDC does not send the rows that it {does}, and {rows.why}", rows_only=True)
    takes_all = any(not tests for tests in rows)
    known = None if change.pre_table is None else change.pre_table.partitioning
    if part.other is not None and known is not None:
        other = (part.other[0] or change.schema, part.other[1])
        return Exchange(change.table, other, rows, known, is_validated(part))
    if takes_all or known is None:
        return Truncate(change.table, change.kind != UNCERTAIN)
    return Thin(change.table, rows, known)


def _rows_of(part: MoveRows, before: Table | None) -> Alternatives | NotComputed:
    """The rows that a DDL on partitions removes."""
    if before is None or before.partitioning is None:
        return NotComputed("the partitions of the table are not known")
    partitions = partitions_named(part, before.partitioning)
    if partitions is None:
        have = ", ".join(one.name for one in before.partitioning.partitions)
        return NotComputed(f"the partitions that are known are {have}")
    return rows_of(before, frozenset(partitions))


def is_of_partitions(change: SchemaChange) -> bool:
    """Whether a DDL only adds or removes the rows of partitions, for which no row messages are sent."""
    try:
        statement = statement_of(change)
    except MessageError:
        return False
    parts = statement.parts if isinstance(statement, AlterTable) else ()
    return any(isinstance(part, MoveRows) and not part.lossless for part in parts) and all(
        isinstance(part, MoveRows) for part in parts
    )


def names(act: Action, tables: Mapping[TableName, object]) -> tuple[TableName, ...]:
    """The tables whose timelines an action joins. ``tables``: all known tables."""
    match act:
        case Create(table) | Truncate(table) | Thin(table):
            return (table.full_name,)
        case Drop(gone):
            return gone
        case Absorb(merged) | Clear(merged):
            return (merged,)
        case Exchange(table, other):
            return (table.full_name, other)
        case Enter() | Leave():
            return names(act.rename, tables)
        case Restore(rename, original):
            return tuple(dict.fromkeys((*names(rename, tables), original)))
        case Alter():
            return tuple(dict.fromkeys((act.old, act.table.full_name)))
        case DropDatabase(schema, shards):
            return (*(name for name in tables if name[0] == schema), *(one.name for one in shards))
        case CreateDatabase() | Nothing() | Refused():
            return ()
        case _:
            assert_never(act)
