"""How far the reading of tables is, as the progress stores it."""

from __future__ import annotations

import msgspec

from ticdc_spark.model import TableName


class ReadNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of the reading of tables beside ``CaptureState.unread``."""

    base: int = 0
    """The commit_ts of the round that is under way: its rows' and the state's. 0: none is."""
    first: bool = False
    """It is the round with which the changefeed begins, before any change was sent."""
    tables: tuple[tuple[TableName, str], ...] | None = None
    """Which tables have their names at ``base`` (``capture.snapshot.present``): no others are read in this round.
    ``None``: not known yet."""
    settles: int = 0
    """Nothing that was read is above it: from here on, what was sent is consistent."""
    table: TableName = ("", "")
    """Which table is read in part."""
    shape: str = ""
    """What its CREATE statement was then, and which table it was, hashed."""
    upto: str = ""
    """The key up to which it is read (``capture.snapshot.keys``)."""
    rows: int = 0
    """How many of it were sent."""
    total: int = 0
    """How many of all tables were sent, repetitions included."""
