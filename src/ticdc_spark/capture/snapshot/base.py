"""The contract of a reader of whole tables, wave by wave of chunks."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from ticdc_spark.config.computed import Expressions
from ticdc_spark.ddl import Comments, parse_create, written_comments
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.partitions import partitions_of_sql
from ticdc_spark.model import Row, Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_columns


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """Some chunks of a table, to be read in parallel."""

    parts: int
    read: ReadParts
    upto: str
    """Where the next wave begins."""
    done: bool
    """Whether it is the last wave."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The table and rows that a wave reads."""

    name: TableName
    columns: tuple[LakeColumn, ...]
    """The lake's columns, with the handle key marked."""
    left_out: frozenset[str] = frozenset()
    """Columns of the source that the lake does not have."""
    where: str = ""
    """The condition of the wanted rows (``config.row_filters``); ``""``: all rows."""
    computed: Expressions = ()
    """The virtual generated columns that get values."""
    lake: LakeOptions
    at: int | None
    """Read the table as of this commit_ts; ``None``: now."""
    upto: str = ""
    """Where the previous wave ended; ``""``: this is the first."""
    chunk_rows: int = 100_000
    parts: int = 4
    identity: str = ""
    """The table's identity when its read began (``SnapshotReader.identity``); ``""``: unknown."""


class TooOld(Exception):
    """The database no longer has the table as of that commit_ts. Not an error by itself."""


class SnapshotReader(Protocol):
    """A source of whole tables. For one thread, except for the tasks.

    An EnvironmentFault that is no SourceFault does not pass by itself, such as a missing grant.
    """

    fixed: int | None
    """The commit_ts of a dump's content; ``None``: it is a database."""

    @property
    def exact(self) -> bool:
        """Whether tables can be read as of a commit_ts. Raises: SourceFault"""

    def tables(self) -> Sequence[TableName]:
        """Every table that it has. Raises: SourceFault"""

    def schema(self, name: TableName, at: int | None) -> Table | None:
        """A table as of a commit_ts, or now; ``None``: there is none.

        Raises: SourceFault; TooOld; MessageError if its CREATE statement cannot be read
        """

    def comments(self, name: TableName, at: int | None) -> Comments:
        """The comments of a table and its columns, as of a commit_ts, or now; none if there is no such table.

        Raises: as ``schema``
        """

    def identity(self, name: TableName) -> str:
        """The identity of the table that has a name now, whatever its name is; ``""``: the source has none.

        Raises: SourceFault
        """

    def estimate(self, name: TableName) -> int:
        """About how many rows a table has; 0: unknown. Raises: SourceFault"""

    def now(self) -> int:
        """A commit_ts that no row that can be read now is above. Raises: SourceFault"""

    def wave(self, wanted: Wanted) -> Wave:
        """Plan the next chunks of a table.

        Its tasks raise SourceMoved if they read the present table, and it is not the wanted one.

        Raises: SourceFault; TooOld; SourceMoved if the table does not, or no longer, have these columns
        """

    def rows(self, table: Table, keys: Sequence[Row], at: int | None) -> list[Row]:
        """The rows of some handle keys as of a commit_ts, or now. Not in a dump.

        The source compares keys by their collations, so a row may have another key than those asked for.
        ``table``: as from ``schema``. Values are canonical, also those of virtual columns.
        Raises: SourceFault; MessageError if the table does not have these columns, or the time is garbage-collected
        """

    def close(self) -> None:
        """Close connections."""


def table_of(create: str, schema: str) -> Table:
    """The table that ``SHOW CREATE TABLE`` prints, with its partitions. Raises: MessageError"""
    return msgspec.structs.replace(parse_create(create, schema, "escape"), partitioning=partitions_of_sql(create))


def comments_of(create: str | None) -> Comments:
    """The comments that ``SHOW CREATE TABLE`` prints. Raises: MessageError"""
    return Comments() if create is None else written_comments(parse(create, "escape"))


def same_columns(one: Iterable[LakeColumn], other: Iterable[LakeColumn]) -> bool:
    """Whether rows of two versions of a table are read alike, and are the same in the lake. The order of columns does
    not matter."""
    return sorted(map(_look, one)) == sorted(map(_look, other))


def has_wanted(table: Table, wanted: Wanted) -> bool:
    """Whether a table has the wanted columns, and the same key."""
    there = lake_columns(table, handle_key(table), wanted.lake)
    return same_columns(wanted.columns, (column for column in there if column.source not in wanted.left_out))


def _look(column: LakeColumn) -> tuple[str, str, bool, tuple[str, ...], int | None]:
    kind = column.column.type
    # The lake has TIME as text, and Debezium sends DATETIME in units of its digits.
    digits = kind.decimal if kind.name in ("time", "datetime", "timestamp") else None
    return column.source, column.plain.type.spark, column.key, kind.elements, digits
