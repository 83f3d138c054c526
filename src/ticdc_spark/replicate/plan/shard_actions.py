"""What a DDL of a shard does to its merged table (``config.shards``). Pure."""

from collections.abc import Sequence

import msgspec

from ticdc_spark.ddl import column_renames, computed_columns, replaced_columns
from ticdc_spark.ddl.statements import (
    Alteration,
    AlterTable,
    CreateTable,
    DropTables,
    MoveRows,
    RenameTables,
    RenameTo,
    RestoreTable,
    Statement,
    TruncateTable,
    Unsupported,
)
from ticdc_spark.model import SchemaChange, Table, TableName

OF_SEVERAL = "of several tables"
"""Kind of a DDL that names a shard, and tables outside its merged table."""
_OF_SEVERAL = "it names tables of several merged tables, or tables that are merged and tables that are not"
_RENAMED = "it renames a table that [[route]] merges with others, and the rows in the target keep the old name"
_RESTORED = "TiCDC does not send the rows that come back, and the job parks no rows of a merged table"


class Absorb(msgspec.Struct, frozen=True):
    """CREATE TABLE or ALTER TABLE of a shard: the merged table gets the columns that it lacks."""

    name: TableName
    """Of the merged table."""
    shard: Table
    """The shard after it."""
    before: Table | None
    """The shard before it; ``None``: it is new, or not known."""
    is_new: bool
    """It is a CREATE TABLE: the target has no row of the shard."""
    replaced: tuple[str, ...] = ()
    certain: bool = True
    computed: tuple[str, ...] = ()
    """As of ``Alter``."""


class Clear(msgspec.Struct, frozen=True):
    """DROP TABLE and TRUNCATE TABLE of shards: the merged table loses their rows."""

    name: TableName
    """Of the merged table."""
    shards: tuple[TableName, ...]
    is_drop: bool


class NotFollowed(msgspec.Struct, frozen=True):
    """A DDL that a merged table does not follow."""

    why: str
    """``""``: the schema is not known."""
    moves_rows: bool = False
    """It adds or removes rows of partitions."""


def of_shard(
    statement: Statement, change: SchemaChange, merged: TableName, *, certain: bool
) -> Absorb | Clear | NotFollowed | None:
    """What a DDL of a shard does; ``None``: nothing. ``certain``: as of ``ddl_actions.Alter``."""
    match statement:
        case CreateTable():
            return NotFollowed("") if change.table is None else Absorb(merged, change.table, None, is_new=True)
        case DropTables(gone):
            shards = tuple((schema or change.schema, name) for schema, name in gone)
            return NotFollowed(_OF_SEVERAL) if change.kind == OF_SEVERAL else Clear(merged, shards, is_drop=True)
        case TruncateTable(name):
            return Clear(merged, ((name[0] or change.schema, name[1]),), is_drop=False)
        case AlterTable(_, parts):
            return _altered(parts, change, merged, certain=certain)
        case RenameTables():
            return NotFollowed(_RENAMED)
        case RestoreTable():
            return NotFollowed(_RESTORED)
        case Unsupported(reason):
            return NotFollowed(reason)
    return None


def _altered(
    parts: Sequence[Alteration], change: SchemaChange, merged: TableName, *, certain: bool
) -> Absorb | NotFollowed:
    moves = [part.what for part in parts if isinstance(part, MoveRows) and not part.lossless]
    if moves:
        return NotFollowed(f"{moves[0]}: TiCDC does not send the rows that it adds or removes", moves_rows=True)
    if any(isinstance(part, RenameTo) for part in parts):
        return NotFollowed(_RENAMED)
    if renames := column_renames(change.query):
        one, other = next(iter(renames.items()))
        return NotFollowed(f"column `{one}` of a shard becomes `{other}`, but the other shards still have `{one}`")
    if change.table is None:
        return NotFollowed("")
    return Absorb(
        merged,
        change.table,
        change.pre_table,
        is_new=False,
        replaced=replaced_columns(change.query),
        certain=certain,
        computed=computed_columns(change.query),
    )
