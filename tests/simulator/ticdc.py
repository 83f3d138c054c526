"""TiCDC: sends what happened in the database to the broker, as a changefeed does.

Everything is first put into an outbox of single messages, in the order in which they are sent, so that a story can
stop between any two of them: between the copies of a DDL, or between a row and the watermark that passes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from zlib import crc32

import msgspec

from tests.simulator.broker import Broker, Place
from tests.simulator.database import Database, Event, Name, Uid
from tests.simulator.feed import Checkpoint, Feed, Out, Sent
from tests.simulator.letters import folded
from tests.simulator.wire import WIRES, encoder
from ticdc_spark.model import Message, Row, RowChange, SchemaChange, Table
from ticdc_spark.mysql import handle_key, tso_physical_ms
from ticdc_spark.protocols.base import Encoded

DEFAULT_TOPIC = "cdc"
_MOST_EVENTS = 6
"""Transactions that are put into the outbox together; within them messages may overtake."""


class TiCdc:
    """One changefeed."""

    def __init__(self, feed: Feed, database: Database, broker: Broker, start: int = 0) -> None:
        """``start``: index of the first event that is sent (the changefeed's start-ts)."""
        self.feed, self.database, self.broker = feed, database, broker
        self.wire, self.encoder = WIRES[feed.protocol], encoder(feed.protocol, feed.zone, batched=feed.batched)
        self.outbox: list[Out] = []
        self.next = start
        """Index of the first event that is not in the outbox yet."""
        self.start = start
        self.stalled: set[Place] = set()
        """Partitions that get no watermarks for now."""
        self.widened = False
        self.sent: dict[Uid, Sent] = {}
        """By table: where its messages went, under which names. A table that is not here is not known to a job."""
        self.watermark = 0
        """The highest one that was put into the outbox since the last restart."""
        self.highest = 0
        """The highest one that was sent."""
        self.owners: dict[tuple[str, int, int, int], tuple[Uid, ...]] = {}
        """(topic id, partition, offset) to the tables that a message is about."""
        self.corrupt: Random | None = None
        """Spoils a value of the next row message."""
        self.corrupted: set[Uid] = set()
        self.mangled: set[Uid] = set()
        self.unnamed: set[Uid] = set()
        """Tables of a mangled DDL in the topic of another table: nothing that can be read names them there."""
        self._shown: set[tuple[Uid, str]] = set()
        self.lacking = ""
        """The column that rows of the table ``feed.lacks`` lack."""
        self.lacked = 0
        """Rows without it."""
        self.mangle = False
        """The next message that is no watermark cannot be read at all."""
        self._topics: dict[str, None] = {DEFAULT_TOPIC: None}
        self._checkpoints: list[Checkpoint] = [Checkpoint(0, start, (DEFAULT_TOPIC,))]
        self._bootstrapped: set[tuple[Uid, int | None, Name]] = set()

    # ---- sending

    def send(self, rand: Random, count: int) -> int:
        """Send the next ``count`` messages, or as many as there are."""
        done = 0
        while done < count:
            if not self.outbox and not self._refill(rand):
                break
            out = self.outbox.pop(0)
            if out.watermark and out.place in self.stalled:
                continue
            self._put(out)
            done += 1
        return done

    def flush(self, rand: Random) -> None:
        """Send what is in the outbox, to every partition: TiCDC does not hang for a minute between two messages, nor
        behind a watermark that it had sent before a restart."""
        self.stalled.clear()
        events = self.database.events
        while self.next < len(events) and events[self.next].ts < self.highest:
            self._refill(rand)
        if self.highest:
            self._announce(self.highest)
        self.send(rand, len(self.outbox))

    def drain(self, rand: Random) -> int:
        """Send everything, stalls lifted, and a last watermark above it all; return that watermark."""
        self.stalled.clear()
        while self.outbox or self.next < len(self.database.events):
            self.send(rand, 1000)
        last = self.database.tick(rand)
        self._announce(last)
        self.send(rand, len(self.outbox))
        return last

    def restart(self, rand: Random, *, far: bool = False) -> None:
        """TiCDC dies and goes on from an older checkpoint: rows, DDLs and watermarks come again. ``far``: any
        older one."""
        unsent = min((out.index for out in self.outbox), default=self.next)
        allowed = [point for point in self._checkpoints if point.index <= unsent]
        point = rand.choice(allowed if far else allowed[-4:])
        self._go_back(point)

    def widen(self) -> bool:
        """The changefeed's filter is widened, and it starts again from its oldest start-ts. Returns: whether that is
        its first one"""
        self.widened = True
        self._go_back(self._checkpoints[0])
        return self.next == self.start

    def advance(self, rand: Random) -> None:
        """A watermark although nothing happened."""
        if not self.outbox and self.next == len(self.database.events):
            self._announce(self.database.tick(rand))

    def is_withheld(self, uid: Uid) -> bool:
        """Whether the changefeed's filter leaves a table out."""
        return not self.widened and uid == self.feed.withheld

    def is_hidden(self, uid: Uid) -> bool:
        """Whether nothing that can be read names a table: all of its messages are mangled."""
        return uid in self.mangled and all(uid != shown for shown, _ in self._shown)

    def is_silent(self, uid: Uid, name: Name) -> bool:
        """Whether nothing that can be read is in the topic of a table's name: a mangled DDL gave it the name."""
        return self.feed.topic_per_table and (uid, self._topic(*name)) not in self._shown

    def names_in(self, uid: Uid, topic: str) -> set[Name]:
        """The names that a table has had and that a topic is of."""
        return {name for name in self.sent[uid].names if self._topic(*name) == topic}

    def place_of(self, uid: Uid, message: Message) -> bool:
        """Whether a message is about a table."""
        topic = self.broker.topics.get(message.topic)
        return topic is not None and uid in self.owners.get(
            (message.topic, topic.id, message.partition, message.offset), ()
        )

    def forget_before(self, index: int) -> bool:
        """Never go back to before an event: its tables are dropped. Returns: whether that can be, as nothing from
        before it is to be sent."""
        if self.next <= index or any(out.index <= index for out in self.outbox):
            return False
        left = [point for point in self._checkpoints if point.index > index]
        self._checkpoints = left or self._checkpoints
        return bool(left)

    def live_topics(self) -> set[str]:
        """The topics that watermarks go to."""
        return set(self._topics)

    def _go_back(self, point: Checkpoint) -> None:
        self.outbox.clear()
        self.next, self.watermark = point.index, point.ts
        self._topics = dict.fromkeys(point.topics)
        self._checkpoints = [one for one in self._checkpoints if one.index <= point.index and one.ts <= point.ts]
        self._bootstrapped.clear()

    def _put(self, out: Out) -> None:
        encoded = out.encoded
        self.highest = max(self.highest, out.watermark)
        if self.corrupt is not None and out.row is not None:
            spoilt = self._spoil(out.row, self.corrupt)
            if spoilt is not None:
                encoded, self.corrupt = spoilt, None
                self.corrupted.update(out.uids)
        if self.mangle and not out.watermark and encoded.value:
            self.mangled.update(out.uids)
            if len(out.uids) > 1:
                self.unnamed.update(uid for uid in out.uids if (uid, out.place[0]) not in self._shown)
            encoded, self.mangle = Encoded(encoded.key, encoded.value[: len(encoded.value) // 2] + b"\xff"), False
        else:
            self._shown.update((uid, out.place[0]) for uid in out.uids)
        ms = tso_physical_ms(max(self.watermark, self.database.ts))
        message = self.broker.append(out.place, encoded.key, encoded.value, ms)
        topic = self.broker.topics[message.topic]
        self.owners[message.topic, topic.id, message.partition, message.offset] = out.uids

    def _spoil(self, change: RowChange, rand: Random) -> Encoded | None:
        """The message with a value that is none of its column's type; ``None``: no column suits."""
        image = change.after
        times = [one.name for one in change.table.columns if one.type.name in ("datetime", "timestamp")]
        times = [name for name in times if image is not None and image[name] is not None]
        if image is None or not times or any(_is_time(image, name) for name in image.keys() - times):
            return None  # in a text, it would be one
        encoded = next(iter(self.encoder.rows([change])))
        text = image[rand.choice(times)]
        assert isinstance(text, str)
        if encoded.value is None or self.feed.zone != "UTC" or encoded.value.count(text[:19].encode()) < 1:
            return None
        return Encoded(encoded.key, encoded.value.replace(text[:19].encode(), b"20x4-not-a-time!!!!"), 1)

    # ---- the outbox

    def _refill(self, rand: Random) -> bool:
        """Put the next stretch of events into the outbox: some transactions, or one schema change."""
        events, first = self.database.events, self.next
        if first >= len(events):
            return False
        last = first
        while last < len(events) and last - first < _MOST_EVENTS and events[last].rows:
            last += 1
        if last == first:
            self._schema_change(rand, events[first], first)
            self.next = first + 1
            return True
        items: list[tuple[float, Out]] = []
        rows: list[Out] = []
        for index in range(first, last):
            event = events[index]
            if rand.random() < 0.35 or index == first:
                # A watermark often equals the commitTs of what comes next.
                ts = event.ts if rand.random() < 0.5 or not index else events[index - 1].ts + 1
                items += [(index, out) for out in self._watermarks(ts, index)]
            for uid, change in event.rows:
                if not self.is_withheld(uid):
                    items += [(index, out) for out in self._bootstrap(uid, change.table, index)]
                    change = self._selected(uid, change)
                    out = Out(self._place(uid, change), _NOTHING, index, (uid,), row=change)
                    rows.append(out)
                    early = rand.random() < self.feed.reorder
                    items.append((index - rand.random() * _MOST_EVENTS if early else index, out))
        self._encode(rows, items)
        ordered = [out for _, out in sorted(items, key=_at)]
        self.outbox += self._twice(rand, self._unevenly(rand, ordered))
        self.next = last
        if last == len(events) and rand.random() < 0.7:
            self._announce(events[-1].ts + 1)
        return True

    def _selected(self, uid: Uid, change: RowChange) -> RowChange:
        """A row change without the column that the changefeed's column selector leaves out."""
        if uid != self.feed.lacks:
            return change
        table, keys = change.table, handle_key(change.table)
        free = [column.name for column in table.columns if column.nullable and column.name not in keys]
        self.lacking = self.lacking or (free[0] if free else "")
        if self.lacking not in free or len(free) < 2:
            return change
        self.lacked += 1
        columns = tuple(column for column in table.columns if column.name != self.lacking)
        before, after = (
            None if row is None else {name: row[name] for name in row if name != self.lacking}
            for row in (change.before, change.after)
        )
        less = msgspec.structs.replace(table, columns=columns)
        return msgspec.structs.replace(change, table=less, before=before, after=after)

    def _encode(self, rows: list[Out], items: list[tuple[float, Out]]) -> None:
        """Write the messages of rows; a message of Open holds several rows of one transaction and partition."""
        if self.feed.protocol != "open" or not self.feed.batched:
            for out, encoded in zip(rows, self.encoder.rows([out.row for out in rows if out.row]), strict=True):
                out.encoded = encoded
            return
        groups: dict[tuple[int, Place], list[Out]] = {}
        for out in rows:
            groups.setdefault((out.index, out.place), []).append(out)
        gone: set[int] = set()
        for group in groups.values():
            at = 0
            for encoded in self.encoder.rows([out.row for out in group if out.row]):
                head, rest = group[at], group[at + 1 : at + encoded.rows]
                head.encoded = encoded
                if rest:
                    head.uids = tuple(sorted({uid for out in group[at : at + encoded.rows] for uid in out.uids}))
                    head.row = None
                gone.update(map(id, rest))
                at += encoded.rows
        items[:] = [item for item in items if id(item[1]) not in gone]

    def _unevenly(self, rand: Random, ordered: list[Out]) -> list[Out]:
        """Each partition gets its messages in order, but some partitions get theirs earlier than others."""
        if not self.feed.uneven or rand.random() < 0.5:
            return ordered
        speed: dict[Place, float] = {}
        for out in ordered:
            if out.place not in speed:
                speed[out.place] = rand.random()
        numbered = sorted(enumerate(ordered), key=lambda item: item[0] * speed[item[1].place])
        return [out for _, out in numbered]

    def _twice(self, rand: Random, ordered: list[Out]) -> list[Out]:
        if not self.feed.duplicates:
            return ordered
        sent = list(ordered)
        for out in ordered:
            if out.row is not None and rand.random() < self.feed.duplicates:
                sent.insert(min(len(sent), sent.index(out) + 1 + rand.randrange(4)), out)
        return sent

    def _schema_change(self, rand: Random, event: Event, index: int) -> None:
        self.outbox += self._watermarks(event.ts, index)
        change = event.change
        # The DROP of a database is sent as its CREATE was, whatever tables are in it.
        hidden = change is None or (bool(change.name and event.uids) and all(map(self.is_withheld, event.uids)))
        if change is not None and not hidden:
            topic = self._ddl_topic(change)
            sent_ddl = change
            if self.feed.no_pre_table and change.query.startswith("ALTER") and change.kind != "RENAME":
                sent_ddl = msgspec.structs.replace(change, pre_table=None)
            encoded = self.encoder.ddl(sent_ddl)
            if encoded is not None:
                for uid in (uid for uid in event.uids if not self.is_withheld(uid)):
                    self._note(uid, topic, (change.table, change.pre_table))
                partitions = self._partitions() if self.wire.ddl_everywhere else 1
                outs = [Out((topic, at), encoded, index, event.uids) for at in range(partitions)]
                self.outbox += self._unevenly(rand, outs)
        names = [name for uid, name in event.live if not self.is_withheld(uid)]
        self._topics = dict.fromkeys([DEFAULT_TOPIC, *(self._topic(*name) for name in names)])

    def _announce(self, ts: int) -> None:
        self.outbox += self._watermarks(ts, self.next)

    def _watermarks(self, ts: int, index: int) -> list[Out]:
        ts = max(ts, self.watermark)
        self.watermark = ts
        self._checkpoints.append(Checkpoint(ts, index, tuple(self._topics)))
        encoded = self.encoder.watermark(ts)
        assert encoded is not None
        return [
            Out((topic, at), encoded, index, (), watermark=ts)
            for topic in self._topics
            for at in range(self._partitions())
        ]

    def _bootstrap(self, uid: Uid, table: Table, index: int) -> Iterable[Out]:
        version = (uid, table.version, (table.schema, table.name))
        if not self.feed.bootstrap or version in self._bootstrapped:
            return []
        self._bootstrapped.add(version)
        encoded = self.encoder.bootstrap(table)
        if encoded is None:
            return []
        topic = self._topic(table.schema, table.name)
        return [Out((topic, at), encoded, index, (uid,)) for at in range(self._partitions())]

    # ---- routes

    def _place(self, uid: Uid, change: RowChange) -> Place:
        table = change.table
        topic = self._topic(table.schema, table.name)
        self._note(uid, topic, (table,))
        partitions = self._partitions()
        if partitions == 1:
            return topic, 0
        start = crc32(f"{table.schema}.{table.name}".encode())
        row = change.before if change.after is None else change.after
        if self.feed.by_key and row is not None:
            start = crc32(repr([row[name] for name in handle_key(table)]).encode(), start)
        return topic, start % partitions

    def _note(self, uid: Uid, topic: str, tables: Iterable[Table | None]) -> None:
        sent = self.sent.setdefault(uid, Sent())
        sent.topics.add(topic)
        sent.names.update(folded((table.schema, table.name)) for table in tables if table is not None)

    def _partitions(self) -> int:
        return max(1, self.feed.partitions - self.feed.idle_partitions)

    def _topic(self, schema: str, name: str) -> str:
        return f"{DEFAULT_TOPIC}_{schema}_{name}".lower() if self.feed.topic_per_table else DEFAULT_TOPIC

    def _ddl_topic(self, change: SchemaChange) -> str:
        table = change.pre_table or change.table
        return self._topic(table.schema, table.name) if table else DEFAULT_TOPIC


_NOTHING = Encoded(None, None)


def _at(item: tuple[float, Out]) -> float:
    return item[0]


def _is_time(row: Row, name: str) -> bool:
    """Whether a text or bytes may be the text of a time, which it was before the column's type changed."""
    value = row[name]
    text = value.decode("latin-1") if isinstance(value, bytes) else value or ""
    return len(text) >= 19 and text[4] == "-" and text[13] == ":"
