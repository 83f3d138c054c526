"""Plans what to read next of a stream, in which pieces, and up to which commit_ts it can be sent. Without I/O."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil

import msgspec

from ticdc_spark.capture.reorder import PartitionAt
from ticdc_spark.changefeed.backlog.encoding import Range
from ticdc_spark.changefeed.backlog.files import Chunk, Messages
from ticdc_spark.changefeed.backlog.opening import Control, Opened, Piece
from ticdc_spark.model import Offsets, TopicPartition

_SMALLEST_PIECE = 10_000
_RANGE_ROWS = 20_000
_RANGE_BYTES = 32 << 20


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of one partition in a stretch."""

    at: PartitionAt
    """Its position before the stretch."""
    end: int
    opened: tuple[Opened, ...]
    """Its pieces, without a gap."""

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return self.at.topic, self.at.partition

    def controls(self) -> Iterator[Control]:
        """Its messages that are no rows, each with the largest commit_ts before it."""
        newest = 0
        for one in self.opened:
            for control in one.controls:
                yield msgspec.structs.replace(control, newest=max(newest, control.newest))
            newest = max(newest, one.newest)

    def first_above(self, ts: int) -> int:
        """An offset before which no row is above a commit_ts. It is at most a little before the first such row."""
        found, highest = self.at.offset, 0
        for one in self.opened:
            for offset, high in one.stairs:
                highest = max(highest, high)
                if highest > ts:
                    return found
                found = offset
        return found


def pieces_of(
    at: Mapping[TopicPartition, PartitionAt], ends: Offsets, most: int, parallelism: int
) -> tuple[tuple[Piece, ...], Offsets]:
    """Pieces of about ``most`` messages in all, evenly from all partitions, and the end of each partition."""
    behind = {place: max(0, end - at[place].offset) for place, end in ends.items()}
    total = sum(behind.values())
    share = min(1.0, most / total) if total else 1.0
    size = max(_SMALLEST_PIECE, ceil(total * share / (2 * parallelism)))
    pieces: list[Piece] = []
    cut: Offsets = {}
    for number, (place, one) in enumerate(at.items()):
        cut[place] = end = one.offset + ceil(behind[place] * share)
        count = max(1, round((end - one.offset) / size))
        step = ceil((end - one.offset) / count)
        pieces += [
            Piece(
                topic=one.topic,
                partition=one.partition,
                number=number,
                first=first,
                end=min(end, first + step),
                given_below=one.read,
                watermark=one.watermark,
            )
            for first in range(one.offset, end, step or 1)
        ]
    return tuple(pieces), cut


def reads_of(
    at: Mapping[TopicPartition, PartitionAt], pieces: Sequence[Piece], opened: Sequence[Opened]
) -> dict[TopicPartition, Read]:
    """What was read of each partition. Pieces after one that ended early do not count."""
    found: dict[TopicPartition, Read] = {}
    for place, one in at.items():
        held: list[Opened] = []
        end = one.offset
        for piece, of in zip(pieces, opened, strict=True):
            if piece.place == place and piece.first == end:
                held.append(of)
                end = of.end
                if end < piece.end:
                    break
        found[place] = Read(at=one, end=end, opened=tuple(held))
    return found


def is_late(read: Read, offset: int, ts: int, watermarks: Sequence[tuple[int, int]]) -> bool:
    """Whether a row at or below the floor is late, not a replay. ``watermarks``: of its partition, by offset."""
    seen = max((mark for at, mark in watermarks if at < offset), default=0)
    return max(seen, read.at.watermark) <= ts


def resolved_by(
    reads: Mapping[TopicPartition, Read],
    marks: Mapping[TopicPartition, int],
    idle: Mapping[TopicPartition, bool],
    floor: int,
) -> int:
    """The commit_ts up to which everything has arrived. ``marks``: each partition's highest watermark that was read."""
    passed = {}
    for place, read in reads.items():
        if read.end >= read.at.read:
            passed[place] = max(marks[place], read.at.watermark)
        else:  # not yet read again up to the earlier end: only what was seen again counts
            passed[place] = max(marks[place], min(floor + 1, read.at.watermark))
    busy = [mark for place, mark in passed.items() if not idle[place]]
    return max(0, min(busy, default=max(passed.values(), default=0)) - 1)


def in_turn(reads: Mapping[TopicPartition, Read]) -> Iterator[tuple[TopicPartition, Control]]:
    """The controls of all partitions, about in the order they were sent. Each partition's are in its own order."""

    def of(read: Read) -> Iterator[tuple[int, TopicPartition, int, Control]]:
        for control in read.controls():
            yield control.newest, read.place, control.offset, control

    for _, place, _, control in heapq.merge(*map(of, reads.values()), key=lambda one: one[:3]):
        yield place, control


def ranges_of(chunks: Sequence[Chunk], above: int, upto: int, parallelism: int) -> tuple[Range, ...]:
    """Ranges of (above, upto] of about equal numbers of rows, and not too many of them."""
    wanted = sorted((one for one in chunks if one.high > above and one.low <= upto), key=lambda one: one.low)
    total = sum(one.rows for one in wanted)
    size = max(1, min(_RANGE_ROWS, ceil(total / (2 * parallelism))))
    borders: list[int] = []
    rows = taken = 0
    last = above
    for one in wanted:
        if (rows >= size or taken >= _RANGE_BYTES) and one.low - 1 > last:
            last = one.low - 1
            borders.append(last)
            rows = taken = 0
        rows += one.rows
        taken += one.size
    edges = [above, *borders, upto]
    found = []
    lows = [one.low for one in wanted]
    for low, high in pairwise(edges):
        held = tuple(one for one in wanted[: bisect_right(lows, high)] if one.high > low)
        if held:
            found.append(Range(above=low, upto=high, chunks=held, rows=sum(one.rows for one in held)))
    return tuple(found)


def parts_of(blocks: Sequence[Messages], parallelism: int) -> tuple[tuple[Messages, ...], ...]:
    """Blocks, grouped into parts of about equal bytes. Each partition is in one part, with its blocks in order."""
    by_place: dict[TopicPartition, list[Messages]] = {}
    for block in blocks:
        by_place.setdefault((block.topic, block.partition), []).append(block)
    parts: list[list[Messages]] = [[] for _ in range(min(parallelism, len(by_place)))]
    sizes = [0] * len(parts)
    for of_place in sorted(by_place.values(), key=lambda held: -sum(block.size for block in held)):
        least = sizes.index(min(sizes))
        parts[least] += of_place
        sizes[least] += sum(block.size for block in of_place)
    return tuple(map(tuple, parts))
