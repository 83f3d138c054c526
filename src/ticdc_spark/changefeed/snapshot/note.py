"""The progress of reading tables, as it is stored."""

from __future__ import annotations

import msgspec

from ticdc_spark.model import TableName


class ReadNote(msgspec.Struct, frozen=True, kw_only=True):
    """The stored progress of reading tables, besides ``CaptureState.unread``."""

    base: int = 0
    """The commit_ts of the open round: of its rows and of the state. 0: no round is open."""
    first: bool = False
    """Whether it is the changefeed's first round, before any change was sent."""
    tables: tuple[tuple[TableName, str], ...] | None = None
    """The tables that have their names at ``base`` (``capture.snapshot.present``). Only they are read in this round.
    ``None``: not known yet."""
    settles: int = 0
    """No row that was read is newer. From this commit_ts on, the sent rows are consistent."""
    table: TableName = ("", "")
    """The table that is read in part."""
    shape: str = ""
    """A hash of its CREATE statement at that time, and of the table's identity."""
    upto: str = ""
    """The key up to which the table is read (``capture.snapshot.keys``)."""
    rows: int = 0
    """How many rows of the table were sent."""
    total: int = 0
    """How many rows of all tables were sent, repetitions included."""
