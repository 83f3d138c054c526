"""A mode: how a batch is bounded, and so what its marks are, what a replay is and how rows are applied.

``watermark``: everything up to a commit_ts is known to be there, and all tables equal the source at it. ``arrival``:
without watermarks, a batch is applied when it has been read. A job has one mode for its whole life.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import msgspec

from ticdc_spark.config.values import ModeName
from ticdc_spark.ddl.known_names import Names
from ticdc_spark.model import Offsets, TableName
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.plan.holds import Bounds
from ticdc_spark.replicate.plan.timeline import Rows, Step
from ticdc_spark.replicate.state.progress import KnownSchema, PendingRows, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import ControlEvent, Reject


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What of the job file and of the run decides how far a batch goes. Durations in seconds."""

    idle_timeout: float
    bounded: bool
    """A run to an end: a partition that is consumed to its end is idle at once."""
    until_ts: int | None = None
    now: float
    floor: int = 0
    """The resolved ts of a try of the batch that was interrupted: it goes at least as far again."""


class ScannedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch read."""

    number: int
    controls: Sequence[ControlEvent]
    end_offsets: Offsets
    """Exclusive offsets that the batch read to."""
    latest_offsets: Offsets
    """End offsets of the topics after it was read."""
    new_topics: frozenset[str] = frozenset()
    """Topics of which the progress knew nothing before: new ones, and those that are read again from their start."""
    names: Names = Names()
    """By which its rows were scanned."""


class Advanced(msgspec.Struct, frozen=True, kw_only=True):
    """The progress that will be committed, but for what apply adds; and what to apply."""

    progress: Progress
    resolved: int
    rejects: tuple[Reject, ...]
    late: int
    missing: tuple[PendingRows, ...]
    """Rows that wait for a schema and hold the resolved ts."""


@dataclass(frozen=True, slots=True)
class SchemaWaits:
    """Which rows wait for a schema."""

    left_out: Callable[[str, str], bool] = lambda _schema, _table: False
    """Tables whose rows do not, though theirs is not known."""
    named_after: Callable[[Sequence[QueuedDdl]], frozenset[TableName]] = lambda _ddls: frozenset()
    """The tables that queued DDLs leave behind, for rows that name no schema."""
    registered: Sequence[KnownSchema] | None = None
    """The tables of a registry's schemas, where rows name schemas; ``None``: tables follow DDL."""


class Mode(Protocol):
    """What differs between the modes."""

    name: ClassVar[ModeName]
    resolves: ClassVar[bool]
    """See ``modes.traits``."""

    def understood(
        self, progress: Progress, controls: Sequence[ControlEvent], protocol: str
    ) -> tuple[Progress, Sequence[ControlEvent]]:
        """The progress and the events of a batch without what has no meaning in this mode."""

    def advance(self, progress: Progress, scanned: ScannedBatch, rules: Rules, waits: SchemaWaits) -> Advanced:
        """Fold the control events of one batch into the progress. Pure."""

    def replay_below(self, progress: Progress) -> dict[TableName, int]:
        """The commit_ts up to which rows of a table may be replays."""

    def timelines(
        self,
        progress: Progress,
        states: Mapping[TableName, TableState],
        pending: Sequence[PendingRows],
        ddls: Sequence[QueuedDdl],
        resolved: int,
        bounds: Bounds,
    ) -> list[list[Step]]:
        """The steps of a batch. ``progress``: as committed before it. ``bounds``: tables that may not go as far."""

    def apply_rows(self, work: TimelineWork, step: Rows) -> None:
        """Apply the rows of one table up to the end of a step."""

    def commit(
        self,
        progress: Progress,
        number: int,
        states: Mapping[TableName, TableState],
        resolved: int,
        ddls: Sequence[QueuedDdl],
        left: Sequence[QueuedDdl],
        now: float,
    ) -> Progress:
        """The progress after a batch that applied ``ddls``, and not those ``left``."""
