"""What a sink does for ``replicate``. Every write and every DDL carries its mark in the commit that does it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import msgspec
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.spark.decode.rows import OP
from ticdc_spark.spark.types import LakeColumn

Mark: TypeAlias = tuple[int, int]
"""(commit_ts, step)."""
TableName: TypeAlias = tuple[str, str]
"""(schema, table), as in the source; the sink escapes them."""

OP_COLUMN = OP
"""Column of a net change: ``d`` deletes its key, anything else is the row's last image."""


TIES, ALWAYS = "_ticdc_ties", "_ticdc_always"
"""Columns of a net change for ``merge_newest``: whether it wins over a row of the same time, and over any row."""


class MarkFound(msgspec.Struct, frozen=True):
    """What the newest commit with a mark says."""

    job: str
    mark: Mark
    floor: int
    """The commit_ts up to which everything was applied before the step of ``mark`` began."""


class ColumnChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a table's columns that need no rewrite, all in one commit."""

    rename: tuple[tuple[str, str], ...] = ()
    add: tuple[LakeColumn, ...] = ()
    drop: tuple[str, ...] = ()
    promote: tuple[LakeColumn, ...] = ()
    order: tuple[str, ...] = ()
    """All lake names in the order that the table has after the other changes; empty when no column moves."""

    def __bool__(self) -> bool:
        return bool(self.rename or self.add or self.drop or self.promote or self.order)


class Sink(Protocol):
    """A lake. One object a job; safe to call from several threads for different tables."""

    def session(self) -> AbstractContextManager[SparkSession]:
        """Borrow a Spark session; data frames to write must come from one, and one thread uses it at a time."""

    def exists(self, table: TableName) -> bool:
        """Whether the lake has the table."""

    def mark(self, table: TableName) -> MarkFound | None:
        """The mark of a table that exists; ``None`` when no commit carries one (not a table of ours)."""

    def snapshot_id(self, table: TableName) -> int | None:
        """The current snapshot."""

    def columns(self, table: TableName) -> dict[str, str]:
        """Lake column names of a table to their types, in Spark's words."""

    def create(self, table: TableName, columns: Sequence[LakeColumn], mark: MarkFound) -> None:
        """Create a table, with its mark, in one commit."""

    def drop(self, table: TableName) -> None:
        """Drop a table and its files; no error when it is not there."""

    def rename(self, old: TableName, new: TableName) -> None:
        """Rename a table."""

    def truncate(self, table: TableName, mark: MarkFound) -> None:
        """Remove all rows, in one commit."""

    def stamp(self, table: TableName, mark: MarkFound) -> None:
        """Commit a mark and nothing else."""

    def change_columns(self, table: TableName, changes: ColumnChanges, mark: MarkFound) -> None:
        """Rename, add, drop and promote columns, with the mark, in one commit."""

    def set_column(self, table: TableName, column: str, expression: str, mark: MarkFound) -> None:
        """Set a column of every row to a SQL expression."""

    def append(self, table: TableName, rows: DataFrame, columns: Sequence[LakeColumn], mark: MarkFound) -> None:
        """Append rows, in one commit with the mark."""

    def merge(self, table: TableName, changes: DataFrame, columns: Sequence[LakeColumn], mark: MarkFound) -> None:
        """Apply one net change a key, in one commit with the mark."""

    def merge_newest(
        self, table: TableName, changes: DataFrame, columns: Sequence[LakeColumn], mark: MarkFound
    ) -> None:
        """Apply one net change a key where the lake has no newer one, in one commit with the mark.

        The last of ``columns`` holds the commit_ts of a row's last change; ``changes`` has ``TIES`` and ``ALWAYS``.
        """

    def create_database(self, schema: str) -> None:
        """Create a namespace; no error when it is there."""

    def drop_database(self, schema: str) -> None:
        """Drop a namespace if nothing is left in it."""
