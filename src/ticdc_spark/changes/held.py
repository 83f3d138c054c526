"""Messages that the driver keeps in memory, opened once: small batches, while rows of them wait."""

from collections.abc import Iterable, Iterator, Sequence

from ticdc_spark.changes.opening import Messages, Opened, Opener, Opening, raw_rows, raw_watermarks
from ticdc_spark.changes.ranges import Picker, RowScan, Stretch
from ticdc_spark.model import Offsets, TopicPartition
from ticdc_spark.protocols.rows import Numbers, rows_of
from ticdc_spark.spark.decode.raw import RawRows

MOST_HELD = 100_000
"""Most messages in memory. The oldest ones beyond are dropped, and read again if they are needed."""


class Held:
    """Consecutive messages [start, end) of some partitions."""

    def __init__(self, start: Offsets, end: Offsets, messages: Messages) -> None:
        self.start, self.end, self.messages = start, end, messages
        self._opening: Opening | None = None
        self._opened = Opened(rows_of([]), [], None, [])

    def opened(self, opening: Opening) -> Opened:
        """The events of the messages. Raises: as ``Opener.open``"""
        if self._opening != opening:
            self._opened = Opener(opening).open(self.messages)
            self._opening = opening
        return self._opened


class HeldMessages:
    """The messages that the driver keeps, each once. Not thread-safe."""

    def __init__(self) -> None:
        self._held: list[Held] = []

    def add(self, held: Held) -> None:
        """Keep messages, in place of those that they overlap with."""
        self._held = [one for one in self._held if not _overlap(one, held)]
        self._held.append(held)
        size = 0
        for at, one in reversed(list(enumerate(self._held))):
            size += len(one.messages.offsets)
            if size > MOST_HELD and one is not held:
                del self._held[: at + 1]
                break

    def find(self, start: Offsets, end: Offsets) -> Held | None:
        """The messages that were added with exactly these bounds."""
        return next((one for one in self._held if (one.start, one.end) == (start, end)), None)

    def missing(self, wanted: Sequence[Stretch]) -> list[Stretch]:
        """The parts of stretches that are not in memory."""
        found: list[Stretch] = []
        for place, first, end in wanted:
            at = first
            for begins, ends in sorted((one.start[place], one.end[place]) for one in self._held if place in one.end):
                if begins > at and at < end:
                    found.append((place, at, min(begins, end)))
                at = max(at, ends)
            if at < end:
                found.append((place, at, end))
        return found

    def covering(self, wanted: Sequence[Stretch]) -> tuple[Held, ...] | None:
        """Held messages that include every message of the stretches, once; ``None``: some are not in memory. The result
        stays valid when messages are added or dropped later."""
        if self.missing(wanted):
            return None
        places = {place for place, _, _ in wanted}
        return tuple(one for one in self._held if not places.isdisjoint(one.end))

    def keep(self, needed: Iterable[Stretch]) -> None:
        """Drop messages that are not needed."""
        wanted: dict[TopicPartition, list[tuple[int, int]]] = {}
        for place, first, end in needed:
            wanted.setdefault(place, []).append((first, end))
        self._held = [
            one
            for one in self._held
            if any(
                first < last and begins < end
                for place, last in one.end.items()
                for first, end in wanted.get(place, ())
                for begins in (one.start[place],)
            )
        ]


def events(held: Iterable[Held], wanted: RowScan, opening: Opening) -> Iterator[tuple[Messages, Opened, Numbers]]:
    """The opened rows of a scan: messages, their events, and the numbers of the scan's rows among these. ``held``:
    covers the scan."""
    picker = Picker([wanted])
    for one in held:
        opened = one.opened(opening)
        if (numbers := picker.pick(one.messages, opened).get(0)) is not None:
            yield one.messages, opened, numbers


def held_rows(held: Iterable[Held], wanted: RowScan, opening: Opening) -> Iterator[RawRows]:
    """The rows of a scan, with raw images."""
    held = list(held)
    for messages, opened, numbers in events(held, wanted, opening):
        yield raw_rows(messages, opened, numbers, verify=opening.verify_checksum, ids=wanted.ids)
    if wanted.watermarks:
        yield from (raw_watermarks(one.messages, one.opened(opening), wanted.has) for one in held)


def _overlap(one: Held, other: Held) -> bool:
    return any(
        one.start[place] < other.end[place] and other.start[place] < end
        for place, end in one.end.items()
        if place in other.end
    )
