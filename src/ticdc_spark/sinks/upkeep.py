"""Upkeep of tables: what keeps them quick to read, when it is due, and its results."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ticdc_spark.model import TableName


class UpkeepPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When the upkeep of a table's files is due, and how much of its history is kept. Durations are in seconds."""

    small_files: int
    keep_all: float
    keep_hourly: float


class TableFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a table's current snapshot."""

    rows: int = 0
    """Rows in its data files, including deleted ones."""
    bytes: int = 0
    """Of data files and delete files."""
    files: int = 0
    """Data files."""
    delete_files: int = 0
    deleted_rows: int = 0
    """Rows of data files that readers skip, by position."""
    snapshots: int = 0
    """Snapshots that can still be read."""


class UpkeepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one upkeep of a table."""

    done: tuple[str, ...] = ()
    """Descriptions of what was done; empty: nothing."""
    before: TableFiles | None = None
    """``None``: unknown, for example because the table has no snapshot. The same holds for ``after``."""
    after: TableFiles | None = None


class FilePlace(msgspec.Struct, frozen=True):
    """A folder with files of a table or another owner."""

    owner: str
    """For people: a table is named as in SQL."""
    location: str


class Upkeep(Protocol):
    """What keeps tables quick to read. It changes no row and no mark, and keeps everything a reader may have pinned."""

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        """Compact the table's files and expire its snapshots when ``policy`` requires it.

        Raises: SinkFault, also if another writer committed first
        """

    def file_places(self) -> Sequence[FilePlace]:
        """The folders of all tables in the catalog. It reads every table, so call it once per clean-up of all tables.

        Raises: SinkFault, also if the folder of one table is unknown
        """

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        """Remove files that belong to no commit and are older than a Unix time; returns their number.

        ``places``: folders of other owners. Raises: SinkFault, also if one of them is inside the table's location
        """
