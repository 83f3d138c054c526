"""Where messages come from: what the loop needs of a source, and how a backlog is cut into batches.

Offsets are the loop's own: a source remembers nothing between batches, so there is no second checkpoint to disagree
with the progress.
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
"""The columns that ``read`` gives; ``timestamp`` is milliseconds since the epoch, or null."""


class Source(Protocol):
    """Messages by partition and offset. Listing is done by the driver, reading by Spark's tasks.

    Every call raises SourceFault when the broker or the files cannot be read.
    """

    is_recorded: bool
    """Whether it is a recording, which has an end."""

    def starting(self) -> Offsets:
        """Where a job begins that has read nothing yet, for each partition that exists now."""

    def beginning_offsets(self) -> Offsets:
        """First offset that is still there, for each partition that exists now."""

    def end_offsets(self) -> Offsets:
        """Exclusive end offset now, for each partition that exists now."""

    @property
    def has_more(self) -> bool:
        """Whether the last ``end_offsets`` left out something that was there, as too much at once."""

    def offsets_since(self, commit_ts: int) -> Offsets:
        """For each partition that exists now, an offset before which no row of a commit timestamp, or of a later one,
        was sent: by the times of messages where there are some, with time to spare for clocks that differ."""

    def notes(self, read: Offsets) -> dict[tuple[str, str], str]:
        """What must still be so when the source is read on after ``read``, by topic and what it is called in messages:
        the ids of topics, or how many messages a recording held below those offsets."""

    def recall(self, memory: str) -> None:
        """Go on with what ``memory`` gave when the job last saved its progress or a plan; ``""``: a new job. Called
        before a job asks anything else."""

    def memory(self, offsets: Offsets, needed: Iterable[Stretch]) -> str:
        """What the job saves with its progress or a plan, so that offsets mean the same after a restart.

        ``offsets``: where it reads on; ``needed``: what it will read again below these.
        """

    def retention(self) -> dict[str, float]:
        """For how many seconds each topic keeps a message. A topic without a limit, or whose limit is not known, is not
        in it. Never raises: a login may lack the right to ask."""

    def publish(self, offsets: Offsets) -> None:
        """Let others see how far the job has read, if the job file wants that. No decision depends on it, so it never
        raises."""

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        """Cut the backlog [start, end) to about ``max_rows`` and ``max_bytes`` of keys and values.

        The cut is proportional over the partitions, so that their watermarks rise together; each partition that is
        behind moves by at least one offset. Gives an end for every partition of ``end``.
        """

    def read(self, start: Offsets, end: Offsets, session: Any = None) -> Any:
        """Read [start, end) of each partition of ``end``, in no order, as a DataFrame (``session``: of that session).

        A partition that ``start`` lacks is read from its beginning; a partition that ``end`` lacks is not read.

        Raises: SourceFault when offsets from ``start`` on are gone.
        """

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table | None:
        """The same, read by this process, with the columns of ``MESSAGES``.

        Returns: ``None`` where Spark must read them: they are too large, or this process has no client for them.

        Raises: as ``read``
        """

    def read_parts(self, start: Offsets, end: Offsets) -> Parts | None:
        """The same, read by tasks in Python with the columns of ``MESSAGES``, and not through Spark's rows.

        Returns: ``None`` where Spark must read them.

        Raises: as ``read``; its tasks too
        """

    def close(self) -> None:
        """Close what was opened to list messages. Nothing else is called afterwards."""

    def first_messages(self, start: Offsets, end: Offsets, limit: int) -> list[KeyValue]:
        """Keys and values of at most ``limit`` messages of [start, end), in no order."""


class OffsetRange(msgspec.Struct, frozen=True):
    """Offsets [first, end) of one partition: how many messages and bytes lie there, evenly spread."""

    first: int
    end: int
    rows: float
    bytes: float

    def clip(self, first: int, end: int) -> "OffsetRange | None":
        """The part of it inside [first, end)."""
        low, high = max(first, self.first), min(end, self.end)
        if low >= high:
            return None
        share = (high - low) / (self.end - self.first)
        return OffsetRange(low, high, self.rows * share, self.bytes * share)


Backlog: TypeAlias = Mapping[TopicPartition, Sequence[OffsetRange]]
"""What lies behind each partition, in order of offset."""


def fair_cut(backlog: Backlog, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
    """Cut every partition's backlog at the same share of its messages, so that both limits hold.

    A limit may be passed by one message a partition: one that never moved would hold back everybody's watermark.
    """
    total = sum(stretch.rows for stretches in backlog.values() for stretch in stretches)
    share = min(1.0, max_rows / total) if total else 1.0
    # Messages are not of one size, so the share that satisfies max_bytes is found by trying; it falls quickly.
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
    """End offset after ``share`` of the messages (rounded up to a whole one), and the bytes before it."""
    if share >= 1.0:
        return end, sum(stretch.bytes for stretch in stretches)
    # The tiny subtraction keeps 3.0000000001 messages from becoming 4.
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
    """Return where each partition of ``end`` is to be read from; partitions with nothing to read are left out.

    Raises: SourceFault naming the topic, the partition and both offsets when messages from ``start`` on were removed,
    or when the partition ends before ``end`` (a topic that was deleted and created again).
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
