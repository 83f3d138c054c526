"""Decides in which order and when messages are sent, without clock, broker or files.

The rules come from TiCDC's documents:

- A partition gets rows in the order of their commitTs.
- A DDL is sent when every row before it is acknowledged, in all topics. Later messages wait until the DDL is.
- A WATERMARK W says that everything with a commitTs below W has been sent. It goes each second to every partition of
  all tables' topics, and of the default topic. It never exceeds the acknowledged and the saved progress. So messages
  that are repeated after a restart are above every sent watermark, and watermarks do not go back. After a read of
  existing tables, no watermark is sent before the progress has passed the time of the read.
- A BOOTSTRAP precedes the first row of a table in this process, and of a version that no DDL announced. More follow by
  interval or count, until the table has had no rows for half an hour.
- A batch, whose rows another process sends, is sent when everything before it and its tables' BOOTSTRAPs are
  acknowledged. Later messages wait until all its rows are. So two senders never write to a partition at once.
- Progress that may be saved is the state after the last element before which everything is acknowledged.
"""

from __future__ import annotations

from collections import deque

import msgspec

from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, Resolved, follow
from ticdc_spark.changefeed.actions import (
    Action,
    Announce,
    Cadence,
    Layout,
    Place,
    Routed,
    Save,
    SendBatch,
    SendBootstrap,
    SendDdl,
    SendRows,
    SendWatermark,
)
from ticdc_spark.changefeed.first_rows import first_rows
from ticdc_spark.model import RowChange, SchemaChange, Table

BOOTSTRAP_IDLE = 1800.0
"""Seconds without rows after which a table gets no more BOOTSTRAPs, until it has a row."""

BOOTSTRAP_LOOK = 5.0
"""Seconds between two checks which tables are due for a BOOTSTRAP."""


class _Announced(msgspec.Struct):
    """What readers of a topic know of a table."""

    table: Table
    at: float
    rows: int = 0
    last_row: float = 0.0


class Sequencer:
    """Takes routed elements, the time and acknowledgements. Gives actions, to be done in order."""

    def __init__(
        self, state: CaptureState, layout: Layout, cadence: Cadence, now: float, *, consistent_from: int = 0
    ) -> None:
        """``state``: as stored; nothing up to it is sent again. ``consistent_from``: no watermark is sent before the
        progress reaches it."""
        self._consistent_from = consistent_from
        self._layout = layout
        self._cadence = cadence
        self._state = state
        self._saved = state
        self._saving = False
        self._buffer: dict[Place, list[RowChange]] = {}
        self._buffered = 0
        self._first: dict[int, int] = {}
        self._dirty = False
        self._ddl: Routed | None = None
        self._ddl_sent = False
        self._batch: Routed | None = None
        self._batch_stage = 0
        self._save_now = False
        self._hold = 0
        """The source continues when the saved state has reached this commit_ts."""
        self._ended = False
        self._tickets = 0
        self._open: dict[int, int] = {}
        """Unacknowledged tickets and their numbers of rows, the oldest first."""
        self._in_flight = 0
        self._points: deque[tuple[int, CaptureState]] = deque()
        """(ticket, state): after the ticket, everything up to the state has been given out."""
        self._watermark_ticket: int | None = None
        self._next_tick = now
        self._next_save = now
        self._next_look = now
        self._last_watermark = 0
        self._announced: dict[tuple[str, str, str], _Announced] = {}
        self._extra: set[str] = set()
        """Topics of rows whose tables are not in the source's state."""
        self._places: tuple[Place, ...] | None = None
        self._known: set[tuple[str, str]] = {table.full_name for table in state.tables}
        self._greeted = False
        self._covered: CaptureState | None = None

    @property
    def state(self) -> CaptureState:
        """The state after the last element that was taken."""
        return self._state

    @property
    def saved_state(self) -> CaptureState:
        """The state that is stored."""
        return self._saved

    @property
    def waiting(self) -> int:
        """How many rows are taken and not acknowledged."""
        return self._buffered + self._in_flight

    @property
    def is_waiting(self) -> bool:
        """Whether anything is not acknowledged: rows, or messages without rows, such as watermarks."""
        return bool(self.waiting or self._open) or self._watermark_ticket is not None

    def wants(self) -> bool:
        """Whether another element may be offered."""
        held = self._saved.commit_ts < self._hold
        busy = self._ddl is not None or self._batch is not None
        return not busy and not held and not self._ended and self.waiting < self._cadence.rows_in_flight

    def offer(self, routed: Routed) -> None:
        """Take the next element of the source; only if ``wants``."""
        assert self.wants()
        captured = routed.captured
        self._dirty = True
        if isinstance(captured, CapturedDdl):
            if routed.ddls:
                self._ddl = routed
            else:
                self._follow(captured)
            return
        if routed.batch is not None:
            self._batch, self._batch_stage = routed, 0
            return
        for place, change in routed.rows:
            rows = self._buffer.get(place)
            if rows is None:
                rows = self._buffer[place] = []
            rows.append(change)
        self._buffered += len(routed.rows)
        self._follow(captured)
        if isinstance(captured, Resolved) and captured.from_clock:
            # the commit_ts of later elements is fixed only once this is stored
            self._hold, self._save_now = captured.commit_ts, True

    def end(self) -> None:
        """Take no more elements. The last progress and watermark are still sent."""
        self._ended = True

    def acknowledge(self, ticket: int) -> None:
        """Note that the broker has acknowledged every message of an action."""
        if ticket == self._watermark_ticket:
            self._watermark_ticket = None
        else:
            self._in_flight -= self._open.pop(ticket)

    def saved(self, state: CaptureState) -> None:
        """Note that progress is stored."""
        self._saving = False
        self._saved = state

    @property
    def done(self) -> bool:
        """Whether all is sent, acknowledged and stored, after ``end``."""
        return (
            self._ended
            and self._ddl is None
            and self._batch is None
            and not self._buffered
            and not self._open
            and self._watermark_ticket is None
            and _same(self._saved, self._state)
            and not self._owes_watermark()
        )

    def actions(self, now: float) -> list[Action]:
        """What to do now. Call it again after acknowledgements, and about every 0.1 s."""
        out: list[Action] = []
        self._greet(out, now)
        self._flush(out, now)
        self._advance_batch(out, now)
        self._advance_ddl(out)
        self._save(out, now)
        self._mark(out, now)
        self._repeat_bootstraps(out, now)
        return out

    def _ticket(self, rows: int = 0) -> int:
        self._tickets += 1
        self._open[self._tickets] = rows
        self._in_flight += rows
        return self._tickets

    def _follow(self, captured: Captured) -> None:
        before = self._state.tables
        self._state = follow(self._state, captured)
        if self._state.tables is not before:
            self._places = None
            self._known = {table.full_name for table in self._state.tables}

    def _greet(self, out: list[Action], now: float) -> None:
        """Send the BOOTSTRAPs of all tables, if they are sent at the start. TiCDC sends these as DDLs, so they go to
        every partition, whatever ``send-bootstrap-to-all-partition`` says (``cdc/owner/ddl_manager.go``)."""
        if self._greeted:
            return
        self._greeted = True
        bootstraps = self._cadence.bootstraps
        if bootstraps is None or not bootstraps.all_at_start:
            return
        for table in self._state.tables:
            topic = self._layout.topic_of(table)
            if topic is not None:
                self._send_bootstrap(out, self._partitions_of(topic), table, self._state.commit_ts, now)

    def _flush(self, out: list[Action], now: float) -> None:
        """Give out the taken rows, and note the state after them."""
        if not self._dirty:
            return
        self._dirty = False
        if self._buffered:
            self._first = first_rows(self._buffer.values()) if self._cadence.bootstraps else {}
            for place, changes in self._buffer.items():
                self._announce(out, place[0], changes, now)
            for place, changes in self._buffer.items():
                out.append(SendRows(self._ticket(len(changes)), place, changes))
            self._buffer = {}
            self._buffered = 0
        self._points.append((self._tickets, self._state))

    def _announce(self, out: list[Action], topic: str, changes: list[RowChange], now: float) -> None:
        """Send the schemas that readers of these rows do not have yet."""
        bootstraps = self._cadence.bootstraps
        last: Table | None = None
        known: _Announced | None = None
        for change in changes:
            table = change.table
            if table is not last:
                last = table
                self._note_topic(topic, table)
                if bootstraps is None:
                    continue
                known = self._announced.get((topic, table.schema, table.name))
                if known is None or (known.table is not table and known.table != table):
                    ts = self._first.get(id(table), change.commit_ts)
                    known = self._bootstrap(out, topic, table, ts, now)
                known.table = table
                known.last_row = now
            if known is not None:
                known.rows += 1
                if bootstraps is not None and known.rows > bootstraps.messages:
                    known = self._bootstrap(out, topic, table, change.commit_ts, now)

    def _bootstrap(self, out: list[Action], topic: str, table: Table, ts: int, now: float) -> _Announced:
        bootstraps, places = self._cadence.bootstraps, self._partitions_of(topic)
        assert bootstraps is not None
        return self._send_bootstrap(out, places if bootstraps.to_all_partitions else places[:1], table, ts, now)

    def _send_bootstrap(
        self, out: list[Action], places: tuple[Place, ...], table: Table, ts: int, now: float
    ) -> _Announced:
        out.append(SendBootstrap(self._ticket(), places, table, ts))
        topic = places[0][0]
        known = self._announced[topic, table.schema, table.name] = _Announced(table, now, last_row=now)
        return known

    def _partitions_of(self, topic: str) -> tuple[Place, ...]:
        """The partitions of a topic, which is created if it does not exist."""
        return tuple((topic, number) for number in range(self._layout.partitions(topic)))

    def _repeat_bootstraps(self, out: list[Action], now: float) -> None:
        bootstraps = self._cadence.bootstraps
        busy = self._ddl is not None or self._batch is not None
        if bootstraps is None or self._ended or busy or now < self._next_look:
            return
        self._next_look = now + min(BOOTSTRAP_LOOK, bootstraps.interval)
        for key, known in [*self._announced.items()]:
            if now - known.last_row > BOOTSTRAP_IDLE:
                del self._announced[key]
            elif now - known.at >= bootstraps.interval:
                last_row = known.last_row
                self._bootstrap(out, key[0], known.table, self._state.commit_ts, now).last_row = last_row

    def _advance_batch(self, out: list[Action], now: float) -> None:
        routed = self._batch
        if routed is None or self._open:
            return  # messages before it, its BOOTSTRAPs, or the batch itself are not acknowledged
        batch = routed.batch
        assert batch is not None
        if self._batch_stage == 0:
            self._batch_stage = 1
            for announce in batch.announces:
                self._announce_batch(out, announce, now)
            if self._open:
                return
        if self._batch_stage == 1:
            self._batch_stage = 2
            if batch.rows:
                out.append(SendBatch(self._ticket(batch.rows), batch))
                return
        self._batch = None
        self._follow(routed.captured)
        self._points.append((self._tickets, self._state))

    def _announce_batch(self, out: list[Action], announce: Announce, now: float) -> None:
        topic, table = announce.topic, announce.table
        self._note_topic(topic, table)
        bootstraps = self._cadence.bootstraps
        if bootstraps is None:
            return
        known = self._announced.get((topic, table.schema, table.name))
        if known is None or known.table != table or known.rows > bootstraps.messages:
            known = self._bootstrap(out, topic, table, announce.first_ts, now)
        known.table = table
        known.last_row = now
        known.rows += announce.rows

    def _note_topic(self, topic: str, table: Table) -> None:
        if table.full_name not in self._known and topic not in self._extra:
            self._extra.add(topic)
            self._places = None

    def _advance_ddl(self, out: list[Action]) -> None:
        routed = self._ddl
        if routed is None or self._open:
            return  # messages before it, or the DDL itself, are not acknowledged
        if not self._ddl_sent:
            for topic, change in routed.ddls:
                places = self._partitions_of(topic)
                if self._cadence.ddl_to_first_partition:
                    places = places[:1]
                out.append(SendDdl(self._ticket(), places, change))
            self._ddl_sent = True
            return
        self._ddl, self._ddl_sent, self._save_now = None, False, True
        self._follow(routed.captured)
        for topic, change in routed.ddls:
            self._learn(topic, change)
        self._points.append((self._tickets, self._state))

    def _learn(self, topic: str, change: SchemaChange) -> None:
        """Note that a DDL announces its new table to the readers of its topic."""
        before, after = change.pre_table, change.table
        if before is not None and (after is None or before.full_name != after.full_name):
            for key in [key for key in self._announced if key[1:] == before.full_name]:
                del self._announced[key]
        if after is not None and (known := self._announced.get((topic, after.schema, after.name))) is not None:
            known.table = after
        if change.kind == "drop database":
            for key in [key for key in self._announced if key[1] == change.schema]:
                del self._announced[key]

    def _save(self, out: list[Action], now: float) -> None:
        first = next(iter(self._open), self._tickets + 1)
        covered: CaptureState | None = None
        while self._points and self._points[0][0] < first:
            covered = self._points.popleft()[1]
        if covered is not None:
            self._covered = covered
        else:
            covered = self._covered
        if self._saving or covered is None or _same(covered, self._saved):
            return
        if now >= self._next_save or self._save_now or (self._ended and covered is self._state):
            self._next_save = now + self._cadence.interval
            self._save_now = False
            self._saving = True
            out.append(Save(covered))

    def _may_mark(self) -> bool:
        return self._cadence.watermarks and self._saved.commit_ts >= max(self._consistent_from, 1)

    def _owes_watermark(self) -> bool:
        return self._may_mark() and self._last_watermark <= self._saved.commit_ts

    def _mark(self, out: list[Action], now: float) -> None:
        if not self._may_mark() or self._watermark_ticket is not None:
            return
        if self._saving:
            return  # a higher one follows soon
        last = self._ended and _same(self._saved, self._state) and self._owes_watermark()
        if now < self._next_tick and not last:
            return
        # from the last tick, not from now, so that the rounds do not drift
        self._next_tick = max(self._next_tick + self._cadence.interval, now)
        self._last_watermark = self._saved.commit_ts + 1
        if self._places is None:
            topics = dict.fromkeys((*self._layout.topics(self._state.tables), *sorted(self._extra)))
            self._places = tuple(place for topic in topics for place in self._partitions_of(topic))
        self._tickets += 1
        self._watermark_ticket = self._tickets
        out.append(SendWatermark(self._tickets, self._places, self._last_watermark))


def _same(one: CaptureState, other: CaptureState) -> bool:
    """Whether two states are equal, without comparing each of their tables."""
    return one is other or (
        one.commit_ts == other.commit_ts and one.position == other.position and one.tables is other.tables
    )
