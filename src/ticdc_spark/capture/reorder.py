"""Sorts the messages of a topic by commit_ts.

A partition is not in the order of commitTs, partitions are not read evenly, and a restarted changefeed sends messages
again. So opened messages wait until the watermarks of all partitions have passed them, and are then read in order. A
watermark W says that everything with a smaller commitTs was sent to its partition.

A row at or below the given commit_ts is a replay if its own partition had passed it before. Otherwise it is late, which
is an error. A DDL there is always a replay.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, Resolved, Transaction, follow
from ticdc_spark.capture.transactions import place_of, read_rows
from ticdc_spark.ddl import classify, ddl_tables
from ticdc_spark.errors import LateRow, MessageError, RejectedMessage, SourceFault
from ticdc_spark.model import Bootstrap, Envelope, Event, Message, Rejected, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.protocols.base import Decoder
from ticdc_spark.streams.reader import EventReader

Partition: TypeAlias = tuple[str, int]


class PartitionAt(msgspec.Struct, frozen=True, array_like=True):
    """One partition in a position."""

    topic: str
    partition: int
    offset: int
    """The offset to read from. Everything before it was given."""
    read: int
    """The offset up to which was read. A row before it was given, if it is at or below the state's commit_ts."""
    watermark: int

    @property
    def place(self) -> Partition:
        """The partition."""
        return self.topic, self.partition


class StreamPosition(msgspec.Struct, frozen=True):
    """A source's position in topics."""

    protocol: str
    partitions: tuple[PartitionAt, ...] = ()
    """All existing partitions, if there are ids."""
    ids: Mapping[str, str] | None = None
    """Ids of the topics, if the broker has ids. ``None``: a recorded topic, or a position of an older version."""

    def text(self) -> str:
        """The position as text for ``parse``."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def parse(text: str) -> StreamPosition:
        """Raises: SourceFault for text that is no position."""
        try:
            return msgspec.json.decode(text, type=StreamPosition)
        except msgspec.DecodeError as error:
            raise SourceFault(f"the stored position is not one of a topic: {text[:80]!r} ({error})") from error


class _Entry:
    """A waiting event."""

    __slots__ = ("done", "event", "message", "seq", "ts")

    def __init__(self, ts: int, message: Message, seq: int, event: Event) -> None:
        self.ts, self.message, self.seq, self.event = ts, message, seq, event
        self.done = False


class _Part:
    """The state of a partition."""

    def __init__(self, at: PartitionAt | None) -> None:
        self.next = at.offset if at else 0
        self.given_below = at.read if at else 0
        self.watermark = at.watermark if at else 0
        self.idle = False
        self.waiting: deque[_Entry] = deque()

    def passed(self, floor: int) -> int:
        """The watermark that counts. It is ``floor`` while messages from before the position are read again."""
        return self.watermark if self.next >= self.given_below else min(floor, self.watermark)

    def first(self) -> int:
        """The first offset with something still to give."""
        while self.waiting and self.waiting[0].done:
            self.waiting.popleft()
        return self.waiting[0].message.offset if self.waiting else self.next


class Reordering:
    """Takes messages in each partition's order, and gives the events that the watermarks have passed."""

    def __init__(
        self, decoder: Decoder, reader: EventReader, state: CaptureState, partitions: Iterable[Partition]
    ) -> None:
        """``partitions``: all partitions that are read. They count until they are idle."""
        self._decoder = decoder
        self._reader = reader
        self._versioned = not reader.follows_ddl
        self.state = state
        position = StreamPosition.parse(state.position)
        self._ids = position.ids
        known = {at.place: at for at in position.partitions}
        self.parts: dict[Partition, _Part] = {}
        for partition in partitions:
            self.parts[partition] = _Part(known.get(partition))
        self._heap: list[tuple[int, int, int, _Entry]] = []
        self._arrivals = 0
        self._newest = state.commit_ts
        self._bootstraps: deque[_Entry] = deque()
        self._learnt: dict[tuple[str, str], Table] = {}
        self._tables = {table.full_name: table for table in state.tables}
        self.replays = 0
        self.blocked: str | None = None
        """Why rows that the watermarks have passed are held back: a missing schema."""
        reader.go_on_from(state.tables, state.charsets)

    @property
    def waiting(self) -> int:
        """How many rows and DDLs wait."""
        return len(self._heap)

    @property
    def next_ts(self) -> int | None:
        """The smallest commit_ts that waits."""
        return self._heap[0][0] if self._heap else None

    def start(self) -> dict[Partition, int]:
        """The offsets to read from."""
        return {partition: part.next for partition, part in self.parts.items()}

    def add(self, partitions: Iterable[Partition]) -> None:
        """Count new partitions, which are read from offset 0."""
        for partition in partitions:
            self.parts[partition] = _Part(None)

    def take(self, message: Message, newest: int = 0) -> None:
        """Open a message.

        ``newest``: the largest commit_ts before it, among messages that were not taken.

        Raises: RejectedMessage, LateRow.
        """
        self._newest = max(self._newest, newest)
        part = self.parts[message.topic, message.partition]
        if message.offset < part.next:
            return
        part.next = message.offset + 1
        for seq, event in enumerate(self._decoder.open_message(message.key, message.value)):
            match event:
                case Envelope():
                    self._row(part, message, seq, event)
                case Watermark(commit_ts):
                    part.watermark = max(part.watermark, commit_ts)
                    part.idle = False
                    self._newest = max(self._newest, commit_ts)
                case SchemaChange():
                    self._ddl(part, message, seq, event)
                case Bootstrap():
                    self._bootstrap(part, message, seq, event)
                case Rejected(reason):
                    raise RejectedMessage(f"{place_of(message)} cannot be read: {reason}")

    def resolved(self) -> int:
        """By the watermarks, everything up to this commit_ts has arrived; 0: a partition has no watermark yet."""
        floor = self.state.commit_ts + 1
        busy = [part.passed(floor) for part in self.parts.values() if not part.idle]
        most = max((part.passed(floor) for part in self.parts.values()), default=0)
        return max(0, min(busy, default=most) - 1)

    def laggards(self) -> list[Partition]:
        """The partitions that hold the others back."""
        most = max((part.watermark for part in self.parts.values()), default=0)
        return [at for at, part in self.parts.items() if not part.idle and part.watermark < most]

    def release(self, upto: int | None = None) -> Iterator[Captured]:
        """The events that the watermarks have passed, then a ``Resolved``. ``upto``: a commit_ts to use instead.

        Raises: RejectedMessage for a row that cannot be read.
        """
        resolved = self.resolved() if upto is None else upto
        position = self.position()
        self.blocked = None
        while self._heap and self._heap[0][0] <= resolved:
            ts = self._heap[0][0]
            group = []
            while self._heap and self._heap[0][0] == ts:
                group.append(heapq.heappop(self._heap)[3])
            blocked = next((entry for entry in group if self._must_wait(entry)), None)
            if blocked is not None:
                self.blocked = _missing(blocked)
                for entry in group:
                    self._push(entry)
                resolved = ts - 1
                break
            self._learn_bootstraps(ts - 1)  # before a DDL removes their tables
            for captured in self._group(ts, group, position):
                self.state = follow(self.state, captured)
                yield captured
            for entry in group:
                entry.done = True
        yield self._reached(max(resolved, self.state.commit_ts))

    def position(self) -> str:
        """The position now, as text."""
        parts = (
            PartitionAt(topic, number, part.first(), part.next, part.watermark)
            for (topic, number), part in self.parts.items()
        )
        return StreamPosition(self._decoder.name, tuple(parts), self._ids).text()

    def _reached(self, ts: int) -> Resolved:
        self._learn_bootstraps(ts)
        resolved = Resolved(commit_ts=ts, position=self.position(), tables=tuple(self._learnt.values()))
        self._learnt = {}
        self.state = follow(self.state, resolved)
        return resolved

    def _learn_bootstraps(self, ts: int) -> None:
        while self._bootstraps and self._bootstraps[0].ts <= ts:
            entry = self._bootstraps.popleft()
            entry.done = True
            assert isinstance(entry.event, Bootstrap)
            self.learn(entry.event.table)

    def learn(self, table: Table) -> None:
        """Note the table of a given row, or of a BOOTSTRAP."""
        name = table.full_name
        known = self._tables.get(name)
        if known is table or (known is not None and not self._versioned):
            return
        self._tables[name] = table
        if known != table:
            self._learnt[name] = table

    def _row(self, part: _Part, message: Message, seq: int, event: Envelope) -> None:
        if not event.commit_ts:
            raise RejectedMessage(
                f"{place_of(message)}: a row of `{event.schema}`.`{event.table}` without its commitTs, so rows "
                "cannot be sorted; the source's changefeed needs enable-tidb-extension"
            )
        if event.commit_ts <= self.state.commit_ts:
            if message.offset >= part.given_below and part.watermark <= event.commit_ts:
                raise LateRow(
                    f"{place_of(message)}: a row of `{event.schema}`.`{event.table}` with commitTs {event.commit_ts} "
                    f"came after everything up to {self.state.commit_ts} was given, and is no replay of its partition"
                )
            self.replays += 1
            return
        self._push(_Entry(event.commit_ts, message, seq, event), part)

    def _ddl(self, part: _Part, message: Message, seq: int, event: SchemaChange) -> None:
        if self._versioned:
            self._reader.prepare_for(table for table in (event.pre_table, event.table) if table is not None)
        if event.commit_ts <= self.state.commit_ts:
            self.replays += 1
            return
        self._push(_Entry(event.commit_ts, message, seq, event), part)

    def _bootstrap(self, part: _Part, message: Message, seq: int, event: Bootstrap) -> None:
        """Note its version at once. The position keeps the message until the rows before it are given."""
        self._reader.prepare_for([event.table])
        name = event.table.full_name
        if self._tables.get(name) == event.table:
            return
        entry = _Entry(self._newest, message, seq, event)
        self._bootstraps.append(entry)
        part.waiting.append(entry)

    def _push(self, entry: _Entry, part: _Part | None = None) -> None:
        self._newest = max(self._newest, entry.ts)
        self._arrivals += 1
        rank = int(isinstance(entry.event, SchemaChange))
        # an entry that is put back keeps its place in its partition
        heapq.heappush(self._heap, (entry.ts, rank, self._arrivals, entry))
        if part is not None:
            part.waiting.append(entry)

    def _must_wait(self, entry: _Entry) -> bool:
        return isinstance(entry.event, Envelope) and self._reader.must_wait(entry.event)

    def _group(self, ts: int, group: list[_Entry], position: str) -> Iterator[Captured]:
        """The transaction and the DDL of one commit_ts."""
        ddls = [entry for entry in group if isinstance(entry.event, SchemaChange)]
        rows = self._rows([entry for entry in group if isinstance(entry.event, Envelope)])
        if rows:
            # a transaction with the commit_ts of the DDL gets a lower one, as a source's commit_ts must rise
            below = ts - 1 if ddls else ts
            yield Transaction(commit_ts=below, changes=tuple(rows), position=position)
        changes: dict[tuple[str, str, str], SchemaChange] = {}
        for entry in ddls:
            assert isinstance(entry.event, SchemaChange)
            identity = (entry.event.schema, entry.event.name, entry.event.query)
            if identity not in changes:
                (found,) = self._reader.read_event(entry.message, entry.seq, entry.event)
                assert isinstance(found.event, SchemaChange)
                changes[identity] = self._with_tables(found.event)
        if changes:
            yield CapturedDdl(commit_ts=ts, changes=tuple(changes.values()), position=position)

    def _rows(self, entries: list[_Entry]) -> list[RowChange]:
        rows, copies = read_rows(self._reader, entries, lambda change: self.learn(change.table))
        self.replays += copies
        return rows

    def _with_tables(self, change: SchemaChange) -> SchemaChange:
        """The DDL with its kind and known tables, as sources of changes give it."""
        kind = classify(change.query)
        before, after = change.pre_table, change.table
        if before is None and after is None:
            before, after = self._reader.tables_of(change)
        if before is None and kind not in ("create table", "create database"):
            before = self._named(change)
        if kind == "drop table":
            before, after = before or after, None
        gone = [table.full_name for table in (before, after) if table is not None]
        if kind == "drop database":
            gone += [name for name in (*self._tables, *self._learnt) if name[0] == change.schema]
        for name in gone:
            self._tables.pop(name, None)
            self._learnt.pop(name, None)  # learnt from rows before the DDL
        if after is not None:
            self._tables[after.full_name] = after
        return msgspec.structs.replace(change, kind=kind, pre_table=before, table=after)

    def _named(self, change: SchemaChange) -> Table | None:
        try:
            names, _ = ddl_tables(change.query, change.schema)
        except MessageError:
            names = (change.full_name,)
        return next((self._tables[name] for name in names if name in self._tables), None)


def _missing(entry: _Entry) -> str:
    assert isinstance(entry.event, Envelope)
    event = entry.event
    return (
        f"{place_of(entry.message)}: a row of `{event.schema}`.`{event.table}` needs version {event.schema_key} of it"
    )
