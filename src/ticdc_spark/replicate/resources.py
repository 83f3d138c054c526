"""What a job works with, and where a run ends."""

from dataclasses import dataclass

from ticdc_spark.capture.snapshot.base import SnapshotReader
from ticdc_spark.changes.topic import TopicRows
from ticdc_spark.replicate.schemas.registered import Registered
from ticdc_spark.replicate.state.store import ProgressStore
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.dead_letters import DeadLetters
from ticdc_spark.spark.sources.base import Source


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The open resources of a running job."""

    source: Source
    sink: Sink
    rows: TopicRows
    letters: DeadLetters
    store: ProgressStore
    registry: Registered | None = None
    """``None``: messages of the protocol name no registered schemas."""
    reader: SnapshotReader | None = None
    """Reads whole tables, if the job file has a section ``[snapshot]``."""


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """Where a run ends; by default it runs until it is stopped."""

    bounded: bool = False
    """The run reads up to where the topics end."""
    until_ts: int | None = None
    """The run stops when all tables are at this commit_ts."""


ENDLESS = RunEnd()
