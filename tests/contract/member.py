"""What the contract's tests need of a sink: the sink itself, and what other people and tools do to its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from tests.contract.plain_topic import PLACE, PlainTopic
from tests.spark.simple_topic import ID, INT, KEY
from ticdc_spark.changes.opening import Opening
from ticdc_spark.changes.ranges import RowRange, RowScan
from ticdc_spark.changes.scan import ScanPlan
from ticdc_spark.changes.topic import TopicRows
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.errors import LeaseHeld
from ticdc_spark.model import Change, Column, Message, Row, RowChange, Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.sinks.base import Sink, Stamp, TableFound
from ticdc_spark.sinks.dead_letters import DeadLetter, DeadLetters
from ticdc_spark.spark.decode.control import ControlEvent, RowsRead
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_columns

Rows = list[dict[str, Any]]
TEXT = msgspec.structs.replace(INT, name="varchar", length=20, charset="utf8mb4", collate="utf8mb4_bin")
JOB = "job"
OPENING = Opening(protocol="simple")


@dataclass
class Guard:
    """The fence: it can close at one of its calls, or let something happen there."""

    calls: int = 0
    closes_at: int = 0
    """The call that raises, and all after it; 0: none does."""
    happens: Callable[[], None] | None = None
    """Once, at the next call."""

    def __call__(self) -> None:
        self.calls += 1
        if self.closes_at and self.calls >= self.closes_at:
            raise LeaseHeld("the lease was taken")
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()

    def open(self) -> None:
        self.calls, self.closes_at, self.happens = 0, 0, None


class Others(Protocol):
    """What other people and tools do to a lake."""

    def insert(self, table: TableName, row: dict[str, Any]) -> None: ...
    def delete(self, table: TableName, key: int) -> None: ...
    def update(self, table: TableName, key: int, column: str, value: Any) -> None: ...
    def compact(self, table: TableName) -> None:
        """Rewrite the data files, with the deletes in them."""

    def rewrite_manifests(self, table: TableName) -> None: ...
    def rewrite_deletes(self, table: TableName) -> None: ...
    def expire(self, table: TableName) -> None:
        """Every snapshot but the current one."""

    def roll_back(self, table: TableName, snapshot: int) -> None: ...
    def set_current(self, table: TableName, snapshot: int) -> None: ...
    def comments(self, table: TableName) -> dict[str, str]:
        """The comments of columns that have one."""

    def comment(self, table: TableName) -> str | None:
        """The comment of a table, ``""`` if it has none; ``None``: the target keeps none of the source."""

    def create(self, table: TableName, columns: Sequence[LakeColumn], rows: Rows) -> None:
        """A table that no job made, in place of one of that name."""


@dataclass(frozen=True)
class Net:
    """What ``Sink.upsert`` is given."""

    table: TableName
    changes: TypedChanges
    stamp: Stamp
    appended: Stamp | None
    scan: RowScan

    def having(self, **more: Any) -> Net:
        """The same with other changes."""
        return replace(self, changes=replace(self.changes, **more))

    def keeping(self, where: str) -> Net:
        """The same of a table that keeps only some rows."""
        return self.having(plan=msgspec.structs.replace(self.changes.plan, where=where))


@dataclass
class Member:
    """One sink under test, with a topic, dead letters and a namespace of its own."""

    sink: Sink
    rows_of: Callable[[PlainTopic], TopicRows]
    """Rows of a topic, as the sink takes them."""
    letters: DeadLetters
    kept: Callable[[], list[tuple[int, str, int, str]]]
    """The dead letters: (batch, stage, offset, reason), sorted."""
    guard: Guard
    others: Others
    read: Callable[[TableName], Rows]
    schema: str
    source: PlainTopic = field(default_factory=PlainTopic)
    topic: TopicRows = field(init=False)
    of: Table = field(init=False)
    name: TableName = field(init=False)

    def __post_init__(self) -> None:
        self.open_topic()
        columns = (ID, Column(name="v", type=INT), Column(name="w", type=TEXT))
        self.of = Table(schema=self.schema, name="t", columns=columns, indexes=(KEY,), table_id=1, version=10)
        self.name = (self.schema, "t")

    @property
    def columns(self) -> tuple[LakeColumn, ...]:
        return self.typed(self.of)

    def typed(self, table: Table) -> tuple[LakeColumn, ...]:
        """The columns of a table as the sink holds them."""
        return self.sink.types.columns(table, handle_key(table), LakeOptions())

    def kinds(self, *columns: LakeColumn) -> list[tuple[str, str]]:
        """Columns by name, with their types as the sink names them."""
        made = tuple(msgspec.structs.replace(one.column, name=one.name) for one in columns)
        return [(one.name, one.type.name) for one in self.typed(msgspec.structs.replace(self.of, columns=made))]

    def rows(self, table: TableName | None = None) -> Rows:
        return sorted(self.read(table or self.name), key=lambda row: int(row["id"]))

    def found(self, table: TableName | None = None) -> TableFound:
        found = self.sink.find(table or self.name)
        assert found is not None, "the table is there"
        return found

    def stamp(self, ts: int, step: int = 2, about: str | None = None, **more: Any) -> Stamp:
        """A stamp after a look at the table."""
        found = self.sink.find(self.name)
        seen = None if found is None else found.snapshot
        text = f'{{"at": {ts}}}' if about is None else about
        return Stamp(**({"job": JOB, "mark": (ts, step), "applied_before": ts - 1, "about": text, "seen": seen} | more))

    def create(self) -> Stamp:
        """The table, at (10, 0), with nothing in it."""
        stamp = self.stamp(10, 0)
        self.sink.create(self.name, self.columns, stamp)
        return stamp

    def fill(self, *keys: int) -> Stamp:
        """The table, at (20, 2), with a row of each key: v is the key, w its text."""
        self.create()
        changes = [insert(self.of, 20, id=str(key), v=str(key), w=str(key)) for key in keys]
        stamp = self.stamp(20)
        self.apply(changes, 20, new_keys=True, stamp=stamp, above=10)
        return stamp

    def open_topic(self) -> None:
        """Open the topic, as another process does."""
        self.topic = self.rows_of(self.source)

    def everything(self) -> tuple[RowRange, ...]:
        """Where the rows of the table are."""
        return (RowRange("topic", 0, 0, len(self.source.sent), self.name),)

    def land(self, changes: Sequence[Change], **plan: Any) -> list[ControlEvent]:
        """Send row changes, and scan them."""
        simple, first = encoder(SimpleConfig()), len(self.source.sent)
        sent = [one for change in changes if isinstance(change, RowChange) for one in simple.rows([change])]
        return self.send(
            [
                Message(topic="topic", partition=0, offset=at, key=one.key, value=one.value)
                for at, one in enumerate(sent, first)
            ],
            **plan,
        )

    def send(self, messages: Sequence[Message], **plan: Any) -> list[ControlEvent]:
        """Send messages, and scan them."""
        first = len(self.source.sent)
        self.source.sent += messages
        start, end = {PLACE: first}, {PLACE: len(self.source.sent)}
        return self.topic.scan(ScanPlan(opening=OPENING, **plan), start, end, len(messages))

    def net(self, controls: Sequence[ControlEvent], upto: int, *, above: int = 0, stamp: Stamp, **more: Any) -> Net:
        """The changes of the table that a scan has shown, ``above`` < commit_ts <= ``upto``."""
        reported = [one for one in controls if isinstance(one, RowsRead)]
        inserts, rows = sum(one.summary.inserts for one in reported), sum(one.summary.rows for one in reported)
        plan = ReadPlan(
            protocol="simple",
            tables={one.schema_key: self.of for one in reported},
            columns=self.columns,
            options=ReadOptions(),
            lake=LakeOptions(),
            old_images="history" if more.pop("befores", False) else "key" if handle_key(self.of) else "whole",
        )
        ranges = tuple(
            RowRange(one.topic, one.partition, one.summary.first, one.summary.end, one.sent) for one in reported
        )
        scan = RowScan(table=self.name, ranges=ranges, above=above, upto=upto, rows=rows)
        appended = more.pop("appended", None)
        given = {"inserts": inserts, "others": rows - inserts} | more
        typed = TypedChanges(raw=self.topic.raw(scan), plan=plan, **given)
        return Net(self.name, typed, stamp, appended, scan)

    def apply(self, changes: Sequence[RowChange], upto: int, *, stamp: Stamp | None = None, **more: Any) -> None:
        """Send changes, and apply them."""
        net = self.net(self.land(changes), upto, stamp=stamp or self.stamp(upto), **more)
        self.upsert(net)

    def upsert(self, net: Net) -> None:
        self.sink.upsert(net.table, net.changes, net.stamp, net.appended)


def columns_of(table: Table) -> tuple[LakeColumn, ...]:
    return lake_columns(table, handle_key(table), LakeOptions())


def letter(offset: int, reason: str) -> DeadLetter:
    return DeadLetter(topic="topic", partition=0, offset=offset, seq=0, reason=reason, key=None, value=b"v")


def insert(of: Table, ts: int, **row: str | None) -> RowChange:
    return RowChange(op="insert", table=of, commit_ts=ts, after=row)


def update(of: Table, ts: int, before: Row, **row: str | None) -> RowChange:
    return RowChange(op="update", table=of, commit_ts=ts, before=before, after={**before, **row})


def delete(of: Table, ts: int, **row: str | None) -> RowChange:
    return RowChange(op="delete", table=of, commit_ts=ts, before=row)


def row(key: int, v: int | None = None, w: str | None = None) -> dict[str, Any]:
    """A row of the lake as ``Member.fill`` writes it, unless given otherwise."""
    return {"id": key, "v": key if v is None else v, "w": str(key) if w is None else w}


def source(key: int) -> Row:
    """The same as the source has it."""
    return {"id": str(key), "v": str(key), "w": str(key)}
