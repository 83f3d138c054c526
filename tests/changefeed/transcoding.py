"""What a changefeed of a stream sends, without a broker: by one process, and by tasks that run in this one."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.changefeed.here import Here
from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, follow
from ticdc_spark.capture.stream import StreamCapture
from ticdc_spark.changefeed.actions import Place, SendDdl, SendRows
from ticdc_spark.changefeed.backlog.batch import Prepared
from ticdc_spark.changefeed.backlog.files import read_messages_of
from ticdc_spark.changefeed.backlog.source import BacklogCapture
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.encoders import encoders
from ticdc_spark.changefeed.outbox import Outbox
from ticdc_spark.changefeed.route import Placer
from ticdc_spark.changefeed.sent import SentCounts
from ticdc_spark.changefeed.topics import TopicFacts
from ticdc_spark.model import Envelope, SchemaChange
from ticdc_spark.protocols import decoder

Sent = list[tuple[Place, bytes | None, bytes | None]]
"""Place, key and value, in the order in which they are sent."""


class Topics:
    """Topics that are there whatever their name."""

    def __init__(self, partitions: int) -> None:
        self._facts = TopicFacts(partitions, partitions, 1_000_000)
        self.asked: set[str] = set()

    def facts(self, topic: str) -> TopicFacts:
        self.asked.add(topic)
        return self._facts

    def partitions(self, topic: str) -> int:
        return self.facts(topic).partitions

    def limit(self, topic: str) -> int:
        return self.facts(topic).max_message_bytes


class Pair(Here):
    """Tasks in this process, planned as for two side by side."""

    parallelism = 2


class _Listed:
    def __init__(self, into: Sent) -> None:
        self._into = into

    def receipt(self, ticket: int, messages: int, into: list[int]) -> None:
        into.append(ticket)

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, receipt: None) -> None:
        self._into.append(((topic, partition), key, value))


class Transcoder:
    """Sends what a source gives into a list."""

    def __init__(self, feed: Changefeed, partitions: int = 3) -> None:
        self.feed = feed
        self.topics: Any = Topics(partitions)
        self.rules = Router(feed)
        self.sent: Sent = []
        self.ddls: list[CapturedDdl] = []
        self.counts = SentCounts()
        self.batches = 0
        """How often tasks have sent."""

    def backlog(self, capture: StreamCapture, folder: Path) -> BacklogCapture:
        """The source with its backlog by tasks, from the first message on."""
        return BacklogCapture(capture, replace(self.feed, backlog=1), self.rules, self.topics, Pair(), folder)

    def run(self, source: StreamCapture | BacklogCapture, state: CaptureState, most: int = 1 << 60) -> CaptureState:
        """Send at most so many elements after a state; gives the state after them."""
        placer = Placer(self.feed, self.topics, self.rules)
        with encoders(self.feed, self.rules.topic) as encoder_for:
            outbox = Outbox(self.feed.protocol, encoder_for, self.topics.limit, _Listed(self.sent), counts=self.counts)
            for element in source.read(state):
                end = element.end if isinstance(element, Prepared) else element
                assert end.commit_ts >= state.commit_ts
                if isinstance(element, Prepared):
                    self._batch(element)
                    assert isinstance(source, BacklogCapture)
                    if element.batch.rows:  # as the sequencer has it
                        source.sent()
                else:
                    self._element(placer, outbox, element)
                state = follow(state, end)
                most -= 1
                if most == 0:
                    break
        return state

    def _batch(self, element: Prepared) -> None:
        self.batches += 1
        self.counts.bytes += element.batch.bytes
        self.counts.add_rows(element.batch.counted)
        places: list[Place] = []
        for part in element.batch.parts:
            for block in part:
                places.append((block.topic, block.partition))
                self.sent += [((block.topic, block.partition), key, value) for key, value in read_messages_of(block)]
        owners = [{(block.topic, block.partition) for block in part} for part in element.batch.parts]
        assert sum(map(len, owners)) == len({*places}), "a partition is written by one task"

    def _element(self, placer: Placer, outbox: Outbox, element: Captured) -> None:
        routed = placer.route(element)
        by_place: dict[Place, list[Any]] = {}
        for place, change in routed.rows:
            by_place.setdefault(place, []).append(change)
        for place, changes in by_place.items():
            outbox.do(SendRows(0, place, changes))
        if isinstance(element, CapturedDdl):
            self.ddls.append(element)
            for topic, change in routed.ddls:
                outbox.do(SendDdl(0, tuple((topic, number) for number in range(3)), change))


def events(protocol: str, sent: Sent) -> Iterator[tuple[Place, Envelope | SchemaChange]]:
    """Rows and DDL of messages."""
    opener = decoder(protocol)
    for place, key, value in sent:
        for event in opener.open_message(key, value):
            assert isinstance(event, Envelope | SchemaChange), event
            yield place, event


def stories(protocol: str, sent: Sent, *, keys: bool = True) -> Mapping[Place, list[tuple[int, list[str]]]]:
    """Of each partition commitTs, and what has it, in any order. ``keys``: with tables' versions and ids."""
    found: dict[Place, list[tuple[int, list[str]]]] = {}
    for place, event in events(protocol, sent):
        shown = repr(event if keys or isinstance(event, SchemaChange) else replace(event, schema_key="", table_id=None))
        of = found.setdefault(place, [])
        if not of or of[-1][0] != event.commit_ts:
            of.append((event.commit_ts, []))
        of[-1][1].append(shown)
    return {place: [(ts, sorted(texts)) for ts, texts in of] for place, of in found.items()}
