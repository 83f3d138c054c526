"""``skip-messages``: exactly the named message is left out, and what lacks it is marked until that is cleared."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.memory_sink.lake import Lake
from tests.reference.workloads import ENCODER
from tests.support.memory_job import Kept, ListSource, job_of, run
from tests.support.simple_examples import USER
from ticdc_spark.config.job import Job
from ticdc_spark.config.values import MessagePlace, skip_messages_line
from ticdc_spark.errors import RejectedMessage, UsageError
from ticdc_spark.model import Bootstrap, Change, Message, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.operate.requests import diverged
from ticdc_spark.replicate.state.requests import Clear, Resume
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.replicate.step import Steps

OTHER = msgspec.structs.replace(USER, name="other", table_id=149)
FAR = msgspec.structs.replace(USER, name="far", table_id=150)
BAD = b'{"version":1,"type":"INSERT","oops":1}'


def message(change: Change | bytes, offset: int, topic: str = "t") -> Message:
    key = None
    match change:
        case bytes():
            value: bytes | None = change
        case RowChange():
            (one,) = ENCODER.rows([change])
            key, value = one.key, one.value
        case Bootstrap():
            encoded = ENCODER.bootstrap(change.table)
            assert encoded is not None
            value = encoded.value
        case Watermark():
            encoded = ENCODER.watermark(change.commit_ts)
            assert encoded is not None
            value = encoded.value
        case SchemaChange():
            encoded = ENCODER.ddl(change)
            assert encoded is not None
            value = encoded.value
    return Message(topic=topic, partition=0, offset=offset, key=key, value=value)


def row(of: Table, ts: int, number: int, age: str = "1") -> RowChange:
    values = {"id": str(number), "name": "a", "age": age, "score": "1.5"}
    return RowChange(op="insert", table=of, commit_ts=ts, after=values)


def sent(*changes: Change | bytes, topic: str = "t") -> list[Message]:
    return [message(change, at, topic) for at, change in enumerate(changes)]


def go(folder: Path, messages: list[Message], lake: Lake, store: Kept, **keys: Any) -> Steps:
    return run(job_of(folder, parallel_tables=1, **keys), ListSource(messages), lake, store)


def ids(lake: Lake, name: str) -> list[Any]:
    return sorted(row["id"] for row in lake.tables["simple", name].named_rows())


def about(lake: Lake, name: str) -> str:
    """The state in a table's stamp."""
    found = lake.find(("simple", name))
    assert found is not None and found.stamp is not None
    return found.stamp.about


def states(steps: Steps) -> dict[str, TableState]:
    return {table.name: table for table in steps.progress.tables}


def at(*offsets: int, topic: str = "t") -> tuple[MessagePlace, ...]:
    return tuple(MessagePlace(topic, 0, offset) for offset in offsets)


FIRST = (Bootstrap(USER), Bootstrap(OTHER), row(USER, 10, 1), row(OTHER, 11, 1), Watermark(20))


def test_the_line_that_a_stop_prints_leaves_out_exactly_that_message(tmp_path: Path) -> None:
    messages = sent(*FIRST, BAD, row(USER, 30, 2), row(OTHER, 31, 2), Watermark(100))
    far = sent(Bootstrap(FAR), row(FAR, 12, 1), Watermark(20), row(FAR, 30, 2), Watermark(100), topic="far")
    lake, store = Lake(), Kept()
    for upto in (3, 4):  # a table's topics are known from its second batch on
        go(tmp_path, [*messages[:5], *far[:upto]], lake, store)
    with pytest.raises(RejectedMessage) as stopped:
        go(tmp_path, [*messages, *far], lake, store)
    (line,) = (line for line in str(stopped.value).splitlines() if "skip-messages" in line)
    assert tomllib.loads(line[line.index("skip-messages") :]) == {"skip-messages": ["t/0/5"]}
    done = go(tmp_path, [*messages, *far], lake, store, skip_messages=at(5))
    assert (ids(lake, "user"), ids(lake, "other"), ids(lake, "far")) == ([1, 2], [1, 2], [1, 2])
    assert done.progress.counters.rejected == 1
    found = states(done)
    assert found["user"].diverged_since is not None and found["other"].diverged_since is not None
    assert "offset 5" in found["user"].diverged_why
    assert found["far"].diverged_since is None, "a table of another topic lacks nothing"
    ((reject,),) = (kept for (_, stage), kept in lake.letters["job"].items() if stage == "skip-messages")
    assert (reject.offset, "left out by skip-messages; it cannot be read" in reject.reason) == (5, True)


def test_another_bad_message_still_stops_the_job(tmp_path: Path) -> None:
    messages = sent(*FIRST, BAD, BAD, Watermark(100))
    with pytest.raises(RejectedMessage, match=r'skip-messages = \["t/0/5", "t/0/6"\]'):
        go(tmp_path, messages, Lake(), Kept(), skip_messages=at(5))


@pytest.mark.parametrize("batch_rows", [1, 100])
def test_a_message_that_can_be_read_marks_its_table_only(tmp_path: Path, batch_rows: int) -> None:
    messages = sent(*FIRST, row(USER, 30, 2), row(OTHER, 31, 2), row(USER, 32, 3), Watermark(100))
    lake = Lake()
    done = go(tmp_path, messages, lake, Kept(), skip_messages=at(5), batch_rows=batch_rows)
    assert (ids(lake, "user"), ids(lake, "other")) == ([1, 3], [1, 2])
    found = states(done)
    assert (found["user"].diverged_since, found["other"].diverged_since) == (30, None)
    assert '"is":"diverged","since":30' in about(lake, "user"), "it is in the stamp"


def test_a_table_that_comes_after_its_left_out_message_is_marked(tmp_path: Path) -> None:
    messages = sent(row(USER, 5, 9), Watermark(7), *FIRST, row(USER, 30, 2), Watermark(100))
    lake = Lake()
    done = go(tmp_path, messages, lake, Kept(), skip_messages=at(0), batch_rows=1)
    assert ids(lake, "user") == [1, 2]
    assert (states(done)["user"].diverged_since, states(done)["other"].diverged_since) == (5, None)
    assert done.progress.missed == ()


def test_a_table_that_was_emptied_after_that_is_not_marked(tmp_path: Path) -> None:
    new = msgspec.structs.replace(USER, table_id=200)
    create = SchemaChange(
        commit_ts=20,
        query="CREATE TABLE `user` (`id` INT PRIMARY KEY)",
        kind="CREATE",
        schema="simple",
        name="user",
        table=new,
    )
    lake = Lake()
    messages = sent(row(USER, 5, 9), Watermark(7), create, row(new, 30, 2), Watermark(100))
    done = go(tmp_path, messages, lake, Kept(), skip_messages=at(0))
    assert (ids(lake, "user"), states(done)["user"].diverged_since) == ([2], None)


@pytest.mark.parametrize("waits", [False, True], ids=["in its batch", "in a later batch"])
def test_a_row_that_cannot_be_read_is_left_out_whenever_that_shows(tmp_path: Path, waits: bool) -> None:
    messages = sent(*FIRST, row(USER, 30, 2, age="many"), row(USER, 31, 3), row(OTHER, 32, 2), Watermark(100))
    lake, store = Lake(), Kept()
    if waits:
        go(tmp_path, messages[:-1], lake, store)
    with pytest.raises(RejectedMessage, match=r'skip-messages = \["t/0/5"\]'):
        go(tmp_path, messages, lake, store)
    done = go(tmp_path, messages, lake, store, skip_messages=at(5))
    assert (ids(lake, "user"), ids(lake, "other")) == ([1, 3], [1, 2])
    assert (states(done)["user"].diverged_since, states(done)["other"].diverged_since) == (30, None)
    assert done.progress.counters.rejected == 1


def test_a_message_left_out_under_quarantine_holds_nothing(tmp_path: Path) -> None:
    messages = sent(*FIRST, BAD, row(USER, 30, 2), Watermark(100))
    lake = Lake()
    done = go(tmp_path, messages, lake, Kept(), skip_messages=at(5), on_reject="quarantine")
    assert ids(lake, "user") == [1, 2]
    assert not any(table.quarantined for table in done.progress.tables)


@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_rows_before_one_that_cannot_be_read_are_applied_under_quarantine(tmp_path: Path, batch_rows: int) -> None:
    rows = [row(USER, 30, 2), row(USER, 31, 3), row(USER, 32, 4, age="many"), row(USER, 32, 5), row(USER, 33, 6)]
    messages = sent(*FIRST, *rows, row(OTHER, 34, 2), Watermark(100))
    lake, store, keys = Lake(), Kept(), {"on_reject": "quarantine", "batch_rows": batch_rows}
    done = go(tmp_path, messages, lake, store, **keys)
    assert (ids(lake, "user"), ids(lake, "other")) == ([1, 2, 3], [1, 2])
    assert states(done)["user"].applied == 31
    store.ask(Resume(tables=(("simple", "user"),)))
    done = go(tmp_path, messages, lake, store, skip_messages=at(7), **keys)
    assert (ids(lake, "user"), states(done)["user"].diverged_since) == ([1, 2, 3, 5, 6], 32)


def cleared(folder: Path, messages: list[Message], lake: Lake, store: Kept) -> Job:
    go(folder, messages, lake, store, skip_messages=at(5))
    job = job_of(folder, parallel_tables=1, skip_messages=at(5))
    with pytest.raises(UsageError, match=r"'simple.other' is not diverged; diverged: simple.user"):
        diverged(job, store.progress, ["simple.other"], every=False)
    (was,) = diverged(job, store.progress, ["simple.user"], every=False)
    assert was.diverged_since == 30
    store.ask(Clear(tables=(("simple", "user"),)))
    return job


CLEAR = (*FIRST, row(USER, 30, 2), row(USER, 31, 3), Watermark(100))


@pytest.mark.parametrize("more", [(), (row(OTHER, 110, 9), Watermark(200)), (row(USER, 110, 9), Watermark(200))])
def test_what_the_operator_cleared_wins_over_the_stamp_and_is_written_there(
    tmp_path: Path, more: tuple[Change, ...]
) -> None:
    messages, lake, store = sent(*CLEAR), Lake(), Kept()
    cleared(tmp_path, messages, lake, store)
    for _ in range(2):
        done = go(tmp_path, sent(*CLEAR, *more), lake, store, skip_messages=at(5))
        assert (states(done)["user"].diverged_since, states(done)["user"].is_clean) == (None, False)
    assert '"is":"unverified"' in about(lake, "user")


def test_what_diverges_after_it_was_cleared_is_marked_again(tmp_path: Path) -> None:
    messages, lake, store = sent(*CLEAR), Lake(), Kept()
    cleared(tmp_path, messages, lake, store)
    more = sent(*CLEAR, row(USER, 110, 9), BAD, row(USER, 120, 10), Watermark(200))
    for _ in range(2):
        done = go(tmp_path, more, lake, store, skip_messages=at(5, 9))
        assert states(done)["user"].diverged_since == 99
    assert ids(lake, "user") == [1, 3, 9, 10]


@pytest.mark.parametrize("topic", ["shop", "a.b-c_d", "odd/topic", 'quo"te\\'])
def test_a_line_is_read_as_it_is_printed(topic: str) -> None:
    from ticdc_spark.config.values import _places

    place = MessagePlace(topic, 3, 2**40)
    assert _places(tomllib.loads(skip_messages_line([place, place]))["skip-messages"]) == (place,)


def elsewhere(change: Change, offset: int) -> Message:
    return msgspec.structs.replace(message(change, offset), partition=1)


def test_a_left_out_message_does_not_come_back_when_the_rows_around_it_are_joined(tmp_path: Path) -> None:
    rows = [row(USER, 30 + number, 10 + number) for number in range(160)]
    feed = sent(Bootstrap(USER), row(USER, 10, 1), Watermark(20), *rows, Watermark(1000))
    other = [elsewhere(Watermark(20), 0)]
    lake, store, skip = Lake(), Kept(), at(10)
    for upto in range(3, len(feed)):  # each batch brings one row, and all of them wait
        go(tmp_path, [*feed[:upto], *other], lake, store, skip_messages=skip)
    go(tmp_path, [*feed, *other, elsewhere(Watermark(1000), 1)], lake, store, skip_messages=skip)
    assert ids(lake, "user") == [1, *(10 + number for number in range(160) if number != 7)]


def test_a_left_out_message_does_not_come_back_when_a_late_row_has_the_topic_read_again(tmp_path: Path) -> None:
    feed = sent(Bootstrap(USER), row(USER, 10, 1), Watermark(20), row(USER, 30, 2), row(USER, 31, 3), Watermark(40))
    more = [message(row(USER, 50, 4), 6), message(Watermark(60), 7), message(Watermark(80), 8)]
    late = [elsewhere(row(USER, 25, 99), 0), elsewhere(Watermark(80), 1)]
    lake, store, keys = Lake(), Kept(), {"skip_messages": at(4), "late_rows": "apply-if-newest"}
    for messages in (feed, [*feed, *more[:2]], [*feed, *more, *late]):
        steps = go(tmp_path, messages, lake, store, **keys)
    assert steps.progress.counters.late == 1
    assert ids(lake, "user") == [1, 2, 4, 99]
