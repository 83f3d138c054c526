"""Where a target keeps the state of a job: rows that change by compare-and-swap, and a heartbeat beside them.

The rows are in named parts. A commit is atomic: it replaces some parts completely and keeps the rest. Other engines
can read the rows, too: ``docs/reference/state-table.md`` describes the columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a job remembers."""

    kind: str
    """The kind of thing: ``job``, ``table`` …"""
    schema: str | None = None
    table: str | None = None
    """If the row is about a table: the table's name in the target."""
    resolved_ts: int | None = None
    """Changes up to this commit_ts are applied."""
    snapshot_id: int | None = None
    """If the row is about a table: the snapshot of its copy that has these changes."""
    condition: str | None = None
    value: str
    """The rest, as JSON."""


Parts: TypeAlias = Mapping[str, Sequence[StateRow]]
"""The rows of each part, in order, by the part's name."""


class StoredState(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds."""

    version: str | None
    """``None``: nothing was committed yet."""
    parts: Parts = {}


NOTHING = StoredState(version=None)


def read_parts(names: str, cells: Iterable[tuple[Any, ...]]) -> Parts:
    """The parts of a state in a database. ``names``: of all parts, as JSON. ``cells``: part, kind, schema, table,
    resolved_ts, snapshot_id, condition and value of each row, in order."""
    parts: dict[str, list[StateRow]] = {name: [] for name in msgspec.json.decode(names)}
    fields = ("kind", "schema", "table", "resolved_ts", "snapshot_id", "condition", "value")
    for part, *row in cells:
        parts[part].append(StateRow(**dict(zip(fields, row, strict=True))))
    return parts


def changed_rows(rows: Sequence[StateRow], known: Sequence[StateRow] | None) -> list[tuple[int, StateRow]]:
    """The rows of a part that a commit must write, with their positions. ``known``: stored rows; ``None``: unknown."""
    old = known or ()
    return [(at, row) for at, row in enumerate(rows) if at >= len(old) or old[at] != row]


class StateMoved(Exception):
    """The state is no longer at the expected version, so a commit was refused. Nothing was written."""


class StateStore(Protocol):
    """The state of one job in its target. Safe to use from several threads.

    Raises: SinkFault if the target does not respond; DecisionNeeded if it holds no state of this version.
    """

    where: str
    """The place, for messages."""
    pause: float
    """Least seconds between two reads of the version, or two heartbeats; it depends on their cost."""

    def version(self) -> str | None:
        """The current version; cheaper than ``load``."""

    def load(self) -> StoredState:
        """The whole current state."""

    def as_of(self, resolved_ts: int) -> StoredState:
        """The newest kept state whose tables are at ``resolved_ts`` or before."""

    def commit(self, parts: Parts, expected: str | None, resolved_ts: int) -> str:
        """Replace parts if the state is still at the version ``expected``; returns the new version.

        ``resolved_ts``: the job has applied everything up to this commit_ts to its tables; for readers.

        Raises: StateMoved; SinkFault, after which the commit may have happened or may still happen.
        """

    def beat(self, heartbeat: bytes) -> None:
        """Replace the heartbeat, on which nothing depends. Does nothing before the first commit."""

    def heartbeat(self) -> bytes | None:
        """The last heartbeat; ``None``: there is none."""

    def close(self) -> None:
        """Close the connections."""
