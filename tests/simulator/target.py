"""What a laboratory with real servers needs of the place that a story's tables are in."""

from __future__ import annotations

from typing import Protocol

from tests.simulator.moves import MoveKind
from tests.simulator.seams import Lake
from ticdc_spark.config.job import SinkConfig
from ticdc_spark.sinks.base import Sink

NO_RIVAL: frozenset[MoveKind] = frozenset({"rival", "rival_writer"})
"""Writers that meet a commit of the job between its two steps: the lake in memory alone has them."""
NO_FILES: frozenset[MoveKind] = frozenset({"rollback", "compact", "expire"})
"""What is done to the files and snapshots of a table."""
UNSEEN: frozenset[MoveKind] = frozenset({"insert_row", "delete_row", "restore_table"})
"""What a sink that does not see other writers (``Capabilities.sees_others``) cannot find out."""


class Target(Protocol):
    """Empty when it is made."""

    config: SinkConfig
    """``[sink]`` of the job."""
    lake: Lake
    lacks: frozenset[MoveKind]
    """See ``Lab.lacks``. The lake's methods for these are never called."""

    def close(self, sink: Sink) -> None:
        """End the connections of a process, as its end does."""


class Database:
    """What no database has of ``Lake``."""

    lacks = NO_RIVAL | NO_FILES | UNSEEN

    def restore_table(self, table: object, copy: object) -> None:
        raise AssertionError("the sink does not see it")

    rollback = restore_table
    insert = restore_table
    delete = restore_table

    def compact(self, table: object) -> None:
        raise AssertionError("it has no files")

    expire = compact
