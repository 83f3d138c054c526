"""The status of a run, for display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from ticdc_spark.changefeed.sent import TableRows


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a run."""

    rows: int
    """Rows sent by this process."""
    messages: int
    waiting: int
    """Rows that are not acknowledged."""
    rows_per_second: float
    saved: int
    """Everything up to this commitTs is acknowledged and stored."""
    outage: str = ""
    """Why nothing is acknowledged: the last error of a broker connection, if there was one."""
    reading: str = ""
    """While tables are read: the table and its progress."""
    bytes: int = 0
    """Of the messages that this process has sent: keys and values."""
    ddls: int = 0
    """DDL sent by this process."""
    retries: Mapping[str, int] = {}
    """How often this process tried again, by the fault."""
    counted: tuple[TableRows, ...] = ()
    """``rows`` by table and operation."""
    finished: bool = False
    """The source has ended, or ``target-ts`` is reached."""


Show: TypeAlias = Callable[[Report], None]
