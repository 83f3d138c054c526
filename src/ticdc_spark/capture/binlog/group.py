"""A group of events while it is read: a transaction or a statement. Rows of a large one are on disk."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from ticdc_spark.capture.binlog.position import Place
from ticdc_spark.capture.binlog.values.rows import RowReader
from ticdc_spark.capture.binlog.wire.events import Gtid
from ticdc_spark.errors import EnvironmentFault, MessageError, RejectedMessage, os_reason
from ticdc_spark.model import RowChange

SPILL_BYTES = 32 << 20
"""Rows of a larger transaction go to a temporary file."""


class Rows(NamedTuple):
    """A row event that is not decoded yet, as its commit_ts comes with the end of the transaction."""

    reader: RowReader
    op: str
    data: bytes
    """Empty when they are in the file."""
    where: str
    """``file:offset``, for errors."""
    offset: int = 0
    """Offset in the file."""
    size: int = 0


@contextmanager
def _temporary_folder() -> Iterator[None]:
    """Raise errors of the operating system as faults of the folder, not of the server's connection."""
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir()
        raise EnvironmentFault(
            f"the rows of a large transaction cannot be kept in the temporary folder {folder}: {os_reason(error)}; "
            "give it room, or name another one with TMPDIR"
        ) from error


@dataclass
class Group:
    """What was read of a transaction or statement."""

    start: Place
    gtid: Gtid
    where: str
    """The place of its first event, as ``file:offset``."""
    replayed: bool = False
    """Whether it was given before. Only prepared transactions are taken from it."""
    done: int = 0
    """How many of its elements were given before."""
    elements: int = 0
    """How many elements were read."""
    open: bool = False
    """Whether it is a transaction, which has an end event."""
    rows: list[Rows] = field(default_factory=list)
    size: int = 0
    """Bytes of its row events."""
    savepoints: dict[str, int] = field(default_factory=dict)
    """The number of row events at each savepoint."""
    broken: MessageError | None = None
    """Why rows are missing: it was replayed, and a schema no longer fits."""
    file: BinaryIO | None = None
    """The file of the rows that do not stay in memory."""

    def add(self, rows: Rows) -> None:
        """Add a row event. Raises: EnvironmentFault that names the temporary folder"""
        if self.size > SPILL_BYTES:
            with _temporary_folder():
                if self.file is None:
                    self.file = tempfile.TemporaryFile(prefix="ticdc-spark-binlog-")  # noqa: SIM115
                    weakref.finalize(self, self.file.close)
                offset = self.file.seek(0, 2)
                self.file.write(rows.data)
            rows = rows._replace(data=b"", offset=offset, size=len(rows.data))
        self.rows.append(rows)

    def changes(self, commit_ts: int) -> Collection[RowChange]:
        """Its changes: a tuple, or for a large one a collection that reads them again in each iteration.

        Raises: RejectedMessage for rows that cannot be read; for a large one, in the iteration.
        """
        stored = StoredChanges(self, commit_ts)
        return tuple(iter(stored)) if self.file is None else stored


class StoredChanges(Collection[RowChange]):
    """The changes of a large transaction, decoded during iteration."""

    def __init__(self, group: Group, commit_ts: int) -> None:
        self._group = group
        self._commit_ts = commit_ts
        self._count: int | None = None

    def __iter__(self) -> Iterator[RowChange]:
        file = self._group.file
        for rows in self._group.rows:
            data = rows.data
            if file is not None and not data:
                with _temporary_folder():
                    file.seek(rows.offset)
                    data = file.read(rows.size)
            try:
                yield from rows.reader.changes(rows.op, data, self._commit_ts)
            except MessageError as error:
                raise RejectedMessage(f"binlog {rows.where}: {error}") from error

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count

    def __contains__(self, change: object) -> bool:
        return any(one == change for one in self)
