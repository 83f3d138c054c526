"""Files of the lake of a story, and other writers that come between a commit and the next one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tests.memory_sink.lake import Lake, MemoryTable

RivalKind: TypeAlias = Literal["compact", "delete", "nobody"]


@dataclass(slots=True)
class Rival:
    """Another writer that commits to a table between two steps of the job's commit, or a catalog that refuses one."""

    after: int
    """So many commits of the job come before it."""
    kind: RivalKind
    refuses: int
    """The job's first commit is refused, or the second one that follows it; 0: none."""
    has_acted: bool = False

    def act(self, lake: Lake, table: MemoryTable) -> None:
        """Commit, once."""
        if self.has_acted or self.kind == "nobody":
            return
        self.has_acted = True
        rows = table.rows if self.kind == "compact" else table.rows[1:]
        lake.add_snapshot(table, rows, "replace" if self.kind == "compact" else "delete", None)

    def is_refused(self, *, is_second: bool) -> bool:
        """Whether the catalog refuses a commit now, once."""
        refused = self.refuses == 1 + is_second
        self.refuses = 0 if refused else self.refuses
        return refused


@dataclass(slots=True)
class Files:
    """What the warehouse of one story has, whatever the catalog says."""

    written: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    """Those that a snapshot of a table has, or had."""
    lost: list[str] = field(default_factory=list)
    """Committed ones that the job removed: every read of the table fails."""
    required: set[int] = field(default_factory=set)
    """Fields of tables that hold no NULL: where a file has one, readers find a value all the same."""
    rival: Rival | None = None
    refused: int = 0
    """Commits that the catalog refused."""
    raced: int = 0
    """Commits that met another writer."""

    def write(self, path: str) -> None:
        """A task writes a file."""
        self.written.add(path)

    def remove(self, path: str) -> None:
        """The job removes a file."""
        self.written.discard(path)
        if path in self.committed:
            self.lost.append(path)

    def meet(self, *, is_second: bool) -> Rival | None:
        """The rival that a commit of the job meets. ``is_second``: it follows another one, of the same change."""
        rival = self.rival
        if rival is None:
            return None
        if rival.after > 0:
            rival.after -= not is_second
            return None
        if not rival.has_acted:
            self.raced += 1
        if rival.refuses == 0 or is_second:
            self.rival = None
        return rival

    def orphans(self) -> int:
        """Files that no commit has."""
        return len(self.written - self.committed)
