"""A parsed DDL: one frozen struct per statement, one per part of an ALTER TABLE."""

from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.ddl.defaults import WrittenDefault
from ticdc_spark.ddl.lex import Name
from ticdc_spark.model import Column, Index

Position: TypeAlias = tuple[Literal["last", "first", "after"], str]
DEFAULT = "default"
"""Written for a charset: that of the database, or of the server. Written for a collation: that of the charset."""


class ColumnDef(msgspec.Struct, frozen=True, kw_only=True):
    """A column, with the keys that its definition declares."""

    column: Column
    nullable: bool | None = None
    """``None``: not specified."""
    primary: bool = False
    nonclustered: bool = False
    """Its primary key is an index of its own, not the order of the rows (TiDB)."""
    unique: bool = False
    foreign: str | None = None
    """The name of its foreign key, ``""`` if that has none; ``None``: it has no foreign key."""
    filled: bool = False
    """AUTO_INCREMENT, or a TIMESTAMP with ON UPDATE CURRENT_TIMESTAMP."""
    computed: bool = False
    """The value of its default is not known: an expression other than the current time, or one that servers read
    differently."""
    written: WrittenDefault | None = None
    """Its default as written; ``None``: it has none."""
    comment: str | None = None
    """``None``: not specified."""


class AddColumn(msgspec.Struct, frozen=True):
    """ADD COLUMN."""

    definition: ColumnDef
    position: Position
    if_not_exists: bool = False


class DropColumn(msgspec.Struct, frozen=True):
    """DROP COLUMN."""

    name: str
    if_exists: bool = False


class ChangeColumn(msgspec.Struct, frozen=True):
    """MODIFY COLUMN, or CHANGE COLUMN with the new name in the definition."""

    old: str
    definition: ColumnDef
    position: Position | None
    """``None``: unchanged."""
    if_exists: bool = False


class RenameColumn(msgspec.Struct, frozen=True):
    """RENAME COLUMN."""

    old: str
    new: str
    if_exists: bool = False


class SetDefault(msgspec.Struct, frozen=True):
    """ALTER COLUMN … SET DEFAULT; DROP DEFAULT sets NULL."""

    name: str
    default: WrittenDefault
    if_exists: bool = False


class AddIndex(msgspec.Struct, frozen=True):
    """ADD INDEX, UNIQUE or PRIMARY KEY; an expression in it is written as ``(expression)``."""

    index: Index
    if_not_exists: bool = False
    of_column: bool = False
    """The definition of a column declares it."""
    beside_primary: bool = False
    """That definition declares a primary key, too."""
    unnamed_at: int | None = None
    """Where its name would be in the SQL; ``None``: it has a name, or no place for one."""


class AddForeignKey(msgspec.Struct, frozen=True):
    """ADD FOREIGN KEY."""

    index: Index
    """The index that the server makes for it, unless another one begins with its columns."""
    if_not_exists: bool = False
    of_column: bool = False
    """The definition of a column declares it, which some servers ignore."""


class DropIndex(msgspec.Struct, frozen=True):
    """DROP INDEX, or DROP CONSTRAINT of a key; the name is ``""`` for the primary key."""

    name: str
    unique: bool = False
    """It means a unique key, or a constraint that is not a key."""


class DropForeignKey(msgspec.Struct, frozen=True):
    """DROP FOREIGN KEY."""

    name: str


class RenameIndex(msgspec.Struct, frozen=True):
    """RENAME INDEX."""

    old: str
    new: str


class RenameTo(msgspec.Struct, frozen=True):
    """ALTER TABLE … RENAME TO."""

    new: Name


class Charset(msgspec.Struct, frozen=True):
    """The default charset of a table or database; ``convert`` also changes the table's columns. In SQL each of the two
    names may be ``default``.
    """

    charset: str | None
    collate: str | None
    convert: bool

    @property
    def name(self) -> str:
        """The charset, or that of the collation."""
        charset = None if self.charset == DEFAULT else self.charset
        return charset or charset_of_collate(self.collate or "") or "utf8mb4"


def charset_of_collate(collate: str) -> str | None:
    """The charset with which a collation's name begins; ``None``: the collation is of any charset. ``bin`` stands for
    BINARY behind a text type.
    """
    charset = collate.partition("_")[0]
    return None if charset in ("", DEFAULT, "uca1400", "bin") else charset


class MoveRows(msgspec.Struct, frozen=True):
    """A partition change that moves or removes rows without row messages."""

    what: str
    """Its words as written."""
    lossless: bool
    """The table as a whole keeps its rows (REORGANIZE PARTITION); otherwise rows are added or removed."""
    other: Name | None = None
    """The table of EXCHANGE PARTITION."""


class TableComment(msgspec.Struct, frozen=True):
    """COMMENT of the table; ``""`` removes it."""

    text: str


class NoEffect(msgspec.Struct, frozen=True):
    """A part that changes nothing that is stored here: TTL, engine, partition names …"""

    what: str
    known: bool = True
    """It is known to have no effect; otherwise its effect is unknown."""


Key: TypeAlias = AddIndex | AddForeignKey
Alteration: TypeAlias = (
    AddColumn
    | DropColumn
    | ChangeColumn
    | RenameColumn
    | SetDefault
    | AddIndex
    | AddForeignKey
    | DropIndex
    | DropForeignKey
    | RenameIndex
    | RenameTo
    | Charset
    | MoveRows
    | TableComment
    | NoEffect
)


class DatabaseDdl(msgspec.Struct, frozen=True):
    """CREATE, DROP or ALTER DATABASE."""

    what: Literal["create", "drop", "alter"]
    name: str | None
    charset: Charset | None = None
    """The new default of the database; ``None``: not specified."""
    if_not_exists: bool = False


class CreateTable(msgspec.Struct, frozen=True, kw_only=True):
    """CREATE TABLE; CREATE TABLE … LIKE has ``like`` instead of columns."""

    name: Name
    columns: tuple[ColumnDef, ...] = ()
    keys: tuple[Key, ...] = ()
    """In the written order, also the keys that columns declare."""
    charset: Charset | None = None
    comment: str | None = None
    """The comment of the table; ``None``: not specified."""
    like: Name | None = None
    if_not_exists: bool = False
    partition_by: str = ""
    """The text after PARTITION BY; ``""``: the table has no partitions."""


class AlterTable(msgspec.Struct, frozen=True):
    """ALTER TABLE, CREATE INDEX and DROP INDEX."""

    name: Name
    parts: tuple[Alteration, ...]


class RenameTables(msgspec.Struct, frozen=True):
    """RENAME TABLE, one pair after the other."""

    pairs: tuple[tuple[Name, Name], ...]


class DropTables(msgspec.Struct, frozen=True):
    """DROP TABLE."""

    names: tuple[Name, ...]


class TruncateTable(msgspec.Struct, frozen=True):
    """TRUNCATE TABLE."""

    name: Name


class RestoreTable(msgspec.Struct, frozen=True):
    """RECOVER TABLE or FLASHBACK TABLE: restores a dropped table with its rows, as ``new`` if given."""

    name: Name
    new: Name | None


class OtherDdl(msgspec.Struct, frozen=True):
    """A statement without effect on tables: a view, sequence, user, placement policy …"""

    what: str
    """Its first words."""


class Unsupported(msgspec.Struct, frozen=True):
    """A statement that changes tables in a way that this module does not follow."""

    reason: str


Statement: TypeAlias = (
    DatabaseDdl
    | CreateTable
    | AlterTable
    | RenameTables
    | DropTables
    | TruncateTable
    | RestoreTable
    | OtherDdl
    | Unsupported
)
