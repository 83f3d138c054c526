"""How much binlog the server still keeps around a position: for metrics, so whatever cannot be asked is left out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ticdc_spark.capture.binlog.connection import Connection
from ticdc_spark.capture.binlog.position import Place, Position, file_number
from ticdc_spark.capture.binlog.server import identity_of
from ticdc_spark.capture.binlog.uri import ServerUri
from ticdc_spark.errors import SourceFault, UsageError

_DAY = 86_400.0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The binlog that the server keeps."""

    older: int | None = None
    """Bytes before the position; 0: the next purge may remove what is needed. ``None``: not known."""
    newer: int | None = None
    """Bytes behind the position; ``None``: not known."""
    seconds: float | None = None
    """How long the server keeps a file after its last change; ``None``: for ever, or it says nothing of the position.
    """


def ask_kept(server: ServerUri, position: Position) -> Kept:
    """Ask the server. Raises: SourceFault, UsageError if it does not answer"""
    place = position.since or position.place
    with Connection(server) as connection:
        found = connection.variables(
            ["server_id", "server_uid", "server_uuid", "version", "binlog_expire_logs_seconds", "expire_logs_days"]
        )
        # When a prepared XA transaction began is not known.
        seconds = _seconds(found) if position.since is None else None
        if identity_of(found) != position.server:
            return Kept(seconds=seconds)  # files have other names on another server
        try:
            files = {str(row[0]): int(row[1]) for row in connection.rows("SHOW BINARY LOGS")}
        except (SourceFault, UsageError):  # it needs a right that was revoked meanwhile
            return Kept(seconds=seconds)
    older, newer = around(place, files)
    return Kept(older=older, newer=newer, seconds=seconds)


def around(place: Place, files: Mapping[str, int]) -> tuple[int | None, int | None]:
    """The bytes before and behind a place. ``files``: sizes by name, the oldest first."""
    names = list(files)
    if place.file in files:
        if place.offset > files[place.file]:
            return None, None  # the binlog was reset, and this is another file
        at = names.index(place.file)
        older = sum(files[name] for name in names[:at]) + place.offset
        return older, sum(files.values()) - older
    if names and file_number(place.file) < file_number(names[0]):
        return 0, sum(files.values())  # its file was purged
    return None, None


def _seconds(found: Mapping[str, str]) -> float | None:
    seconds = float(found.get("binlog_expire_logs_seconds", 0)) or float(found.get("expire_logs_days", 0)) * _DAY
    return seconds or None
