"""What a stretch gives to the loop: rows that are encoded and lie in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from ticdc_spark.capture.base import Resolved
from ticdc_spark.changefeed.actions import Announce
from ticdc_spark.changefeed.backlog.files import Messages

J = TypeVar("J")
R = TypeVar("R", bound=msgspec.Struct)


class Tasks(Protocol):
    """Runs the tasks of a stretch."""

    @property
    def parallelism(self) -> int:
        """How many run side by side."""

    def run(self, task: Callable[[J, int], R], job: J, count: int, kind: type[R]) -> list[R]:
        """What a task gives for each number below ``count``, in their order. Raises: EnvironmentFault, UsageError"""

    def close(self) -> None:
        """Give up what it needs for that."""


class FileBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A ``Batch`` in files."""

    rows: int
    messages: int
    announces: tuple[Announce, ...]
    parts: tuple[tuple[Messages, ...], ...]
    """For one task each."""
    folder: Path
    """Of the files; they go when all is sent."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An element of the source: rows up to the commit_ts of ``end``, which is what the state follows."""

    end: Resolved
    batch: FileBatch

    @property
    def commit_ts(self) -> int:
        """The last one's."""
        return self.end.commit_ts
