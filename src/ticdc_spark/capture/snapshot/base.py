"""The contract of a reader of whole tables, wave by wave of chunks."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from ticdc_spark.ddl import parse_create
from ticdc_spark.ddl.partitions import partitions_of_sql
from ticdc_spark.model import Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_columns


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """Some chunks of a table, to be read side by side."""

    parts: int
    read: ReadParts
    upto: str
    """Where the next wave begins."""
    done: bool
    """There is no next one."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a wave is of."""

    name: TableName
    columns: tuple[LakeColumn, ...]
    """The lake's, handle key marked."""
    left_out: frozenset[str] = frozenset()
    """Columns of the source that the lake does not have."""
    where: str = ""
    """The condition of the rows that are wanted (``config.row_filters``); ``""``: all are."""
    lake: LakeOptions
    at: int | None
    """The commit_ts as of which it is read; ``None``: now."""
    upto: str = ""
    """Where the wave before it ended; ``""``: it is the first."""
    chunk_rows: int = 100_000
    parts: int = 4
    identity: str = ""
    """What the table was when its read began (``SnapshotReader.identity``); ``""``: not known."""


class TooOld(Exception):
    """The database does not have the table as of that commit_ts any more. Not an error of its own."""


class SnapshotReader(Protocol):
    """A source of whole tables. For one thread, but for what tasks do.

    Where a SourceFault is named, an EnvironmentFault of no kind is one that does not pass by itself: a missing grant.
    """

    fixed: int | None
    """The commit_ts of all that it holds (a dump); ``None``: it is a database."""

    @property
    def exact(self) -> bool:
        """Whether it can be read as of a commit_ts. Raises: SourceFault"""

    def tables(self) -> Sequence[TableName]:
        """Every table that it has. Raises: SourceFault"""

    def schema(self, name: TableName, at: int | None) -> Table | None:
        """A table as of a commit_ts, or now; ``None``: there is none.

        Raises: SourceFault; TooOld; MessageError where its CREATE statement cannot be read
        """

    def identity(self, name: TableName) -> str:
        """Tells the table that has a name now from all others, whatever their names; ``""``: the source does not tell.

        Raises: SourceFault
        """

    def estimate(self, name: TableName) -> int:
        """About how many rows a table has; 0: not known. Raises: SourceFault"""

    def now(self) -> int:
        """A commit_ts that everything which can be read now is at or below. Raises: SourceFault"""

    def wave(self, wanted: Wanted) -> Wave:
        """Plan the next chunks of a table.

        Its tasks end with SourceMoved where they read the present and meet another table than the wanted one.

        Raises: SourceFault; TooOld; SourceMoved where the table does not have these columns (any more)
        """

    def close(self) -> None:
        """Give up connections."""


def table_of(create: str, schema: str) -> Table:
    """The table that ``SHOW CREATE TABLE`` prints, with its partitions. Raises: MessageError"""
    return msgspec.structs.replace(parse_create(create, schema, "escape"), partitioning=partitions_of_sql(create))


def same_columns(one: Iterable[LakeColumn], other: Iterable[LakeColumn]) -> bool:
    """Whether rows of two versions of a table look alike in the lake, in whatever order their columns are."""
    return sorted(map(_look, one)) == sorted(map(_look, other))


def has_wanted(table: Table, wanted: Wanted) -> bool:
    """Whether a table has the columns that are wanted, and the same key."""
    there = lake_columns(table, handle_key(table), wanted.lake)
    return same_columns(wanted.columns, (column for column in there if column.source not in wanted.left_out))


def _look(column: LakeColumn) -> tuple[str, str, bool, tuple[str, ...], int | None]:
    kind = column.column.type
    # The lake has TIME as text, and Debezium sends DATETIME in units of its digits.
    digits = kind.decimal if kind.name in ("time", "datetime", "timestamp") else None
    return column.source, column.plain.type.spark, column.key, kind.elements, digits
