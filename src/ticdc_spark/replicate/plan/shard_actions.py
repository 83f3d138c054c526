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
"""Kind of a DDL that names a shard, and tables that are none of the same merged table."""
_OF_SEVERAL = "it names tables that are in several merged tables, or of which some are merged and some are not"
_RENAMED = "a table that is merged with others by [[route]] is renamed, and its rows have the old name"
_RESTORED = "TiCDC does not send the rows that come back, and nothing is kept of a merged table"


class Absorb(msgspec.Struct, frozen=True):
    """CREATE TABLE or ALTER TABLE of a shard: the merged table gets what it lacks."""

    name: TableName
    """Of the merged table."""
    shard: Table
    """The shard after it."""
    before: Table | None
    """``None``: it is new, or not known."""
    is_new: bool
    """It is a CREATE TABLE: no row in the target is of it."""
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
    """``""``: its schema is not known."""
    moves_rows: bool = False
    """Rows of partitions go or come."""


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
        return NotFollowed(f"{moves[0]}: TiCDC does not send the rows of a shard that go or come", moves_rows=True)
    if any(isinstance(part, RenameTo) for part in parts):
        return NotFollowed(_RENAMED)
    if renames := column_renames(change.query):
        one, other = next(iter(renames.items()))
        return NotFollowed(f"column `{one}` of a shard becomes `{other}`, and the other shards still have `{one}`")
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
