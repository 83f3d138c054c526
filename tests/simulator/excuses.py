"""What a story's moves excuse: per table, never for all. Kept by the moves while they happen, read by the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulator.database import Name, Uid


@dataclass(slots=True)
class Excuses:
    """The excuses of one story so far."""

    disturbances: list[str] = field(default_factory=list)
    """Why the job may stop with a reason, or mark a table: moves that are not calm. Empty: it must do neither."""
    weak: dict[Uid, str] = field(default_factory=dict)
    """Tables for which any condition but ``clean`` is enough: the job cannot have seen all of them, by a move."""
    weak_names: set[Name] = field(default_factory=set)
    """The same for names that no table has any more."""
    unknowable: set[Uid] = field(default_factory=set)
    """Tables that may be ``clean`` and wrong: no job could see that anything of them is gone."""
    may_mark: set[Uid] = field(default_factory=set)
    """Tables that may be marked in a calm story: what happened to them cannot be done exactly."""
    unsettled: set[Uid] = field(default_factory=set)
    """Tables that need not be right before the job has read everything."""
    rival_deletes: bool = False
    """Another writer deletes rows between two steps of a commit, also of a table that is still to come: the job sees it
    at its next look."""
    foreign: set[Name] = field(default_factory=set)
    """Tables of the lake that a person made."""
    refused_ddl: bool = False
    """A DDL happened that no message replays: the job must stop at it."""
    bad_messages: bool = False
    lake_touched: bool = False
    """Another writer changed the lake."""

    def disturb(self, what: str, *uids: Uid) -> None:
        """Note a move that is not calm; ``uids`` need not be right until everything is read."""
        self.disturbances.append(what)
        self.unsettled.update(uids)
