"""A mode: it decides how a batch is bounded, and so what its marks are, what a replay is and how rows are applied.

``watermark``: everything up to a commit_ts is known to be read, and all tables equal the source at it. ``arrival``:
without watermarks, a batch is applied once it is read. A job keeps its mode for its whole life.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import msgspec

from ticdc_spark.config.values import ModeName
from ticdc_spark.ddl.known_names import Names
from ticdc_spark.model import Offsets, SchemaChange, TableName
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.modes.next_progress import Applied
from ticdc_spark.replicate.plan.holds import Bounds
from ticdc_spark.replicate.plan.timeline import Rows, Step
from ticdc_spark.replicate.state.progress import KnownSchema, PendingRows, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import ControlEvent, Reject


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the job file and of the run that decide how far a batch goes. Durations in seconds."""

    idle_timeout: float
    bounded: bool
    """It is a run to an end: a partition that is consumed to its end is idle at once."""
    until_ts: int | None = None
    now: float
    floor: int = 0
    """The resolved ts of an interrupted try of the batch, which now goes at least as far."""


class ScannedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The events that a batch read."""

    number: int
    controls: Sequence[ControlEvent]
    end_offsets: Offsets
    """Exclusive offsets that the batch read to."""
    latest_offsets: Offsets
    """End offsets of the topics after the batch was read."""
    new_topics: frozenset[str] = frozenset()
    """Topics that the progress did not know: new topics, and topics that are read again from their start."""
    names: Names = Names()
    """The names that its rows were scanned with."""


class Advanced(msgspec.Struct, frozen=True, kw_only=True):
    """The progress to be committed, without what applying adds; and what to apply."""

    progress: Progress
    resolved: int
    rejects: tuple[Reject, ...]
    late: int
    missing: tuple[PendingRows, ...]
    """Rows that wait for a schema and hold back the resolved ts. The first of them must get one."""


@dataclass(frozen=True, slots=True)
class SchemaWaits:
    """Which rows wait for a schema."""

    skips_to_known: Callable[[str, str], bool] = lambda _schema, _table: False
    """Tables whose rows do not wait, although their schema is not known."""
    named_after: Callable[[Sequence[QueuedDdl]], frozenset[TableName]] = lambda _ddls: frozenset()
    """The tables that queued DDLs make or drop, for rows that name no schema."""
    keeps: Callable[[SchemaChange], bool] = lambda _drop: False
    """Whether the target keeps the table of a DROP."""
    reads: Callable[[TableName, int], bool] | None = None
    """Whether the job reads in full a table that it does not know, if its messages need a schema from a commit_ts on.
    ``None``: it reads no tables in full."""
    registered: Sequence[KnownSchema] | None = None
    """The tables of a registry's schemas, if rows name schemas; ``None``: tables follow DDL."""


class Mode(Protocol):
    """The parts that differ between modes."""

    name: ClassVar[ModeName]
    resolves: ClassVar[bool]
    """See ``modes.traits``."""

    def understood(
        self, progress: Progress, controls: Sequence[ControlEvent], protocol: str
    ) -> tuple[Progress, Sequence[ControlEvent]]:
        """Remove from the progress and the events of a batch what has no meaning in this mode."""

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
        """The steps of a batch. ``progress``: before it. ``bounds``: tables that must stop before ``resolved``."""

    def apply_rows(self, work: TimelineWork, step: Rows) -> None:
        """Apply the rows of one table up to the end of a step."""

    def progress_after(self, progress: Progress, applied: Applied) -> Progress:
        """The progress after a batch."""
