"""The result of a stretch for the loop: encoded rows in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from ticdc_spark.capture.base import Resolved
from ticdc_spark.changefeed.actions import Announce
from ticdc_spark.changefeed.backlog.files import Messages
from ticdc_spark.changefeed.sent import TableRows

J = TypeVar("J")
R = TypeVar("R", bound=msgspec.Struct)


class Tasks(Protocol):
    """Runs the tasks of a stretch."""

    @property
    def parallelism(self) -> int:
        """How many tasks run in parallel."""

    def run(self, task: Callable[[J, int], R], job: J, count: int, kind: type[R]) -> list[R]:
        """The task's results for the numbers 0 to ``count`` - 1, in order. Raises: EnvironmentFault, UsageError"""

    def close(self) -> None:
        """Release what the tasks need."""


class FileBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A ``Batch`` in files."""

    rows: int
    messages: int
    bytes: int = 0
    counted: tuple[TableRows, ...] = ()
    announces: tuple[Announce, ...]
    parts: tuple[tuple[Messages, ...], ...]
    """Each part is for one task."""
    folder: Path
    """Folder of the files, which are deleted when all is sent."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An element of the source: rows up to the commit_ts of ``end``, from which the state is updated."""

    end: Resolved
    batch: FileBatch

    @property
    def commit_ts(self) -> int:
        """The last commit_ts."""
        return self.end.commit_ts
