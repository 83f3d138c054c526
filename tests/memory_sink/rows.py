"""The topics of a job as ``TopicRows``, all in this process: for simulation and for tests of a job."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from tests.memory_sink.raw import RawInMemory, RawRow
from ticdc_spark.changes.held import Held, HeldMessages, events
from ticdc_spark.changes.opening import Messages, Opened, Opening, of_messages, raw_watermarks
from ticdc_spark.changes.ranges import RowRange, RowScan, rounds, stretches
from ticdc_spark.changes.scan import Scanner, ScanPlan
from ticdc_spark.changes.topic import RowIdentity, content_of
from ticdc_spark.model import Message, Offsets
from ticdc_spark.protocols.checksums import expected
from ticdc_spark.spark.decode.control import ControlEvent


class PlainSource(Protocol):
    """A source that gives messages as a list."""

    def read(self, start: Offsets, end: Offsets) -> Sequence[Message]:
        """The messages [start, end) of each partition of ``end``. Raises: SourceFault"""

    def offsets_since(self, commit_ts: int) -> Offsets:
        """As of a ``Source``."""


class Alone:
    """See ``Workers``: each has its rows at once."""

    def worker(self) -> AbstractContextManager[None]:
        return nullcontext()


class MemoryRows:
    """See ``TopicRows``."""

    def __init__(self, source: PlainSource, opening: Opening) -> None:
        self._source, self.opening = source, opening
        self._held = HeldMessages()

    def share(self, parallel: int) -> AbstractContextManager[Alone]:
        return nullcontext(Alone())

    def scan(self, plan: ScanPlan, starts: Offsets, end_offsets: Offsets, count: int) -> list[ControlEvent]:
        self.opening = plan.opening
        end = {place: last for place, last in end_offsets.items() if starts.get(place, 0) < last}
        held = self._read({place: starts.get(place, 0) for place in end}, end)
        scanner = Scanner(plan)
        scanner.add(held.messages, held.opened(plan.opening))
        return scanner.finish()

    def keep(self, needed: Iterable[RowRange]) -> None:
        self._held.keep(stretches(needed))

    def rows(self, wanted: RowScan) -> list[RawRow]:
        """The rows of a scan. Raises: SourceFault"""
        needed = stretches(wanted.ranges)
        for start, end in rounds(self._held.missing(needed)):
            self._read(start, end)
        held = self._held.covering(needed)
        assert held is not None, "they were read"
        verify = self.opening.verify_checksum
        rows = [
            _row(messages, opened, number, verify=verify, ids=wanted.ids)
            for messages, opened, numbers in events(held, wanted, self.opening)
            for number in numbers
        ]
        return [*rows, *self._watermarks(held, wanted)] if wanted.watermarks else rows

    def _watermarks(self, held: Sequence[Held], wanted: RowScan) -> list[RawRow]:
        found = (raw_watermarks(one.messages, one.opened(self.opening), wanted.has) for one in held)
        return [RawRow(**row) for batch in found for row in batch.to_arrow().to_pylist()]

    def raw(self, wanted: RowScan) -> RawInMemory:
        return RawInMemory(lambda: self.rows(wanted))

    def has_rows(self, wanted: RowScan) -> bool:
        return bool(self.rows(wanted))

    def identities(self, wanted: RowScan) -> list[RowIdentity]:
        return [
            RowIdentity(
                topic=row.topic,
                partition=row.partition,
                offset=row.offset,
                schema_key=row.schema_key,
                commit_ts=row.commit_ts,
                content=content_of(row.op, row.before, row.after),
            )
            for row in self.rows(wanted)
        ]

    def ranges_since(self, commit_ts: int, until: Offsets, topics: Iterable[str]) -> tuple[RowRange, ...]:
        wanted, first = set(topics), self._source.offsets_since(commit_ts)
        return tuple(
            RowRange(*place, first.get(place, 0), end)
            for place, end in sorted(until.items())
            if place[0] in wanted and first.get(place, 0) < end
        )

    def messages(self, places: Iterable[tuple[str, int, int]]) -> list[Message]:
        at = sorted({((topic, partition), offset, offset + 1) for topic, partition, offset in places})
        return [one for start, end in rounds(at) for one in self._source.read(start, end)]

    def _read(self, start: Offsets, end: Offsets) -> Held:
        found = self._held.find(start, end)
        if found is None:
            found = Held(start, end, of_messages(self._source.read(start, end)))
            self._held.add(found)
        return found


def _row(messages: Messages, opened: Opened, number: int, *, verify: bool, ids: bool) -> RawRow:
    event, at = opened.rows[number], opened.origin[number]
    checksum = corrupted = None
    if verify:
        checksum = expected(event.checksum, partial=event.partial)[1]
        corrupted = None if event.checksum is None else event.checksum.corrupted
    return RawRow(
        topic=messages.topics[at],
        partition=messages.partitions[at],
        offset=messages.offsets[at],
        seq=0 if opened.seqs is None else opened.seqs[number],
        op=event.op,
        schema_key=event.schema_key,
        commit_ts=event.commit_ts,
        partial=event.partial,
        before=event.before,
        after=event.after,
        checksum=checksum,
        corrupted=corrupted,
        table_id=event.table_id if ids else None,
    )
