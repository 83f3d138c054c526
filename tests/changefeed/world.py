"""A broker, a state folder and a process that dies, around the sequence, in memory and from a seed."""

from collections import deque
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from tests.changefeed.history import History
from tests.support.changefeed_tables import cadence
from ticdc_spark.capture.base import CapturedDdl, CaptureState, Resolved, Transaction
from ticdc_spark.changefeed.actions import (
    Announce,
    Cadence,
    Place,
    Routed,
    Save,
    SendBatch,
    SendBootstrap,
    SendDdl,
    SendRows,
    SendWatermark,
)
from ticdc_spark.model import RowChange, SchemaChange, Table


class Wrong(AssertionError):
    """A rule is broken."""


class Record(NamedTuple):
    """A message in a partition."""

    what: RowChange | SchemaChange | Table | int
    """A row, a DDL, a BOOTSTRAP's table, or a watermark."""
    life: int
    """Which process sent it."""


class Rows(NamedTuple):
    """A ``Batch``: rows that tasks send, on connections of their own."""

    placed: Sequence[tuple[Place, RowChange]]

    @property
    def rows(self) -> int:
        return len(self.placed)

    @property
    def announces(self) -> Sequence[Announce]:
        first: dict[tuple[str, Table], int] = {}
        for place, change in self.placed:
            first.setdefault((place[0], change.table), change.commit_ts)
        return [Announce(topic, table, ts, 1) for (topic, table), ts in first.items()]


class Flying(NamedTuple):
    record: Record
    ticket: int


class World:
    """Runs the sequence over a history until all is sent, with deaths, and checks each action as it is done."""

    def __init__(self, seed: int, sequencer: type[Any], *, deaths: int = 3) -> None:
        rand = self._rand = Random(seed)
        self.history = History(seed, clock=rand.random() < 0.3)
        self._sequencer = sequencer
        self._deaths = rand.randint(0, deaths)
        self.by_table = rand.random() < 0.5
        self._partitions = rand.randint(1, 3)
        self.first_only = rand.random() < 0.2
        self.bootstrap = rand.choice((None, cadence(), cadence(messages=5, interval=3)))
        if self.bootstrap is not None and rand.random() < 0.3:
            self.bootstrap = cadence(messages=4, to_all_partitions=False, all_at_start=True)
        if self.first_only:
            self.bootstrap = None  # no protocol has both
        self.logs: dict[Place, list[Record]] = {}
        self._flying: dict[Place, deque[Flying]] = {}
        self._by_tasks: dict[Place, deque[Flying]] = {}
        """On the connections of tasks, which nothing keeps in order with those of the process."""
        self._share_of_batches = rand.choice((0.0, 0.0, 0.4, 1.0))
        self._left: dict[int, int] = {}
        self._unacked: list[tuple[int, Record]] = []
        """Rows and DDL that were handed over and not acknowledged, by ticket."""
        self.stored: CaptureState = self.history.first
        self.life = 0
        self.now = 0.0
        self._running: Any = None
        self._quiet_since = 0.0

    # Layout

    def topics(self, tables: Iterable[Table]) -> Iterable[str]:
        return ["main", *(f"main_{table.name}" for table in tables)] if self.by_table else ["main"]

    def topic_of(self, table: Table) -> str | None:
        return f"main_{table.name}" if self.by_table else "main"

    def partitions(self, topic: str) -> int:
        for number in range(self._partitions):
            self.logs.setdefault((topic, number), [])
            self._flying.setdefault((topic, number), deque())
            self._by_tasks.setdefault((topic, number), deque())
        return self._partitions

    # The process

    def run(self) -> None:
        while not self._live():
            self._deaths -= 1
            for place, queue in (*self._flying.items(), *self._by_tasks.items()):
                for _ in range(self._rand.randint(0, len(queue))):  # arrived, and the answer is lost
                    self.logs[place].append(queue.popleft().record)
                queue.clear()

    def _live(self) -> bool:
        """One life of the process; whether it came to the end."""
        self.life += 1
        self._unacked, self._left = [], {}
        self._quiet_since = self.now
        self._acked: list[int] = []
        rand = self._rand
        dies_after = rand.randint(5, 150) if self._deaths > 0 else None
        bootstrap = self.bootstrap
        cadence = Cadence(
            bootstrap=bootstrap, ddl_to_first_partition=self.first_only, rows_in_flight=rand.choice((3, 50))
        )
        self._cadence = cadence
        sequencer = self._running = self._sequencer(self.stored, self, cadence, self.now)
        self._source = self.history.read(self.stored)
        self._clock_ts = 0
        ended = False
        for step in range(5000):
            if sequencer.done:
                return True
            if step == dies_after:
                return False
            self.now += rand.choice((0.01, 0.05, 0.3))
            for _ in range(rand.choice((0, 0, 1, 2, 6))):
                if ended or not sequencer.wants():
                    break
                element = next(self._source, None)
                if element is None:
                    ended = True
                    sequencer.end()
                    break
                sequencer.offer(self._in_batch(element) or self._route(element))
                if isinstance(element, Resolved) and element.from_clock:
                    self._clock_ts = element.commit_ts
            if self._do(sequencer) == "dead":
                return False
            self._deliver(rand.random() < 0.5)
            acked, self._acked = self._acked, []
            for ticket in acked:
                sequencer.acknowledge(ticket)
            self._check_rounds()
        raise Wrong("it does not come to an end")

    def _route(self, element: Any) -> Routed:
        if isinstance(element, Transaction):
            return Routed(element, rows=[(self._place(row), row) for row in element.changes])
        if isinstance(element, CapturedDdl):
            ddls = [
                (change, change.pre_table or change.table) for change in element.changes if change.query != "hidden"
            ]
            return Routed(element, ddls=[(self.topic_of(table) or "", change) for change, table in ddls if table])
        return Routed(element)

    def _in_batch(self, element: Any) -> Routed | None:
        if not isinstance(element, Transaction) or self._rand.random() >= self._share_of_batches:
            return None
        end = Resolved(commit_ts=element.commit_ts, position=element.position)
        return Routed(end, batch=Rows(self._route(element).rows))

    def _place(self, row: RowChange) -> Place:
        topic = self.topic_of(row.table)
        assert topic is not None
        key = (row.after or row.before or {})["id"]
        return topic, crc32(f"{row.table.version}{key}".encode()) % self.partitions(topic)

    def _do(self, sequencer: Any) -> str:
        for _ in range(100):
            actions = sequencer.actions(self.now)
            for action in actions:
                if isinstance(action, Save):
                    self._check_save(action.state)
                    self.stored = action.state
                    if self._deaths > 0 and self._rand.random() < 0.03:
                        return "dead"
                    sequencer.saved(action.state)
                else:
                    self._hand_over(action)
            if not actions:
                return ""
        raise Wrong("actions without end")

    def _hand_over(self, action: SendRows | SendBatch | SendDdl | SendBootstrap | SendWatermark) -> None:
        queues = self._flying
        match action:
            case SendBatch():
                assert isinstance(action.batch, Rows)
                self._check_rows(SendRows(action.ticket, ("", 0), [change for _, change in action.batch.placed]))
                sent: list[tuple[Place, Any]] = [*action.batch.placed]
                queues = self._by_tasks
            case SendRows():
                self._check_rows(action)
                sent = [(action.place, change) for change in action.changes]
            case SendDdl():
                self._check_ddl(action)
                sent = [(place, action.change) for place in action.places]
            case SendBootstrap():
                sent = [(place, action.table) for place in action.places]
            case SendWatermark():
                self._check_watermark(action)
                sent = [(place, action.commit_ts) for place in action.places]
        if not sent:
            raise Wrong(f"an action that sends nothing: {action}")
        self._left[action.ticket] = len(sent)
        for place, what in sent:
            record = Record(what, self.life)
            queues[place].append(Flying(record, action.ticket))
            if not isinstance(what, int | Table):
                self._unacked.append((action.ticket, record))

    def _deliver(self, some: bool) -> None:
        """Messages arrive, in order within each partition, and most are acknowledged."""
        queues = [*self._flying.items(), *self._by_tasks.items()]
        self._rand.shuffle(queues)
        for place, queue in queues:
            for _ in range(self._rand.randint(0, len(queue)) if some else 0):
                flying = queue.popleft()
                self.logs[place].append(flying.record)
                self._left[flying.ticket] -= 1
                if not self._left[flying.ticket]:
                    self._acked.append(flying.ticket)
                    self._unacked = [one for one in self._unacked if one[0] != flying.ticket]

    # The rules, at the moment of each action

    def _check_rows(self, action: SendRows) -> None:
        for _, record in self._unacked:
            if isinstance(record.what, SchemaChange):
                raise Wrong("rows are sent while a DDL before them is not acknowledged")
        if any(change.commit_ts > self._clock_ts > self.stored.commit_ts for change in action.changes):
            raise Wrong("rows after a time of the clock that is not stored")

    def _check_ddl(self, action: SendDdl) -> None:
        others = [record for ticket, record in self._unacked if ticket != action.ticket]
        if any(isinstance(record.what, RowChange) for record in others):
            raise Wrong("a DDL is sent while a row before it is not acknowledged")
        topic = action.places[0][0]
        wanted = {(topic, number) for number in range(1 if self.first_only else self._partitions)}
        if set(action.places) != wanted:
            raise Wrong(f"a DDL goes to {action.places}, not to {wanted}")

    def _check_watermark(self, action: SendWatermark) -> None:
        if action.commit_ts > self.stored.commit_ts + 1:
            raise Wrong("a watermark above what is stored")
        for _, record in self._unacked:
            assert isinstance(record.what, RowChange | SchemaChange)
            if record.what.commit_ts < action.commit_ts:
                raise Wrong(f"a watermark {action.commit_ts} above {record.what.commit_ts}, which is not acknowledged")
        self._check_all_is_there(action.commit_ts - 1, "a watermark")
        topics = self.topics(self._running.state.tables)
        places = {(topic, number) for topic in topics for number in range(self._partitions)}
        if {*action.places} != places:
            raise Wrong(f"a watermark goes to {action.places}, not to {places}")
        self._quiet_since = self.now

    def _check_save(self, state: CaptureState) -> None:
        if state.commit_ts < self.stored.commit_ts:
            raise Wrong("progress goes back")
        self._check_all_is_there(state.commit_ts, "progress")

    def _check_all_is_there(self, ts: int, what: str) -> None:
        there = {id(record.what) for log in self.logs.values() for record in log}
        for element in self.history.elements:
            if element.commit_ts > ts:
                break
            routed = self._route(element)
            for _, change in (*routed.rows, *routed.ddls):
                if id(change) not in there:
                    raise Wrong(f"{what} at {ts}, and what happened at {change.commit_ts} is nowhere")

    def _check_rounds(self) -> None:
        """Each second where nothing is on its way: a round waits for the one before it."""
        if any(self._flying.values()) or any(self._by_tasks.values()) or self._running.done:
            self._quiet_since = self.now
        elif self.now - self._quiet_since > self._cadence.interval + 0.7:
            raise Wrong(f"no watermark for {self.now - self._quiet_since:.1f} s")
