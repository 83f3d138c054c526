"""Where a target keeps the state of a job: rows that change by compare-and-swap, and a heartbeat beside them.

The rows lie in named parts. A commit replaces some parts whole, and the others stay as they are; either all of it
happens or nothing. Readers of other engines find the rows too: ``docs/reference/state-table.md`` describes the columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a job remembers."""

    kind: str
    """What it is: ``job``, ``table`` …"""
    schema: str | None = None
    table: str | None = None
    """Of one table: its name at the source."""
    resolved_ts: int | None = None
    """commit_ts up to which its changes are applied."""
    snapshot_id: int | None = None
    """Of one table: the snapshot of its copy that has them."""
    condition: str | None = None
    value: str
    """The rest, as JSON."""


Parts: TypeAlias = Mapping[str, Sequence[StateRow]]
"""Rows by the name of their part, in their order."""


class StoredState(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds."""

    version: str | None
    """``None``: nothing was ever committed."""
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
    """The rows of a part that a commit must write, by their places. ``known``: those that are there; ``None``: that is
    not known."""
    old = known or ()
    return [(at, row) for at, row in enumerate(rows) if at >= len(old) or old[at] != row]


class StateMoved(Exception):
    """A commit was refused, since the state is not at the expected version any more. Nothing of it was written."""


class StateStore(Protocol):
    """The state of one job in its target. Safe to use from several threads.

    Raises: SinkFault where the target does not answer; DecisionNeeded where what it has is no state of this version.
    """

    where: str
    """The place, for messages."""
    pause: float
    """Seconds that should lie between two looks at it, or two heartbeats: what a look costs."""

    def version(self) -> str | None:
        """The version now; costs less than ``load``."""

    def load(self) -> StoredState:
        """Everything, as it is now."""

    def as_of(self, resolved_ts: int) -> StoredState:
        """The newest state whose tables are at ``resolved_ts`` or before, of those that are kept."""

    def commit(self, parts: Parts, expected: str | None, resolved_ts: int) -> str:
        """Replace parts if the state is still at the version ``expected``; returns the new version.

        ``resolved_ts``: commit_ts up to which the job has applied everything to its tables, for readers.

        Raises: StateMoved; SinkFault, after which the commit may have happened, and may happen later.
        """

    def beat(self, heartbeat: bytes) -> None:
        """Replace the heartbeat, which nothing depends on. Does nothing before the first commit."""

    def heartbeat(self) -> bytes | None:
        """The last heartbeat; ``None``: there is none."""

    def close(self) -> None:
        """Give connections back."""
