"""The first task of a stretch: read a piece of a source's partition, and open its messages.

Row changes go into a file. DDL, watermarks and schemas are small and go to the driver unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ticdc_spark.capture.stream import Stream, StreamCapture
from ticdc_spark.changefeed.backlog.files import BlockFile, Chunk, RowFile, open_row
from ticdc_spark.errors import TicdcSparkError
from ticdc_spark.model import Envelope, Event, Message, Rejected, TopicPartition, Watermark
from ticdc_spark.protocols.base import Decoder
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.manifest import ends, list_recorded, spans
from ticdc_spark.topics.messages import recorded_messages

_STAIR = 500
"""Number of messages between two places at which the largest commit_ts so far is noted."""
_SUSPECTS = 1000


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets [first, end) of one partition, for one task."""

    topic: str
    partition: int
    number: int
    """Number of the partition in the stretch."""
    first: int
    end: int
    given_below: int
    """From the position: rows at smaller offsets, at or below ``floor``, were given already."""
    watermark: int
    """From the position."""

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return self.topic, self.partition


class OpenJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job of tasks: all pieces."""

    stream: Stream
    protocol: str
    floor: int
    """Everything up to this commit_ts was given already."""
    whole: bool
    """Whether rows are kept with their messages."""
    pieces: tuple[Piece, ...]
    folder: Path
    max_bytes: int
    """The most bytes of a piece. A piece with more ends early."""


class Control(msgspec.Struct, frozen=True, array_like=True):
    """A message that is no row change."""

    offset: int
    key: bytes | None
    value: bytes | None
    newest: int
    """The largest commit_ts before it in its piece."""
    mark: int = 0
    """The commit_ts of a watermark; 0 for any other message."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a piece."""

    end: int = 0
    """The offset at which it ended: everything before was read."""
    rows: int = 0
    bytes: int = 0
    chunks: tuple[Chunk, ...] = ()
    controls: tuple[Control, ...] = ()
    stairs: tuple[tuple[int, int], ...] = ()
    """(offset, commit_ts): no row before the offset is above the commit_ts. Both rise."""
    newest: int = 0
    suspects: tuple[tuple[int, int], ...] = ()
    """(offset, commit_ts) of rows at or below ``floor`` that are late, unless a piece before has a watermark above."""
    odd: str = ""
    """Why tasks cannot send the piece; ``""``: they can."""


def open_piece(job: OpenJob, number: int) -> Opened:
    """Open a piece. Errors are in the result."""
    piece = job.pieces[number]
    try:
        with (
            StreamCapture(job.stream).reader(job.protocol) as (decoder, _),
            BlockFile(job.folder / f"rows-{number}") as file,
        ):
            opening = _Opening(job, piece, decoder, file)
            for message in _messages(job.stream, piece):
                if not opening.take(message):
                    break
            return opening.done()
    except _Odd as odd:
        return Opened(odd=str(odd))
    except TicdcSparkError as error:
        return Opened(odd=f"{type(error).__name__}: {error}")


class _Odd(Exception):
    """A message that one process must handle. Not an error by itself."""


class _Opening:
    """A piece while it is opened."""

    def __init__(self, job: OpenJob, piece: Piece, decoder: Decoder, file: BlockFile) -> None:
        self._job, self._piece, self._file = job, piece, file
        self._open = decoder.open_message
        self._rows = RowFile(file)
        self._at = piece.first
        self._end = piece.end
        self._watermark = piece.watermark
        self._newest = self._highest = self._taken = 0
        self._next_stair = piece.first + _STAIR
        self._controls: list[Control] = []
        self._stairs: list[tuple[int, int]] = []
        self._suspects: list[tuple[int, int]] = []

    def take(self, message: Message) -> bool:
        """Open the next message. Returns: whether the piece goes on. Raises: _Odd, EnvironmentFault"""
        offset = message.offset
        if offset < self._at:
            return True
        if self._file.size > self._job.max_bytes:
            self._end = self._at
            return False
        if offset >= self._next_stair:
            self._stairs.append((offset, self._highest))
            self._next_stair = offset + _STAIR
        self._at = offset + 1
        events = self._open(message.key, message.value)
        for seq, event in enumerate(events):
            if type(event) is Envelope:
                self._row(message, seq, event)
            elif len(events) > 1:
                raise self._odd(offset, "it has more than one event, and not all are rows")
            else:
                self._control(message, event)
        return True

    def done(self) -> Opened:
        """The result. Raises: EnvironmentFault"""
        self._rows.flush()
        return Opened(
            end=self._end,
            rows=self._taken,
            bytes=self._file.size,
            chunks=tuple(self._rows.chunks),
            controls=tuple(self._controls),
            stairs=(*self._stairs, (self._end, self._highest)),
            newest=max(self._newest, self._highest),
            suspects=tuple(self._suspects),
        )

    def _row(self, message: Message, seq: int, event: Envelope) -> None:
        ts = event.commit_ts
        if ts > self._job.floor:
            self._highest = max(self._highest, ts)
            self._taken += 1
            whole = self._job.whole or event.claim_check is not None
            self._rows.add(open_row(self._piece.number, message, seq, event, whole=whole))
            return
        if not ts:
            raise self._odd(message.offset, "a row without its commitTs")
        if message.offset >= self._piece.given_below and self._watermark <= ts:
            self._suspects.append((message.offset, ts))
            if len(self._suspects) > _SUSPECTS:
                raise self._odd(message.offset, f"before it are {_SUSPECTS} rows that may be late")

    def _control(self, message: Message, event: Event) -> None:
        if isinstance(event, Rejected):
            raise self._odd(message.offset, event.reason)
        self._newest = max(self._newest, self._highest)
        mark = event.commit_ts if isinstance(event, Watermark) else 0
        self._controls.append(Control(message.offset, message.key, message.value, self._newest, mark))
        self._watermark, self._newest = max(self._watermark, mark), max(self._newest, mark)

    def _odd(self, offset: int, why: str) -> _Odd:
        return _Odd(f"topic {self._piece.topic!r}, partition {self._piece.partition}, offset {offset}: {why}")


def _messages(stream: Stream, piece: Piece) -> Iterator[Message]:
    if stream.path is not None:
        start = {**ends(spans(list_recorded(stream.path))), piece.place: piece.first}
        for message in recorded_messages(stream.path, start=start):
            if message.offset >= piece.end:
                return
            yield message
        return
    assert stream.servers is not None
    with TopicReader(stream.servers, dict(stream.client)) as kafka:
        yield from kafka.read({piece.place: piece.first}, {piece.place: piece.end}, [], patient=False)
