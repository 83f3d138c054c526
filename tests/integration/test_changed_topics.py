"""A changefeed whose topics are deleted and created again, or lose messages that it had not given: it never goes on."""

import threading
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.changefeed.transcoding import Transcoder
from tests.integration.test_changefeed import changefeed
from tests.spark.simple_topic import INT, ddl, insert, table
from tests.support.kafka_broker import Broker
from ticdc_spark.capture.base import CaptureState, Resolved, Transaction, follow
from ticdc_spark.capture.reorder import PartitionAt, StreamPosition
from ticdc_spark.capture.stream import Stream, StreamCapture
from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import Column, RowChange, SchemaChange, Watermark
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

TABLE = table(10, Column(name="v", type=INT))
CREATE = ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)", TABLE)


def rows(first_ts: int, ids: Iterable[int]) -> list[RowChange | SchemaChange | Watermark]:
    return [insert(TABLE, first_ts + number, id=str(one), v="1") for number, one in enumerate(ids)]


def send(
    broker: Broker, topic: str, events: Iterable[RowChange | SchemaChange | Watermark], partition: int = 0
) -> None:
    encode = encoder(SimpleConfig())
    for event in events:
        match event:
            case RowChange():
                found = list(encode.rows([event]))
            case Watermark():
                found = [encode.watermark(event.commit_ts)]
            case _:
                found = [encode.ddl(event)]
        broker.produce(topic, [(message.key, message.value) for message in found], partition)


def again(broker: Broker, topic: str, partitions: int = 1) -> None:
    """Delete a topic and create it."""
    broker.delete_topic(topic)
    broker.create_topic(topic, partitions)


class Feed:
    """The source, and where it stands."""

    def __init__(self, broker: Broker, topic: str, **options: object) -> None:
        self.stream = msgspec.convert(
            {"servers": broker.servers, "topics": (topic,), "protocol": "simple", **options}, Stream
        )
        self.state = StreamCapture(self.stream).begin()

    @property
    def position(self) -> StreamPosition:
        return StreamPosition.parse(self.state.position)

    def read(self, upto: int, seconds: float = 30.0) -> list[str]:
        """The ids of the rows up to a commit_ts."""
        capture = StreamCapture(self.stream)
        timer = threading.Timer(seconds, capture.close)
        timer.start()
        found: list[str] = []
        try:
            for captured in capture.read(self.state):
                self.state = follow(self.state, captured)
                if isinstance(captured, Transaction):
                    found += [str((row.after or {})["id"]) for row in captured.changes]
                if isinstance(captured, Resolved) and captured.commit_ts >= upto:
                    break
        finally:
            timer.cancel()
        return found

    def forget_ids(self) -> None:
        """Stand where an earlier version did."""
        text = StreamPosition(self.position.protocol, self.position.partitions).text()
        self.state = msgspec.structs.replace(self.state, position=text.replace(',"ids":null', ""))


def backlog(broker: Broker, feed: Feed, folder: Path) -> list[CaptureState]:
    """Read on with a backlog by tasks, to the first state that is above."""
    transcoder = Transcoder(changefeed(broker, "target", "simple"))
    capture = StreamCapture(feed.stream)
    timer = threading.Timer(20.0, capture.close)
    timer.start()
    state = feed.state
    source = transcoder.backlog(capture, folder)
    try:
        with closing(source.read(state)) as elements:  # type: ignore[type-var]
            for element in elements:
                state = follow(state, getattr(element, "end", element))
                if state.commit_ts > feed.state.commit_ts:
                    return [state]
    finally:
        timer.cancel()
    return []


@pytest.fixture
def feed(broker: Broker, topic_name: str) -> Feed:
    """It has read a topic up to offset 5."""
    broker.create_topic(topic_name)
    send(broker, topic_name, [CREATE, *rows(20, (1, 2, 3)), Watermark(30)])
    feed = Feed(broker, topic_name)
    assert feed.read(29) == ["1", "2", "3"]
    assert feed.position.partitions == (PartitionAt(topic_name, 0, 5, 5, 30),)
    return feed


def test_a_topic_that_is_created_again_stops_it(broker: Broker, topic_name: str, tmp_path: Path, feed: Feed) -> None:
    """It gave rows from the middle of the new topic."""
    again(broker, topic_name)
    send(broker, topic_name, [*rows(50, range(100, 110)), Watermark(100)])
    with pytest.raises(
        SourceChanged, match=rf"'{topic_name}' was deleted and created again.*partition 0 up to off.* 5"
    ):
        feed.read(99)
    with pytest.raises(SourceChanged, match="was deleted and created again"):
        backlog(broker, feed, tmp_path)


def test_a_topic_that_ends_before_what_was_read_stops_it(
    broker: Broker, topic_name: str, tmp_path: Path, feed: Feed
) -> None:
    """Also where its id is not known: an earlier version made the state."""
    again(broker, topic_name)
    send(broker, topic_name, [*rows(50, (100,)), Watermark(100)])
    feed.forget_ids()
    with pytest.raises(
        SourceChanged, match=rf"'{topic_name}', partition 0 ends at offset 2, and was read up to 5.*new"
    ):
        feed.read(99)
    with pytest.raises(SourceChanged, match="ends at offset 2"):
        backlog(broker, feed, tmp_path)


@pytest.mark.parametrize("by_tasks", [False, True])
def test_the_state_of_an_earlier_version_gets_its_ids(
    broker: Broker, topic_name: str, tmp_path: Path, feed: Feed, by_tasks: bool
) -> None:
    ids = feed.position.ids
    assert ids and [*ids] == [topic_name]
    feed.forget_ids()
    assert "ids" not in feed.state.position and feed.position.ids is None
    send(broker, topic_name, [*rows(50, (4,)), Watermark(60)])
    if by_tasks:
        (feed.state,) = backlog(broker, feed, tmp_path)
    else:
        assert feed.read(59) == ["4"]
    assert feed.position.ids == ids


@pytest.mark.parametrize("count", [2, 20])
def test_a_topic_that_is_created_again_while_it_is_read(
    broker: Broker, topic_name: str, feed: Feed, count: int
) -> None:
    """The client goes on in the new topic where that is long enough, and finds its offset out of range where not."""

    def other() -> None:
        time.sleep(2)
        again(broker, topic_name)
        send(broker, topic_name, rows(50, range(100, 100 + count)))

    thread = threading.Thread(target=other)
    thread.start()
    try:
        with pytest.raises(SourceChanged, match="was deleted and created again"):
            feed.read(1000)
    finally:
        thread.join()


def test_offset_0_is_held(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    """Rows that waited at offset 0 when the state was stored, and that retention removed, were missing."""
    broker.create_topic(topic_name, 2)
    send(broker, topic_name, [CREATE, *rows(20, (1,)), Watermark(30)])
    send(broker, topic_name, [*rows(50, (5, 6)), Watermark(30)], 1)
    feed = Feed(broker, topic_name)
    assert feed.read(29) == ["1"]
    assert feed.position.partitions[1] == PartitionAt(topic_name, 1, 0, 3, 30)
    broker.trim(topic_name, 1, 2)
    for partition in (0, 1):
        send(broker, topic_name, [Watermark(60)], partition)
    for _ in range(2):
        with pytest.raises(SourceChanged, match=rf"'{topic_name}', partition 1 begins at offset 2.*from 0 on.*new"):
            feed.read(59)
        with pytest.raises(SourceChanged, match="begins at offset 2"):
            backlog(broker, feed, tmp_path)
        feed.forget_ids()


@pytest.mark.parametrize("first", ["beginning", "end"])
def test_all_partitions_are_held_from_the_first_state_on(
    broker: Broker, topic_name: str, tmp_path: Path, first: str
) -> None:
    broker.create_topic(topic_name, 2)
    send(broker, topic_name, [CREATE, *rows(20, (1,))])
    broker.trim(topic_name, 0, 1)
    feed = Feed(broker, topic_name, first=first)
    begun = 1 if first == "beginning" else 2
    assert feed.position.partitions == (
        PartitionAt(topic_name, 0, begun, begun, 0),
        PartitionAt(topic_name, 1, 0, 0, 0),
    )
    send(broker, topic_name, [CREATE, *rows(50, (5, 6)), Watermark(60)], 1)
    broker.trim(topic_name, 1, 2)
    with pytest.raises(SourceChanged, match="partition 1 begins at offset 2"):
        feed.read(59)
    with pytest.raises(SourceChanged, match="partition 1 begins at offset 2"):
        backlog(broker, feed, tmp_path)


def test_a_topic_without_its_first_messages_is_begun(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    broker.create_topic(topic_name, 2)
    for partition in (0, 1):
        send(broker, topic_name, [*rows(11, (0,)), CREATE, *rows(20, (partition,)), Watermark(30)], partition)
        broker.trim(topic_name, partition, 1)
    feed = Feed(broker, topic_name)
    feed.state = backlog(broker, feed, tmp_path)[0]
    feed.state = StreamCapture(feed.stream).begin()
    assert sorted(feed.read(29)) == ["0", "1"]


def test_partitions_of_which_an_earlier_version_had_read_nothing(broker: Broker, topic_name: str) -> None:
    """It had offset 0 for them, though they had no message left."""
    broker.create_topic(topic_name, 2)
    send(broker, topic_name, [CREATE, *rows(20, (1,)), Watermark(30)])
    send(broker, topic_name, [Watermark(5)], 1)
    broker.trim(topic_name, 1, 1)
    feed = Feed(broker, topic_name)
    parts = (PartitionAt(topic_name, 0, 3, 3, 30), PartitionAt(topic_name, 1, 0, 0, 0))
    feed.state = CaptureState(position=StreamPosition("simple", parts).text(), commit_ts=29, tables=(TABLE,))
    feed.forget_ids()
    for partition in (0, 1):
        send(broker, topic_name, [*rows(50 + partition, (partition,)), Watermark(60)], partition)
    assert feed.read(59) == ["0", "1"]
    assert [at.offset for at in feed.position.partitions] == [5, 3]


def test_a_partition_that_is_added_is_read_from_its_beginning(
    broker: Broker, topic_name: str, tmp_path: Path, feed: Feed
) -> None:
    broker.add_partitions(topic_name, 2)
    send(broker, topic_name, [Watermark(60)])
    send(broker, topic_name, [*rows(50, (7,)), Watermark(60)], 1)
    begun = feed.state
    assert feed.read(59) == ["7"]
    feed.state = begun
    (state,) = backlog(broker, feed, tmp_path)
    assert state.commit_ts >= 50
    broker.trim(topic_name, 1, 1)
    with pytest.raises(SourceChanged, match="partition 1 begins at offset 1"):
        feed.read(59)


def test_a_partition_that_is_gone(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    broker.create_topic(topic_name, 2)
    for partition in (0, 1):
        send(broker, topic_name, [CREATE, Watermark(30)], partition)
    feed = Feed(broker, topic_name)
    feed.read(29)
    again(broker, topic_name)
    for _ in range(2):
        with pytest.raises(SourceChanged, match=rf"'{topic_name}', partition 1 no longer exists.*offset 2"):
            feed.read(59)
        with pytest.raises(SourceChanged, match="partition 1 no longer exists"):
            backlog(broker, feed, tmp_path)
        feed.forget_ids()
