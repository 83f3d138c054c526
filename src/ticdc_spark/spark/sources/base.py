"""Sources of messages: what the loop needs from them, and how a backlog is cut into batches.

The loop keeps the offsets. A source remembers nothing between batches, so no second checkpoint can disagree with the
progress.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from ticdc_spark.errors import SourceFault
from ticdc_spark.model import Offsets, TopicPartition
from ticdc_spark.spark.tasks import Parts

Stretch: TypeAlias = tuple[TopicPartition, int, int]
"""Offsets [first, end) of a partition."""
KeyValue: TypeAlias = tuple[bytes | None, bytes | None]
"""A message's key and value."""

MESSAGES = "topic string, partition int, offset bigint, timestamp bigint, key binary, value binary"
"""The columns of ``read``; ``timestamp`` is in milliseconds since the epoch, or null."""


class Source(Protocol):
    """Messages by partition and offset. The driver lists them, Spark's tasks read them.

    Every call raises SourceFault if the broker or the files cannot be read.
    """

    is_recorded: bool
    """Whether it is a recording, which has an end."""

    def starting(self) -> Offsets:
        """Where a new job begins, for each partition that exists now."""

    def beginning_offsets(self) -> Offsets:
        """The first offset that still exists, for each partition that exists now."""

    def end_offsets(self) -> Offsets:
        """The exclusive end offset now, for each partition that exists now."""

    @property
    def has_more(self) -> bool:
        """Whether the last ``end_offsets`` excluded existing messages, because there were too many at once."""

    def offsets_since(self, commit_ts: int) -> Offsets:
        """For each partition that exists now, an offset such that no row with this commit timestamp or a later one was
        sent before it. Based on the times of messages, if known, with a margin for clock differences."""

    def notes(self, read: Offsets) -> dict[tuple[str, str], str]:
        """Facts that must still hold when the source is read on after ``read``: by topic and description, the ids of
        topics, or the number of messages that a recording had below these offsets."""

    def recall(self, memory: str) -> None:
        """Restore the ``memory`` that was saved with the job's last progress or plan; ``""``: a new job. Called before
        all other methods."""

    def memory(self, offsets: Offsets, needed: Iterable[Stretch]) -> str:
        """What the job saves with its progress or a plan, so that offsets mean the same after a restart.

        ``offsets``: where it continues to read; ``needed``: ranges below these that it will read again.
        """

    def retention(self) -> dict[str, float]:
        """For how many seconds each topic keeps a message. Topics with no limit or an unknown one are omitted. Never
        raises: a login may lack the right to ask."""

    @property
    def unread(self) -> str:
        """A sentence about what is there and is not read; ``""``: there is nothing."""

    def publish(self, offsets: Offsets) -> None:
        """Publish how far the job has read, if the job file requests it. Nothing depends on it, so it never raises."""

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        """Cut the backlog [start, end) to about ``max_rows`` and ``max_bytes`` of keys and values.

        All partitions are cut at the same share, so that their watermarks rise together. Each partition that is behind
        advances by at least one offset. Returns an end for every partition of ``end``.
        """

    def read(self, start: Offsets, end: Offsets, session: Any = None) -> Any:
        """Read [start, end) of each partition of ``end``, in no order, as a DataFrame (of ``session``, if given).

        A partition that ``start`` lacks is read from its beginning. A partition that ``end`` lacks is not read.

        Raises: SourceFault if offsets from ``start`` on are gone.
        """

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table | None:
        """Read in this process, with the columns of ``MESSAGES``. Arguments as in ``read``.

        Returns: ``None`` if Spark must read them: they are too large, or this process has no client for them.

        Raises: as ``read``
        """

    def read_parts(self, start: Offsets, end: Offsets) -> Parts | None:
        """Read in Python tasks, without Spark's rows, with the columns of ``MESSAGES``. Arguments as in ``read``.

        Returns: ``None`` if Spark must read them.

        Raises: as ``read``; so do its tasks
        """

    def close(self) -> None:
        """Close the clients that list messages. No other method is called afterwards."""

    def first_messages(self, start: Offsets, end: Offsets, limit: int) -> list[KeyValue]:
        """Keys and values of at most ``limit`` messages in [start, end), in no order."""


class OffsetRange(msgspec.Struct, frozen=True):
    """Offsets [first, end) of one partition, with their numbers of messages and bytes, assumed to be evenly spread."""

    first: int
    end: int
    rows: float
    bytes: float

    def clip(self, first: int, end: int) -> "OffsetRange | None":
        """The part inside [first, end); ``None`` if there is none."""
        low, high = max(first, self.first), min(end, self.end)
        if low >= high:
            return None
        share = (high - low) / (self.end - self.first)
        return OffsetRange(low, high, self.rows * share, self.bytes * share)


Backlog: TypeAlias = Mapping[TopicPartition, Sequence[OffsetRange]]
"""The unread messages of each partition, in order of offset."""


def fair_cut(backlog: Backlog, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
    """Cut every partition's backlog at the same share of its messages, so that both limits hold.

    Each partition may exceed a limit by one message: a partition that never advanced would block all watermarks.
    """
    total = sum(stretch.rows for stretches in backlog.values() for stretch in stretches)
    share = min(1.0, max_rows / total) if total else 1.0
    # Messages differ in size, so the share that satisfies max_bytes is found by trying; it shrinks quickly.
    for _ in range(20):
        cut = dict(end)
        taken = 0.0
        for partition, stretches in backlog.items():
            if stretches:
                cut[partition], size = _cut_at(stretches, share, end[partition])
                taken += size
        if taken <= max_bytes or all(cut[p] <= s[0].first + 1 for p, s in backlog.items() if s):
            break
        share *= min(0.9, max_bytes / taken)
    return cut


def _cut_at(stretches: Sequence[OffsetRange], share: float, end: int) -> tuple[int, float]:
    """The end offset after ``share`` of the messages, rounded up to a whole one, and the bytes before it."""
    if share >= 1.0:
        return end, sum(stretch.bytes for stretch in stretches)
    # The small subtraction keeps 3.0000000001 messages from becoming 4.
    wanted = max(1.0, math.ceil(sum(stretch.rows for stretch in stretches) * share - 1e-6))
    size = 0.0
    for stretch in stretches:
        if stretch.rows > wanted:
            cut = stretch.first + max(1, math.ceil((stretch.end - stretch.first) * wanted / stretch.rows - 1e-6))
            return cut, size + stretch.bytes * wanted / stretch.rows
        wanted -= stretch.rows
        size += stretch.bytes
        if wanted <= 0:
            return stretch.end, size
    return end, size


def check_start(start: Offsets, end: Offsets, beginning: Offsets, ends: Offsets) -> Offsets:
    """Return the start offset of each partition of ``end``, without partitions that have nothing to read.

    Raises: SourceFault with the topic, the partition and both offsets, if messages from ``start`` on were removed, or
    if the partition ends before ``end`` (the topic was deleted and created again).
    """
    found: Offsets = {}
    for partition, last in end.items():
        name = f"topic {partition[0]!r}, partition {partition[1]}"
        if partition not in ends:
            if start.get(partition, 0) < last:
                raise SourceFault(f"{name}: does not exist any more; wanted offset {start.get(partition, 0)}")
            continue
        first = start.get(partition, beginning[partition])
        if first < beginning[partition] and first < last:
            raise SourceFault(
                f"{name}: wanted offset {first}, but the first one still there is {beginning[partition]}; "
                f"the messages between were removed before they were read"
            )
        if last > ends[partition]:
            raise SourceFault(
                f"{name}: wanted offsets up to {last}, but it ends at {ends[partition]}; "
                f"was the topic deleted and created again?"
            )
        if first < last:
            found[partition] = first
    return found
