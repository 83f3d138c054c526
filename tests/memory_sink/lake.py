"""Tables in memory, with snapshots as a lake has them. What survives the process that writes to them.

A table's rows are values of the lake's types as Python has them, by field id, so that a renamed column keeps its
values. Every change is one call of ``Lake.commit``: the one place where a fault can be put before or after it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from tests.memory_sink.state import MemoryState
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp, TableFound
from ticdc_spark.sinks.capabilities import FilesGone
from ticdc_spark.sinks.history import Commit, Note, judge, unseen_changes
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.spark.types import LakeType

FieldId: TypeAlias = int
LakeRow: TypeAlias = Mapping[FieldId, Any]
_METADATA_FILES = 20
"""As many older ones are kept (``write.metadata.previous-versions-max``)."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table."""

    id: FieldId
    name: str
    type: LakeType
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a table after one commit."""

    id: int
    parent: int | None
    rows: tuple[LakeRow, ...]
    operation: str
    """append, overwrite, delete, or replace where no row changed."""
    stamp: Stamp | None = None
    """As the snapshot's summary carries it."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows of a full read that are not the table's yet."""

    note: LoadNote
    rows: tuple[LakeRow, ...] = ()


@dataclass(slots=True)
class MemoryTable:
    """One table: its fields now, its snapshots by id, and which one is current."""

    fields: tuple[Field, ...]
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    current: int | None = None
    commits: dict[int, Commit] = field(default_factory=dict)
    """The newest commits by id, those of expired snapshots too: older metadata files have them for a while."""
    note: Note | None = None
    """The note in the properties of the table, which no rollback undoes."""
    gathered: Gathered | None = None
    comment: str = ""

    @property
    def rows(self) -> tuple[LakeRow, ...]:
        """The rows of the current snapshot."""
        return () if self.current is None else self.snapshots[self.current].rows

    def copy(self) -> "MemoryTable":
        """The table as it is now, which no later commit changes."""
        snapshots, commits = dict(self.snapshots), dict(self.commits)
        return MemoryTable(self.fields, snapshots, self.current, commits, self.note, self.gathered)

    def named_rows(self) -> list[dict[str, Any]]:
        """The rows by column name."""
        return [{column.name: row.get(column.id) for column in self.fields} for row in self.rows]


def do(_what: str, action: Callable[[], None]) -> None:
    """Carry out a durable action; what a test puts in its place may fail before, after, or instead."""
    action()


class Lake:
    """All tables of a catalog, its namespaces, and the dead letters of jobs."""

    def __init__(self, durable: Callable[[str, Callable[[], None]], None] = do) -> None:
        """``durable(what, action)`` carries out every durable action; ``what`` describes it."""
        self.durable = durable
        self.tables: dict[TableName, MemoryTable] = {}
        self.namespaces: set[str] = set()
        self.letters: dict[str, Any] = {}
        """By job: what ``letters.MemoryLetters`` keeps."""
        self.states: dict[str, MemoryState] = {}
        """By job."""
        self.lost: set[TableName] = set()
        """Tables whose files somebody has removed."""
        self._ids = 0

    def next_id(self) -> int:
        """An id that was never used in this lake."""
        self._ids += 1
        return self._ids

    def table(self, name: TableName) -> MemoryTable:
        """A table that exists. Raises: SinkFault"""
        try:
            return self.tables[name]
        except KeyError:
            message = f"there is no table `{name[0]}`.`{name[1]}`"
            raise SinkFault(message) from None

    def add_snapshot(self, table: MemoryTable, rows: tuple[LakeRow, ...], operation: str, stamp: Stamp | None) -> None:
        """Make a new snapshot the current one. To be called inside a durable action."""
        snapshot = Snapshot(self.next_id(), table.current, rows, operation, stamp)
        table.snapshots[snapshot.id] = snapshot
        parent, table.current = table.current, snapshot.id
        table.commits[snapshot.id] = Commit(
            id=snapshot.id, parent=parent, sequence=snapshot.id, operation=operation, stamp=stamp
        )
        for old in list(table.commits)[:-_METADATA_FILES]:
            del table.commits[old]

    def set_stamp(self, table: MemoryTable, stamp: Stamp, *, emptied: bool = False) -> None:
        """Write a stamp into the properties. To be called inside a durable action. ``emptied``: what other
        writers did is gone."""
        about = stamp.about or (table.note.stamp.about if table.note is not None else "")
        kept = msgspec.structs.replace(stamp, about=about, seen=None)
        changed = frozenset() if emptied else self.unseen(table, stamp)
        table.note = Note(stamp=kept, snapshot=table.current, sequence=table.current or 0, changed_by=changed)

    def unseen(self, table: MemoryTable, stamp: Stamp) -> frozenset[str]:
        """What other writers did to a table that the job has not found yet."""
        return unseen_changes(table.note, table.current, stamp.seen, table.commits.get)

    def find(self, name: TableName) -> TableFound | None:
        """Find a table's newest stamp, and what other writers did to it since."""
        table = self.tables.get(name)
        if name in self.lost:
            raise FilesGone("the catalog names files that are not there")
        if table is None:
            return None
        columns = {field.name: field.type.name for field in table.fields}
        return msgspec.structs.replace(judge(table.note, table.current, table.commits.get), columns=columns)
