"""The state folder of a changefeed: its progress, stored only after the broker has acknowledged the messages.

- ``progress.json``: the changefeed's identity, the source's position and commitTs. It is replaced about each second.
- ``schemas-N.json``: the tables at that position. When a DDL changes them, a new file is written before the
  ``progress.json`` that names it. The old file is deleted afterwards.
- ``lock``: locked by the process that owns the changefeed, with a line about it. The lock ends with the process,
  however it ends.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Mapping
from io import BufferedRandom
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.capture.base import CaptureState
from ticdc_spark.changefeed.snapshot.note import ReadNote
from ticdc_spark.ddl import Charset
from ticdc_spark.durable import replace_file
from ticdc_spark.errors import DecisionNeeded, EnvironmentFault, LeaseHeld
from ticdc_spark.model import Table, TableName

_FORMAT = 1
T = TypeVar("T")


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """``progress.json``."""

    format: int = _FORMAT
    changefeed: str
    target: str
    """Servers and topic of the sink URI. Another target is another changefeed."""
    protocol: str = ""
    """Of the topic's messages; ``""`` if an older version stored the progress."""
    source: str
    position: str
    commit_ts: int
    schemas: str
    """The file with the tables."""
    partitions: Mapping[str, int] = {}
    """Number of partitions of each topic that was used."""
    saved_at: float = 0.0
    """Seconds since the epoch."""
    rows: int = 0
    """Rows sent since the changefeed was created, repetitions included."""
    unread: tuple[TableName, ...] = ()
    """Tables that are still to be read, wholly or in part."""
    last_table_id: int = 0
    """The largest id that a table has had."""
    charsets: Mapping[str, Charset] = {}
    """The default character sets of databases."""
    reading: ReadNote = ReadNote()


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner, from the lock file."""

    changefeed: str
    host: str
    pid: int
    since: float


class StateFolder:
    """The folder; a context manager, which must be entered before anything is sent."""

    def __init__(self, path: Path, *, changefeed: str, target: str, protocol: str, source: str) -> None:
        self.path = path
        self._changefeed, self._target, self._protocol, self._source = changefeed, target, protocol, source
        self._lock: BufferedRandom | None = None
        self._tables: tuple[Table, ...] | None = None
        self._schemas = ""
        self._number = 0
        self._rows = 0
        self.reading = ReadNote()
        """The stored progress of reading tables."""

    def __enter__(self) -> Self:
        """Take ownership. Raises: LeaseHeld that names the owner; EnvironmentFault."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("a+b")
        except OSError as error:
            raise EnvironmentFault(f"state folder {self.path}: {error.strerror or error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = read_owner(self.path)
            lock.close()
            who = f"process {owner.pid} on {owner.host}" if owner is not None else "another process"
            raise LeaseHeld(f"changefeed {self._changefeed!r} is run by {who} (state folder {self.path})") from error
        owner = Owner(changefeed=self._changefeed, host=socket.gethostname(), pid=os.getpid(), since=time.time())
        try:
            lock.truncate(0)
            lock.write(msgspec.json.encode(owner))
            lock.flush()
        except OSError as error:
            lock.raw.close()  # without writing its buffer again
            raise EnvironmentFault(f"state folder {self.path}: {error.strerror or error}") from error
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()
            self._lock = None

    def load(self) -> tuple[CaptureState, Stored] | None:
        """The stored state; ``None`` for a new changefeed.

        Raises: DecisionNeeded for the folder of another changefeed, source, topic or protocol; EnvironmentFault for
        files that cannot be read.
        """
        stored = read_stored(self.path)
        if stored is None:
            return None
        for what, was, now in (
            ("changefeed", stored.changefeed, self._changefeed),
            ("topic", stored.target, self._target),
            ("protocol", stored.protocol or self._protocol, self._protocol),
            ("source", stored.source, self._source),
        ):
            if was != now:
                raise DecisionNeeded(
                    f"state folder {self.path} belongs to {what} {was!r}, and this is {now!r}: name another folder "
                    "with --state, or delete it to start from scratch"
                )
        tables = _read(self.path / stored.schemas, tuple[Table, ...])
        self._tables, self._schemas, self._rows = tables, stored.schemas, stored.rows
        self._number = int(stored.schemas.removeprefix("schemas-").removesuffix(".json"))
        self.reading = stored.reading
        state = CaptureState(
            position=stored.position,
            commit_ts=stored.commit_ts,
            tables=tables,
            unread=tuple(stored.unread),
            last_table_id=stored.last_table_id,
            charsets=stored.charsets,
        )
        return state, stored

    def save(
        self, state: CaptureState, partitions: Mapping[str, int], rows: int, reading: ReadNote | None = None
    ) -> None:
        """Store progress.

        ``rows``: sent by this process. ``reading``: of tables; ``None``: unchanged. Raises: EnvironmentFault
        """
        assert self._lock is not None, "the folder is owned"
        failpoints.point("save")
        old = self._schemas
        try:
            if self._tables is None or (state.tables is not self._tables and state.tables != self._tables):
                self._number += 1
                self._schemas = f"schemas-{self._number}.json"
                replace_file(self.path / self._schemas, msgspec.json.encode(state.tables))
            self._tables = state.tables
            stored = Stored(
                changefeed=self._changefeed,
                target=self._target,
                protocol=self._protocol,
                source=self._source,
                position=state.position,
                commit_ts=state.commit_ts,
                schemas=self._schemas,
                partitions=partitions,
                saved_at=time.time(),
                rows=self._rows + rows,
                unread=state.unread,
                last_table_id=state.last_table_id,
                charsets=state.charsets,
                reading=reading or self.reading,
            )
            replace_file(self.path / "progress.json", msgspec.json.encode(stored))
            self.reading = stored.reading
            if old and old != self._schemas:
                (self.path / old).unlink(missing_ok=True)
        except OSError as error:
            raise EnvironmentFault(f"state folder {self.path}: {error.strerror or error}") from error
        failpoints.point("saved")


def read_stored(path: Path) -> Stored | None:
    """The progress in a state folder, read without owning it. Raises: EnvironmentFault if it cannot be read."""
    file = path / "progress.json"
    return _read(file, Stored) if file.exists() else None


def read_owner(path: Path) -> Owner | None:
    """The last owner of a state folder; ``None`` if there was none, or it ended normally."""
    try:
        return msgspec.json.decode((path / "lock").read_bytes(), type=Owner)
    except (OSError, msgspec.DecodeError):
        return None


def is_owned(path: Path) -> bool:
    """Whether a process owns a state folder now."""
    try:
        with (path / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise EnvironmentFault(f"the changefeed's state cannot be read: {path}: {error}") from error
