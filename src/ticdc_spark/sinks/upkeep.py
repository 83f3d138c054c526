"""Upkeep of tables: what keeps them quick to read, when it is due, and what it came to."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ticdc_spark.model import TableName


class UpkeepPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a table's files are looked after, and what of its history is kept. Durations are seconds."""

    small_files: int
    keep_all: float
    keep_hourly: float


class TableFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a table is made of, in its current snapshot."""

    rows: int = 0
    """Those in its data files, with those that are deleted."""
    bytes: int = 0
    """Of data files and files of deletes."""
    files: int = 0
    """Data files."""
    delete_files: int = 0
    deleted_rows: int = 0
    """Rows of data files that readers skip, by position."""
    snapshots: int = 0
    """Those that can still be read."""


class UpkeepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one look after a table came to."""

    done: tuple[str, ...] = ()
    """In words; empty: nothing was to be done."""
    before: TableFiles | None = None
    """``None``: not known, for one of a table without a snapshot; so is ``after``."""
    after: TableFiles | None = None


class FilePlace(msgspec.Struct, frozen=True):
    """A folder that something has files in."""

    owner: str
    """In words: a table by its name for SQL."""
    location: str


class Upkeep(Protocol):
    """What keeps tables quick to read. It changes no row, no mark, and nothing that a reader may have pinned."""

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        """Compact the table's files and expire its snapshots, where ``policy`` wants it.

        Raises: SinkFault, also where another writer was faster
        """

    def file_places(self) -> Sequence[FilePlace]:
        """Where every table of the catalog has files. Reads all of them: once for all tables that are cleaned.

        Raises: SinkFault, also where it is not known of one of them
        """

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        """Remove files that no commit has and that are older than a time (Unix); how many.

        ``places``: where others may have files. Raises: SinkFault, also where one of them lies in the table's location
        """
