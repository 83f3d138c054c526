"""A backlog that tasks send: the same messages, in the same order, as one process sends."""

from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.changefeed.transcoding import Transcoder, events, stories
from tests.support.changefeed_files import load_text
from tests.unit.capture.test_reorder import FAULTY, PROTOCOLS, record, simple, watermark, write
from ticdc_spark.capture.base import CaptureState
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.backlog import files, opening, plan, segment
from ticdc_spark.changefeed.backlog import source as backlog_source
from ticdc_spark.changefeed.backlog.batch import Prepared
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.errors import LateRow, RejectedMessage, SchemaMissing, UnsendableChange
from ticdc_spark.model import Envelope

STORY = replace(FAULTY, changes=500, restart_every=120, ddl_every=30)
LONG = replace(STORY, changes=1500, ddl_every=250)
"""With segments that are long enough for several ranges."""
EXTENSION = "enable-tidb-extension=true"
TARGETS = {"simple": "", "open-protocol": "", "canal-json": EXTENSION, "debezium": EXTENSION}
RULES = """
[filter]
rules = ["*.*", "!shop.sessions"]
[[filter.event-filters]]
matcher = ["shop.orders"]
ignore-event = ["delete"]
[sink]
dispatchers = [
  {matcher = ["shop.orders"], topic = "orders_{table}", partition = "index-value"},
  {matcher = ["shop.*"], partition = "ts"},
]
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is cut small, so that a short topic has many stretches, pieces, chunks and ranges."""
    monkeypatch.setattr(files, "CHUNK_ROWS", 7)
    monkeypatch.setattr(opening, "_STAIR", 5)
    monkeypatch.setattr(plan, "_SMALLEST_PIECE", 40)
    monkeypatch.setattr(plan, "_RANGE_ROWS", 30)
    monkeypatch.setattr(segment, "FEW", 6)
    monkeypatch.setattr(backlog_source, "STRETCH", 150)


def changefeed(folder: Path, target: str, text: str = "") -> Changefeed:
    uri = f"kafka://127.0.0.1:1/shop?protocol={target}&partition-num=3&{TARGETS[target]}"
    return load_text(folder, text, uri, **{"time-zone": "UTC", "changefeed-id": "test"})


def both(feed: Changefeed, path: str, folder: Path) -> tuple[Transcoder, Transcoder, CaptureState, CaptureState]:
    """By one process, and by tasks, with the states at their ends."""
    one, tasks = Transcoder(feed), Transcoder(feed)
    capture = open_stream(path)
    at_one = one.run(capture, capture.begin())
    at_tasks = tasks.run(tasks.backlog(open_stream(path), folder), capture.begin())
    return one, tasks, at_one, at_tasks


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tasks_send_what_one_process_sends(
    tmp_path: Path, protocol: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = record(tmp_path / "topic", protocol, STORY)
    one, tasks, at_one, at_tasks = both(changefeed(tmp_path, target), path, tmp_path / "files")
    assert tasks.batches > 2
    assert "one process reads on" not in caplog.text
    # the version of a table that a source without versions shows is the commitTs of where it is met
    keys = protocol == "simple" or target != "simple"
    assert stories(target, tasks.sent, keys=keys) == stories(target, one.sent, keys=keys)
    assert [ddl.changes for ddl in tasks.ddls] == [ddl.changes for ddl in one.ddls]
    assert at_tasks.commit_ts == at_one.commit_ts
    assert {*at_tasks.tables} == {*at_one.tables}
    assert not [*(tmp_path / "files").glob("rows-*")], "files go with their stretch"


@pytest.mark.parametrize("protocol", ["simple", "open-protocol"])
def test_rules_columns_and_several_topics(tmp_path: Path, protocol: str) -> None:
    path = record(tmp_path / "topic", protocol, LONG)
    one, tasks, _, _ = both(changefeed(tmp_path, "canal-json", RULES), path, tmp_path / "files")
    found = stories("canal-json", tasks.sent)
    assert found == stories("canal-json", one.sent)
    assert {topic for topic, _ in found} >= {"shop", "orders_orders"}
    assert tasks.topics.asked == one.topics.asked, "no topic is made that has no rows"
    assert tasks.batches > 1
    assert counted(tasks) == counted(one)
    rows = [event for _, event in events("canal-json", one.sent) if isinstance(event, Envelope)]
    assert counted(one) and sum(counted(one).values()) == len(rows)


def counted(of: Transcoder) -> dict[tuple[str, str, str], int]:
    assert of.counts.bytes == sum(len(key or b"") + len(value or b"") for _, key, value in of.sent)
    return {(one.schema, one.table, one.op): one.rows for one in of.counts.rows}


@pytest.mark.timeout(120)
def test_a_backlog_of_which_nothing_is_sent_ends(tmp_path: Path) -> None:
    """What has no row is not sent, and keeps no place for what is to be sent."""
    path = record(tmp_path / "topic", "simple", LONG)
    nothing = '[filter]\nrules = ["other.*"]\n'
    one, tasks, at_one, at_tasks = both(changefeed(tmp_path, "simple", nothing), path, tmp_path / "files")
    assert not tasks.sent and not one.sent
    assert at_tasks.commit_ts == at_one.commit_ts
    assert not [*(tmp_path / "files").glob("messages-*")]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("protocol", ["simple", "debezium"])
def test_it_goes_on_anywhere_in_either_way(tmp_path: Path, protocol: str, seed: int) -> None:
    path = record(tmp_path / "topic", protocol, STORY)
    feed, rand = changefeed(tmp_path, "open-protocol"), Random(seed)
    one, other = Transcoder(feed), Transcoder(feed)
    capture = open_stream(path)
    one.run(capture, capture.begin())
    state = capture.begin()
    for most in (*(rand.choice((1, 2, 5, 30)) for _ in range(12)), 1 << 60):
        tasks = rand.random() < 0.6
        source = other.backlog(open_stream(path), tmp_path / "files") if tasks else open_stream(path)
        state = other.run(source, state, most)
    # whether a TRUNCATE that leaves the version shows as another id depends on what the process has seen of the table
    assert stories("open-protocol", other.sent, keys=False) == stories("open-protocol", one.sent, keys=False)


def test_target_ts_is_not_passed(tmp_path: Path) -> None:
    path = record(tmp_path / "topic", "simple", LONG)
    whole = Transcoder(changefeed(tmp_path, "open-protocol"))
    capture = open_stream(path)
    target = whole.run(capture, capture.begin(), 300).commit_ts
    feed = replace(whole.feed, target_ts=target)
    tasks = Transcoder(feed)
    ends, source = [], tasks.backlog(open_stream(path), tmp_path / "files")
    for element in source.read(capture.begin()):
        ends.append(element.commit_ts)
        if isinstance(element, Prepared):
            source.sent()
        if element.commit_ts >= target:
            break
    assert ends[-1] == target, "the loop, which stops there, finds an element that ends there"


def by_tasks(folder: Path, path: str, state: CaptureState | None = None) -> tuple[Transcoder, CaptureState]:
    tasks = Transcoder(changefeed(folder, "open-protocol"))
    capture = open_stream(path)
    return tasks, tasks.run(tasks.backlog(capture, folder / "files"), state or capture.begin())


def test_a_message_that_cannot_be_read_stops_after_all_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap, (one, two), (first, second) = simple()
    values = [(0, bootstrap), (0, one), (0, watermark(first + 1)), (0, b"{}"), (0, two), (0, watermark(second + 1))]
    path = write(tmp_path / "topic", *values)
    tasks = Transcoder(changefeed(tmp_path, "open-protocol"))
    capture = open_stream(path)
    with pytest.raises(RejectedMessage, match="partition 0, offset 3 cannot be read"):
        tasks.run(tasks.backlog(capture, tmp_path / "files"), capture.begin())
    assert len(tasks.sent) == 1
    assert "one process reads on, as tasks cannot: topic 't', partition 0, offset 3: " in caplog.text


def test_a_late_row_is_an_error_and_a_replay_is_not(tmp_path: Path) -> None:
    bootstrap, (one, two), (_, second) = simple()
    passed = [(0, bootstrap), (0, one), (0, two), (0, watermark(second + 5))]
    _, state = by_tasks(tmp_path, write(tmp_path / "topic", *passed))
    assert state.commit_ts == second + 4
    again, end = by_tasks(tmp_path, write(tmp_path / "again", *passed, (0, one), (0, watermark(second + 9))), state)
    assert not again.sent and end.commit_ts == second + 8
    with pytest.raises(LateRow, match="partition 1, offset 0: a row of"):
        by_tasks(tmp_path, write(tmp_path / "late", *passed, (1, one), (1, watermark(second + 9))), state)


def test_a_version_that_comes_later_is_waited_for_and_one_that_never_comes_stops(tmp_path: Path) -> None:
    bootstrap, (one, two), (first, second) = simple()
    found, _ = by_tasks(
        tmp_path, write(tmp_path / "later", (0, one), (0, two), (0, watermark(second + 1)), (0, bootstrap))
    )
    assert len(found.sent) == 2
    with pytest.raises(SchemaMissing, match=r"partition 0, offset 0: a row of .* needs version \d+ of it"):
        by_tasks(tmp_path, write(tmp_path / "never", (0, one), (0, watermark(first + 1))))


def test_a_row_that_cannot_be_sent_stops_after_all_before_it(tmp_path: Path) -> None:
    """Tasks find it in a range; the process that takes over sends what is before it, and names it."""
    path = record(tmp_path / "topic", "simple", LONG)
    text = """
[sink]
column-selectors = [{matcher = ["shop.customers"], columns = ["*", "!phone"]}]
dispatchers = [{matcher = ["shop.customers"], partition = "columns", columns = ["tier"]}]
[[filter.event-filters]]
matcher = ["shop.customers"]
ignore-insert-value-expr = "full_name + 1 > 0 and tier = 3"
"""
    feed = changefeed(tmp_path, "open-protocol", text)
    sent = []
    for backlog in (False, True):
        transcoder = Transcoder(replace(feed, kafka=replace(feed.kafka, max_message_bytes=400)))
        transcoder.topics._facts = replace(transcoder.topics._facts, max_message_bytes=400)
        capture = open_stream(path)
        source = transcoder.backlog(capture, tmp_path / "files") if backlog else capture
        with pytest.raises(UnsendableChange) as error:
            transcoder.run(source, capture.begin())
        sent.append((str(error.value), transcoder.sent))
    assert sent[0][0] == sent[1][0]
    assert stories("open-protocol", sent[1][1]) == stories("open-protocol", sent[0][1])
