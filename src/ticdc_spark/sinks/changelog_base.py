"""The contract of a change log: where a batch lands before it is applied, and where what cannot be read is kept."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from ticdc_spark.spark.decode.control import ControlEvent, Reject
from ticdc_spark.spark.decode.envelopes import LandingPlan
from ticdc_spark.spark.decode.log_files import LogScan


class LateRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one table and schema key that are neither new nor replays; the place is that of the first."""

    schema: str
    table: str
    schema_key: str
    rows: int
    commit_ts: int
    topic: str
    partition: int
    offset: int


class RowPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a row of the log came from."""

    commit_ts: int
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}, commitTs {self.commit_ts}"


class ChangeLog(Protocol):
    """The change log and the dead letters of one job. Each batch of a generation is one part that is replaced whole."""

    dead_letters: str
    """Where what cannot be read is kept, for messages."""

    @property
    def lands_here(self) -> bool:
        """Whether ``land`` also takes messages that do not come through Spark: read by the driver, or by tasks."""

    def newest_generation(self) -> int:
        """The highest generation that has rows in the log; 0: none. Raises: SinkFault"""

    def batches(self, generation: int) -> frozenset[int]:
        """The batches of a generation that the log holds. Raises: SinkFault"""

    def land(self, messages: Any, plan: LandingPlan) -> list[ControlEvent]:
        """Open a batch of messages into the log, in place of what a former try left of it; returns its control events.

        ``messages``: as the source's ``read``, ``read_here`` or ``read_parts`` gives them.
        Raises: SinkFault, SourceFault
        """

    def has_rows(self, scan: LogScan) -> bool:
        """Whether there is any row of a scan. Raises: SinkFault"""

    def first_row(self, scan: LogScan) -> RowPlace | None:
        """The row of a scan with the lowest commit_ts; ``None``: there is none. Raises: SinkFault"""

    def keep_rejects(self, generation: int, batch: int, stage: str, rejects: Sequence[Reject], job_time: float) -> None:
        """Keep rejects of one stage of one batch as dead letters, in place of what a former try kept.

        ``stage``: ``decode`` for messages, else the table whose rows they are, ``schema.table``.
        Raises: SinkFault
        """

    def late_rows(self, generation: int, batch: int) -> list[LateRows]:
        """Rows of a batch that are neither new nor replays.

        A row is a replay if a watermark above it stands before it, or the log holds it from an earlier batch.
        Raises: SinkFault
        """

    def forget(self, generation: int, before: int) -> None:
        """Remove batches below ``before`` of a generation, and everything of older generations. Raises: SinkFault"""
