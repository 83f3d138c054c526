"""What the reference applier keeps: the progress from batch to batch, and the lake."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ticdc_spark.model import Envelope, Row, SchemaChange, Table, Value

Place: TypeAlias = tuple[str, int]
Name: TypeAlias = tuple[str, str]
Key: TypeAlias = tuple[Value, ...]
Position: TypeAlias = tuple[str, int, int, int]
"""(topic, partition, offset, seq)."""
Mark: TypeAlias = tuple[int, int]
"""(commit_ts, step): rows up to and with commit_ts are step 0, DDLs of that commit_ts the steps after it."""


@dataclass(frozen=True)
class Landed:
    """A row of the change log."""

    position: Position
    envelope: Envelope


Read: TypeAlias = tuple[Landed, Row | None, Row | None]
"""A row of the log with its images, before and after."""


@dataclass
class Progress:
    """What is known after a batch; a copy is changed and takes the old one's place at the very end."""

    applied: int = 0
    watermarks: dict[Place, int] = field(default_factory=dict)
    consumed: dict[Place, int] = field(default_factory=dict)
    schemas: dict[tuple[str, str, str], Table] = field(default_factory=dict)
    ddls: dict[tuple[Any, ...], SchemaChange] = field(default_factory=dict)
    """Queued DDLs, the first copy of each, in order of arrival."""
    copies: dict[tuple[Any, ...], dict[Place, int]] = field(default_factory=dict)
    """Arrival mode: offsets of the copies of queued DDLs."""
    done: set[tuple[Any, ...]] = field(default_factory=set)
    """Arrival mode: DDLs that were applied."""
    waiting: list[Landed] = field(default_factory=list)
    """Rows of the change log above ``applied``."""
    replays: int = 0

    def copy(self) -> Progress:
        """A progress that can be changed without touching this one."""
        return Progress(**{name: copy.copy(value) for name, value in vars(self).items()})


@dataclass
class Lake:
    """Tables, each with its mark; a mark outlives its table."""

    tables: dict[Name, tuple[Table, dict[Key, Row]]] = field(default_factory=dict)
    marks: dict[Name, Mark] = field(default_factory=dict)
    dropped: dict[Name, Table] = field(default_factory=dict)
    """Schemas of dropped tables, for RECOVER and FLASHBACK TABLE."""


def identity_of(envelope: Envelope) -> tuple[Any, ...]:
    """What makes two copies of a row change one."""
    return (envelope.schema, envelope.table, envelope.commit_ts, envelope.op, envelope.before, envelope.after)
