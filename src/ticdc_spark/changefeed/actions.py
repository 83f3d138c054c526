"""Input and output of the sequence: routed elements and actions. Also what it must know of topics and protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from ticdc_spark.capture.base import Captured, CaptureState
from ticdc_spark.changefeed.config.settings import BootstrapCadence
from ticdc_spark.model import RowChange, SchemaChange, Table

Place: TypeAlias = tuple[str, int]
"""(topic, partition)."""


class Announce(msgspec.Struct, frozen=True):
    """A table that has rows in a batch."""

    topic: str
    table: Table
    first_ts: int
    rows: int


class Batch(Protocol):
    """Rows that are already filtered, dispatched and encoded. Another process sends them."""

    @property
    def rows(self) -> int:
        """How many rows."""

    @property
    def announces(self) -> Sequence[Announce]:
        """The tables of the rows."""


class Routed(msgspec.Struct, frozen=True):
    """An element of the source, with the part of it to send, and where."""

    captured: Captured
    rows: Sequence[tuple[Place, RowChange]] = ()
    ddls: Sequence[tuple[str, SchemaChange]] = ()
    """The DDL to send, by topic."""
    batch: Batch | None = None
    """Rows up to the element's commit_ts, instead of ``rows``."""


class SendRows(msgspec.Struct, frozen=True):
    """Rows for one partition, in their order."""

    ticket: int
    place: Place
    changes: Sequence[RowChange]


class SendBatch(msgspec.Struct, frozen=True):
    """Rows for many partitions, which another process sends."""

    ticket: int
    batch: Batch


class SendDdl(msgspec.Struct, frozen=True):
    """A DDL for partitions of its topic."""

    ticket: int
    places: tuple[Place, ...]
    change: SchemaChange


class SendBootstrap(msgspec.Struct, frozen=True):
    """A table's schema for partitions of its topic."""

    ticket: int
    places: tuple[Place, ...]
    table: Table
    commit_ts: int
    """The commit_ts of the rows or DDL for which it is sent."""


class SendWatermark(msgspec.Struct, frozen=True):
    """A watermark for partitions."""

    ticket: int
    places: tuple[Place, ...]
    commit_ts: int


class Save(msgspec.Struct, frozen=True):
    """Progress to store; ``Sequencer.saved`` confirms it."""

    state: CaptureState


Action: TypeAlias = SendRows | SendBatch | SendDdl | SendBootstrap | SendWatermark | Save


class Layout(Protocol):
    """The topics that messages go to."""

    def topics(self, tables: Iterable[Table]) -> Iterable[str]:
        """The topics of the given tables that are sent, and the default topic."""

    def topic_of(self, table: Table) -> str | None:
        """The topic of a table; ``None`` if it is not sent."""

    def partitions(self, topic: str) -> int:
        """How many partitions of a topic are used."""


class Cadence(msgspec.Struct, frozen=True, kw_only=True):
    """How often messages are sent, and which ones the protocol has. Times are seconds."""

    watermarks: bool = True
    interval: float = 1.0
    """Time between watermarks, and between saves of progress."""
    ddl_to_first_partition: bool = False
    bootstrap: BootstrapCadence | None = None
    """``None``: the protocol has no BOOTSTRAP."""
    rows_in_flight: int = 50_000
    """The most rows that are taken and not acknowledged. Above this, no more are taken."""

    @property
    def bootstraps(self) -> BootstrapCadence | None:
        """``None``: none are sent, as interval or count is 0."""
        found = self.bootstrap
        return found if found is not None and found.interval > 0 and found.messages > 0 else None
