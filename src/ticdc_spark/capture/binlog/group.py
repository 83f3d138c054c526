"""A group of events, a transaction or a statement, while it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ticdc_spark.capture.binlog.position import Place
from ticdc_spark.capture.binlog.values.rows import RowReader
from ticdc_spark.capture.binlog.wire.events import Gtid


class Rows(NamedTuple):
    """A row event, not decoded yet: its commit_ts comes with the end of the transaction."""

    reader: RowReader
    op: str
    data: bytes
    where: str
    """``file:offset``, for errors."""


@dataclass
class Group:
    """What was read of it."""

    start: Place
    gtid: Gtid
    replayed: bool = False
    """It was given before; only prepared transactions are taken from it."""
    done: int = 0
    """Elements of it that were given before."""
    elements: int = 0
    """Elements that were met."""
    open: bool = False
    """A transaction, which has an end of its own."""
    rows: list[Rows] = field(default_factory=list)
    size: int = 0
    """Bytes of its row events."""
    savepoints: dict[str, int] = field(default_factory=dict)
    """How many row events were there."""
    xid: str = ""
    """Of an XA transaction."""


class Prepared(NamedTuple):
    """An XA transaction that waits for its decision."""

    start: Place
    rows: list[Rows]
