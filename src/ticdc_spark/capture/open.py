"""Opens a source by its name on the command line or in a changefeed file."""

from __future__ import annotations

from collections.abc import Callable

from ticdc_spark.capture.base import Capture
from ticdc_spark.capture.stream import open_stream

_SERVERS = ("mysql://", "mariadb://")
Wanted = Callable[[str, str], bool]
"""(schema, table) → whether its rows are needed."""


def open_capture(source: str, wanted: Wanted | None = None) -> Capture:
    """``mysql://user:password@host:port``: a server's binlog; ``kafka://host:port/topic``; or a recorded topic's path.

    Does not connect yet. Raises: UsageError that says why the text is no source.
    """
    if source.startswith(_SERVERS):
        from ticdc_spark.capture.binlog.capture import BinlogCapture

        return BinlogCapture(source) if wanted is None else BinlogCapture(source, wanted=wanted)
    return open_stream(source)


def has_tables(source: str) -> bool:
    """Whether a source is a server, whose tables can be read."""
    return source.startswith(_SERVERS)


def source_kind(source: str) -> str:
    """The kind of a source. A position can be used with another address only if the kind is the same."""
    if source.startswith(_SERVERS):
        return "binlog"
    if source.startswith("kafka://"):
        return "kafka " + source.partition("?")[0].rpartition("/")[2]
    return "recorded topic"
