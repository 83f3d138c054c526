"""A stream whose long backlog is sent in tasks. One process sends the rest, the tail.

It is read in stretches. A stretch has a piece of every partition. Tasks open its messages. The driver learns from
watermarks and schemas up to which commit_ts the stretch is complete. Tasks encode and send the rows up to there, cut at
each DDL. Rows above it are not kept in memory or in the state: the next stretch reads them again from the topic.

If tasks cannot handle a message, or there is an error, one process reads on from the same state. It raises the error.
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeAlias
from uuid import uuid4

import msgspec

from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, Resolved, follow
from ticdc_spark.capture.reorder import PartitionAt, Reordering, StreamPosition
from ticdc_spark.capture.resume import WAY_OUT, checked, with_all
from ticdc_spark.capture.stream import IDLE, StreamCapture
from ticdc_spark.changefeed.backlog.batch import Prepared, Tasks
from ticdc_spark.changefeed.backlog.files import Chunk, read_rows_of
from ticdc_spark.changefeed.backlog.opening import Opened, OpenJob, open_piece
from ticdc_spark.changefeed.backlog.plan import Read, in_turn, is_late, pieces_of, reads_of, resolved_by
from ticdc_spark.changefeed.backlog.segment import OddStretch, Segment, Segments
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.errors import EnvironmentFault, os_reason
from ticdc_spark.model import Message, Offsets, TopicPartition
from ticdc_spark.protocols.base import Decoder
from ticdc_spark.streams.reader import EventReader
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.manifest import ends as ends_of
from ticdc_spark.topics.manifest import list_recorded, spans
from ticdc_spark.topics.same_topics import check_ids

STRETCH = 100_000
"""How many messages a stretch has for each parallel task."""
PIECE_BYTES = 256 << 20
AHEAD = 2
"""How many batches may be ready and not sent."""
_GIVE_UP = 8
"""A stretch that gives nothing is read again with more messages, up to this many times its size."""
_LOOK = 15.0
"""Seconds between two looks at the length of the backlog."""
_TRY_AGAIN = IDLE
"""Seconds for which one process reads on after tasks could not."""
_LOG = logging.getLogger(__name__)

Element: TypeAlias = Captured | Prepared


class BacklogCapture:
    """A ``Capture`` that also gives ``Prepared``. It lasts as long as one producer."""

    def __init__(
        self, inner: StreamCapture, changefeed: Changefeed, rules: Router, topics: Topics, tasks: Tasks, folder: Path
    ) -> None:
        """``folder``: for its files, in the state folder."""
        self._inner, self._changefeed, self._rules, self._topics = inner, changefeed, rules, topics
        self._tasks, self._folder = tasks, folder
        self._least = changefeed.backlog or sys.maxsize
        self._room = threading.Semaphore(AHEAD)
        self._closed = False
        self._not_before = float("-inf")
        self._behind_since: dict[TopicPartition, tuple[int, float]] = {}
        """For partitions that are read to their ends: the watermark, and since when it has not changed."""
        self._given_batches = self._sent_batches = 0
        self._used = False
        """Whether tasks have run since they were closed."""

    @property
    def retries(self) -> int:
        return self._inner.retries

    def begin(self) -> CaptureState:
        return self._inner.begin()

    def close(self) -> None:
        """End it. No more elements are taken."""
        self._closed = True

    def sent(self) -> None:
        """A batch was sent."""
        self._sent_batches += 1
        self._room.release()

    def read(self, state: CaptureState) -> Iterator[Element]:
        while not self._closed:
            if self._behind(state) >= self._least:
                state = yield from self._by_tasks(state)
            if self._closed:
                return
            ended, state = yield from self._by_one(state)
            if ended:
                return

    def _behind(self, state: CaptureState) -> int:
        """How many messages follow the given ones; 0 while tasks must not be tried again."""
        if time.monotonic() < self._not_before:
            return 0
        # Not compared: one process may already have read messages that the topic no longer has.
        position, ends = self._where(state, compare=False)
        return sum(max(0, ends[at.place] - at.offset) for at in position.partitions)

    def _where(self, state: CaptureState, *, compare: bool) -> tuple[StreamPosition, Offsets]:
        """The state's position, with all partitions, and the partitions' ends. Raises: SourceChanged, SourceFault"""
        stream = self._inner.stream
        position = StreamPosition.parse(state.position)
        if stream.path is not None:
            ends = ends_of(spans(list_recorded(stream.path)))
            known = {at.place: at for at in position.partitions}
            parts = (known.get(place) or PartitionAt(*place, 0, 0, 0) for place in ends)
            return msgspec.structs.replace(position, partitions=tuple(parts)), ends
        assert stream.servers is not None
        with TopicReader(stream.servers, dict(stream.client)) as kafka:
            position = with_all(kafka, stream.topics, position)
            if compare:
                position = checked(kafka, position)
            return position, kafka.places([at.place for at in position.partitions], "end")

    def _check_ids(self, position: StreamPosition) -> None:
        """Check that the messages came from the topics of a position. Raises: SourceChanged, SourceFault"""
        stream = self._inner.stream
        if stream.servers is not None and position.ids:
            with TopicReader(stream.servers, dict(stream.client)) as kafka:
                held = {at.place: at.offset for at in position.partitions}
                check_ids(position.ids, kafka.ids(tuple(position.ids)), held, WAY_OUT)

    def _by_one(self, state: CaptureState) -> Generator[Element, None, tuple[bool, CaptureState]]:
        """Read in this process until the backlog is long again. Returns: whether the source has ended, its state."""
        look, began = time.monotonic() + _LOOK, state.commit_ts
        elements = self._inner.read(state)
        assert isinstance(elements, Generator)
        with closing(elements):
            for captured in elements:
                state = follow(state, captured)
                yield captured
                bounded = self._inner.is_bounded
                if not bounded and self._used and self._given_batches == self._sent_batches:
                    self._used = False
                    self._tasks.close()  # a changefeed runs for long, and Spark takes much memory
                if not bounded and isinstance(captured, Resolved) and time.monotonic() > look:
                    look = time.monotonic() + _LOOK
                    # Only after progress: messages that are read but not given yet would be read again.
                    if state.commit_ts > began and self._behind(state) >= self._least:
                        return False, state
        return True, state

    def _by_tasks(self, state: CaptureState) -> Generator[Element, None, CaptureState]:
        """Read in stretches while the backlog is long."""
        name = StreamPosition.parse(state.position).protocol
        segments = Segments(
            self._changefeed, self._rules, self._topics, self._inner.stream, name, self._tasks, self._folder
        )
        self._used = True
        usual = STRETCH * self._tasks.parallelism
        most = usual
        _LOG.info("the backlog is long (%d messages): it is sent in Spark tasks", self._behind(state))
        with self._inner.reader(name) as (decoder, reader):
            while not self._closed and self._behind(state) >= max(1, self._least // 10):
                try:
                    before = state.commit_ts
                    state = yield from self._stretch(state, decoder, reader, segments, most)
                    if state.commit_ts > before:
                        most = usual
                        continue
                    most *= 2
                    if most > usual * _GIVE_UP:
                        self._not_before = time.monotonic() + _TRY_AGAIN
                except _Odd as odd:
                    _LOG.warning("one process reads on, as tasks cannot: %s", odd)
                    state = odd.state
                    self._not_before = time.monotonic() + _TRY_AGAIN
        return state

    def _stretch(
        self, state: CaptureState, decoder: Decoder, reader: EventReader, segments: Segments, most: int
    ) -> Generator[Element, None, CaptureState]:
        """Read and give one stretch. Returns: the state after it. Raises: _Odd"""
        position, ends = self._where(state, compare=True)
        state = msgspec.structs.replace(state, position=position.text())
        at = {one.place: one for one in position.partitions}
        pieces, _ = pieces_of(at, ends, most, self._tasks.parallelism)
        folder = self._folder / f"rows-{uuid4().hex}"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise EnvironmentFault(f"{folder}: {os_reason(error)}") from error
        try:
            job = OpenJob(
                stream=self._inner.stream,
                protocol=decoder.name,
                floor=state.commit_ts,
                whole=reader.follows_ddl,
                pieces=pieces,
                folder=folder,
                max_bytes=PIECE_BYTES,
            )
            opened = self._tasks.run(open_piece, job, len(pieces), Opened)
            self._check_ids(position)
            for one in opened:
                if one.odd:
                    raise _Odd(one.odd, state)
            reads = reads_of(at, pieces, opened)
            order = Reordering(decoder, reader, state, at)
            marks = _take(order, reads, state)
            read = _Stretch(order, reads, marks)
            idle = self._idle(reads, ends, marks)
            upto = resolved_by(reads, marks, idle, state.commit_ts)
            if self._changefeed.target_ts is not None:
                upto = min(upto, self._changefeed.target_ts)
            upto = _with_schemas(reader, read.chunks, state.commit_ts, upto)
            if upto <= state.commit_ts:
                return state
            state = yield from self._elements(state, reader, segments, read, upto)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return state

    def _idle(
        self, reads: dict[TopicPartition, Read], ends: Offsets, marks: dict[TopicPartition, int]
    ) -> dict[TopicPartition, bool]:
        """Which partitions are idle, as in one process: read to their ends, without a newer watermark for long."""
        now, bounded = time.monotonic(), self._inner.is_bounded
        behind = {
            place: max(marks[place], read.at.watermark) for place, read in reads.items() if read.end >= ends[place]
        }
        self._behind_since = {
            place: held if (held := self._behind_since.get(place)) and held[0] == mark else (mark, now)
            for place, mark in behind.items()
        }
        return {place: place in behind and (bounded or now - self._behind_since[place][1] > IDLE) for place in reads}

    def _elements(
        self,
        state: CaptureState,
        reader: EventReader,
        segments: Segments,
        stretch: _Stretch,
        upto: int,
    ) -> Generator[Element, None, CaptureState]:
        """Everything up to a commit_ts."""
        order, reads = stretch.order, stretch.reads
        chunks = stretch.chunks
        during = stretch.position({place: read.at.offset for place, read in reads.items()})
        elements = order.release(upto)
        reached = state.commit_ts
        while True:
            ddl_ts = order.next_ts if order.next_ts is not None and order.next_ts <= upto else 0
            segment = Segment(chunks, reached, ddl_ts or upto, ddl_ts)
            rows = segments.rows(order, reader, tuple(reads), segment, during)
            try:
                for element in rows:
                    state = yield from self._given(state, element)
            except OddStretch as odd:
                raise _Odd(str(odd), state) from odd
            reached = ddl_ts
            captured = next(elements)
            if isinstance(captured, CapturedDdl):
                segments.follow(captured)
                state = yield from self._given(state, msgspec.structs.replace(captured, position=during))
                continue
            assert isinstance(captured, Resolved)
            firsts = {}
            for place, read in reads.items():
                control = order.parts[place].first()
                above = read.first_above(upto)
                firsts[place] = min(control, above) if order.parts[place].waiting else above
            after = stretch.position(firsts)
            return (yield from self._given(state, msgspec.structs.replace(captured, position=after)))

    def _given(self, state: CaptureState, element: Element) -> Generator[Element, None, CaptureState]:
        if isinstance(element, Prepared):
            if element.batch.rows:
                while not self._room.acquire(timeout=0.2):
                    if self._closed:
                        break
                self._given_batches += 1
            else:
                shutil.rmtree(element.batch.folder, ignore_errors=True)  # never sent, so ``sent`` is not called
            state = follow(state, element.end)
        else:
            state = follow(state, element)
        yield element
        return state


class _Stretch(NamedTuple):
    """What tasks have read for a stretch."""

    order: Reordering
    """Decodes messages that are no rows."""
    reads: dict[TopicPartition, Read]
    marks: dict[TopicPartition, int]
    """The highest watermark of each partition; 0: none."""

    @property
    def chunks(self) -> list[Chunk]:
        """The places of its rows."""
        return [chunk for read in self.reads.values() for one in read.opened for chunk in one.chunks]

    def position(self, offsets: Offsets) -> str:
        """The source's position at these offsets."""
        position = StreamPosition.parse(self.order.position())
        parts = (
            PartitionAt(*place, offsets[place], max(read.end, read.at.read), max(self.marks[place], read.at.watermark))
            for place, read in self.reads.items()
        )
        return msgspec.structs.replace(position, partitions=tuple(parts)).text()


class _Odd(Exception):
    """Tasks cannot send what follows a state."""

    def __init__(self, reason: str, state: CaptureState) -> None:
        super().__init__(reason)
        self.state = state


def _take(order: Reordering, reads: dict[TopicPartition, Read], state: CaptureState) -> dict[TopicPartition, int]:
    """Take messages that are no rows. Returns: each partition's highest watermark, or 0. Raises: _Odd for a late row"""
    marks: dict[TopicPartition, list[tuple[int, int]]] = {place: [] for place in reads}
    for place, control in in_turn(reads):
        if control.mark:
            marks[place].append((control.offset, control.mark))
        message = Message(
            topic=place[0], partition=place[1], offset=control.offset, key=control.key, value=control.value
        )
        order.take(message, control.newest)
    for place, read in reads.items():
        for one in read.opened:
            for offset, ts in one.suspects:
                if is_late(read, offset, ts, marks[place]):
                    raise _Odd(f"the row at offset {offset} of {place[0]!r}, {place[1]} is late", state)
    return {place: max((mark for _, mark in found), default=0) for place, found in marks.items()}


def _with_schemas(reader: EventReader, chunks: list[Chunk], floor: int, upto: int) -> int:
    """The commit_ts up to which the schema of every row is known."""
    if reader.follows_ddl:
        return upto
    missing = {name for chunk in chunks for name in chunk.names if name[2] and reader.version(*name) is None}
    for chunk in chunks:
        if missing.intersection(chunk.names):
            for row in read_rows_of([chunk], floor, upto):
                if (row.schema, row.table, row.schema_key) in missing:
                    upto = min(upto, row.ts - 1)
    return upto
