"""How a run stands, for who shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands."""

    rows: int
    """Sent by this process."""
    messages: int
    waiting: int
    """Rows that are not acknowledged."""
    rows_per_second: float
    saved: int
    """commitTs up to which all is acknowledged and stored."""
    outage: str = ""
    """What the broker's connections say, while nothing is acknowledged."""
    reading: str = ""
    """Which table is read, and how far, while tables are."""
    finished: bool = False
    """The source has ended, or ``target-ts`` is reached."""


Show: TypeAlias = Callable[[Report], None]
