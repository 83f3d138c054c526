"""Tables in memory, with snapshots as a lake has them. What survives the process that writes to them.

A table's rows are values of the lake's types as Python has them, by field id, so that a renamed column keeps its
values. Every change is one call of ``Lake.commit``: the one place where a fault can be put before or after it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.base import Stamp, TableFound, TableName
from ticdc_spark.spark.types import LakeType

FieldId: TypeAlias = int
LakeRow: TypeAlias = Mapping[FieldId, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table."""

    id: FieldId
    name: str
    type: LakeType


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a table after one commit."""

    id: int
    parent: int | None
    rows: tuple[LakeRow, ...]
    operation: str
    """append, overwrite, delete, or replace where no row changed."""
    stamp: Stamp | None = None
    """Its mark, as the snapshot's summary carries it."""


@dataclass(slots=True)
class MemoryTable:
    """One table: its fields now, its snapshots by id, and which one is current."""

    fields: tuple[Field, ...]
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    current: int | None = None
    stamp: Stamp | None = None
    """As the properties of the table carry it, which no rollback undoes."""
    stamped_at: int | None = None
    """The snapshot that was current when ``stamp`` was written."""

    @property
    def rows(self) -> tuple[LakeRow, ...]:
        """The rows of the current snapshot."""
        return () if self.current is None else self.snapshots[self.current].rows

    def named_rows(self) -> list[dict[str, Any]]:
        """The rows by column name."""
        return [{column.name: row.get(column.id) for column in self.fields} for row in self.rows]


def do(_what: str, action: Callable[[], None]) -> None:
    """Carry out a durable action; what a test puts in its place may fail before, after, or instead."""
    action()


class Lake:
    """All tables of a catalog, its namespaces, and the change logs of jobs."""

    def __init__(self, durable: Callable[[str, Callable[[], None]], None] = do) -> None:
        """``durable(what, action)`` carries out every durable action; ``what`` names it for people."""
        self.durable = durable
        self.tables: dict[TableName, MemoryTable] = {}
        self.namespaces: set[str] = set()
        self.logs: dict[str, Any] = {}
        """By job: what ``changelog.MemoryChangeLog`` keeps."""
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
        table.current = snapshot.id

    def set_stamp(self, table: MemoryTable, stamp: Stamp) -> None:
        """Write a stamp into the properties. To be called inside a durable action."""
        about = stamp.about or (table.stamp.about if table.stamp is not None else "")
        table.stamp = Stamp(stamp.job, stamp.mark, stamp.floor, about)
        table.stamped_at = table.current

    def find(self, name: TableName) -> TableFound | None:
        """What a table says of itself, and what others did to it since."""
        table = self.tables.get(name)
        if table is None:
            return None
        kept, others = table.stamp, set[str]()
        at = table.current
        while at is not None and at in table.snapshots:
            snapshot = table.snapshots[at]
            changed = ", ".join(sorted(others))
            if at == table.stamped_at:
                return TableFound(stamp=kept, changed_by=changed)
            if snapshot.stamp is not None:
                about = kept.about if kept is not None else ""
                carried = Stamp(snapshot.stamp.job, snapshot.stamp.mark, snapshot.stamp.floor, about)
                behind = kept is not None and carried.job == kept.job and carried.mark < kept.mark
                return TableFound(stamp=carried, rolled_back=behind, changed_by="" if behind else changed)
            if snapshot.operation != "replace":
                others.add(snapshot.operation)
            at = snapshot.parent
        if kept is None:
            return TableFound(stamp=None)
        if table.current is None or (table.stamped_at is not None and table.current < table.stamped_at):
            return TableFound(stamp=Stamp(kept.job, (0, 0), 0, kept.about), rolled_back=True)
        return TableFound(stamp=kept, changed_by=", ".join(sorted(others)))


__all__ = ["Field", "Lake", "LakeRow", "MemoryTable", "Snapshot", "do"]
