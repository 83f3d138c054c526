"""How a changefeed is configured, and what TiCDC remembers of what it sends."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from tests.simulator.broker import Place
from tests.simulator.database import Name, Uid
from tests.simulator.letters import Where
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """How the changefeed is configured, and what it is like."""

    protocol: str = "simple"
    zone: str = "UTC"
    partitions: int = 1
    topic_per_table: bool = False
    by_key: bool = True
    """Rows go to partitions by their key; else by their table."""
    idle_partitions: int = 0
    """So many upper partitions get nothing (``partition-num`` is below the topic's real count)."""
    bootstrap: bool = True
    """Simple: a table's schema is sent before its first row."""
    batched: bool = False
    """Open: rows of one transaction and partition share messages."""
    no_pre_table: bool = False
    """The new architecture: an ALTER has no preTableSchema."""
    reorder: float = 0.0
    """Share of rows that overtake others and watermarks."""
    duplicates: float = 0.0
    """Share of row messages that the producer sends twice."""
    uneven: bool = False
    """Some partitions get their copies earlier than others."""
    withheld: int = -1
    """The n-th table that was ever made is left out by the changefeed's filter, until it is widened; -1: none."""
    keyless: int = -1
    """The n-th table that is ever made has no key, and the changefeed sends it (``force-replicate``); -1: none."""
    lacks: int = -1
    """The n-th table that was ever made has a column selector, which leaves a column out of its rows; -1: none."""
    letters: Where = ""
    """Names are in other letters than their tables' own."""


@dataclass(slots=True, eq=False)
class Out:
    """A message to send."""

    place: Place
    encoded: Encoded
    index: int
    """Of the event that it belongs to, for restarts."""
    uids: tuple[Uid, ...]
    watermark: int = 0
    row: RowChange | None = None


@dataclass(slots=True)
class Checkpoint:
    """Where a restart may begin: every event before ``index`` is below the watermark ``ts``."""

    ts: int
    index: int
    topics: tuple[str, ...]


@dataclass(slots=True)
class Sent:
    """What is known of a table's messages."""

    topics: set[str] = field(default_factory=set)
    names: set[Name] = field(default_factory=set)
