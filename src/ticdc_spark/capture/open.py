"""A source by its name, as a command line or a changefeed file has it."""

from __future__ import annotations

from collections.abc import Callable

from ticdc_spark.capture.base import Capture
from ticdc_spark.capture.stream import open_stream

_SERVERS = ("mysql://", "mariadb://")
Wanted = Callable[[str, str], bool]
"""From schema and table to whether its rows are needed."""


def open_capture(source: str, wanted: Wanted | None = None) -> Capture:
    """``mysql://user:password@host:port``: a server's binlog; ``kafka://host:port/topic``; or a recorded topic's path.

    Connects to nothing yet. Raises: UsageError for what cannot be a source, naming what is wrong.
    """
    if source.startswith(_SERVERS):
        from ticdc_spark.capture.binlog.capture import BinlogCapture

        return BinlogCapture(source) if wanted is None else BinlogCapture(source, wanted=wanted)
    return open_stream(source)


def has_tables(source: str) -> bool:
    """Whether a source is a server, whose tables can be read."""
    return source.startswith(_SERVERS)


def source_kind(source: str) -> str:
    """What a position belongs to: it can be used with another address of the same kind only."""
    if source.startswith(_SERVERS):
        return "binlog"
    if source.startswith("kafka://"):
        return "kafka " + source.partition("?")[0].rpartition("/")[2]
    return "recorded topic"
