"""Until when Kafka keeps what a job needs: what waits for a table is in the topic alone."""

import pytest

from tests.support.status_examples import IDENTITY, NOW, beat
from ticdc_spark.operate.retention import headroom_of, too_short
from ticdc_spark.operate.status import check_code, describe
from ticdc_spark.replicate.state.progress import PartitionState, PendingRows, Progress

DAY = 86_400.0


def ago(seconds: float) -> int:
    """The commit_ts of some seconds before now."""
    return int((NOW - seconds) * 1000) << 18


def waiting(topic: str, seconds: float, name: str = "orders") -> PendingRows:
    return PendingRows(
        schema="shop",
        name=name,
        schema_key="1",
        rows=1,
        min_ts=ago(seconds),
        max_ts=ago(0),
        topic=topic,
        partition=0,
        first=0,
        end=9,
    )


def progress(*pending: PendingRows, unread: float | None = None) -> Progress:
    read = PartitionState(topic="a", partition=0, offset=9, end=9, watermark=ago(5 * DAY))
    behind = () if unread is None else (PartitionState(topic="b", partition=0, offset=1, end=2, watermark=ago(unread)),)
    return Progress(job="shop", pending=pending, partitions=(read, *behind))


def test_the_topic_that_loses_something_first_decides() -> None:
    found = headroom_of(
        progress(waiting("a", 2 * DAY), waiting("b", DAY)), {"a": 7 * DAY, "b": 1.5 * DAY, "c": 1.0}, NOW
    )
    assert found is not None
    assert (found.topic, found.table, found.retention) == ("b", "shop.orders", 1.5 * DAY)
    assert found.seconds == pytest.approx(DAY / 2, abs=1)


def test_messages_that_are_not_read_are_as_old_as_the_watermark_before_them() -> None:
    found = headroom_of(progress(unread=3 * DAY), {"a": 7 * DAY, "b": 4 * DAY}, NOW)
    assert found is not None
    assert (found.topic, found.table) == ("b", "")
    assert found.seconds == pytest.approx(DAY, abs=1)


def test_a_topic_that_is_read_to_its_end_and_of_which_nothing_waits_may_lose_everything() -> None:
    assert headroom_of(progress(), {"a": DAY}, NOW) is None


def test_a_topic_without_a_limit_loses_nothing() -> None:
    assert headroom_of(progress(waiting("a", 90 * DAY)), {}, NOW) is None


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        (6 * DAY, "in topic a in 1 d: retention.ms is 7 d"),
        (8 * DAY, "in topic a at any time: retention.ms is 7 d"),
    ],
)
def test_status_warns_before_kafka_deletes_what_waits(waits: float, words: str) -> None:
    assert words in too_short(headroom_of(progress(waiting("a", waits)), {"a": 7 * DAY}, NOW))


def test_status_says_nothing_while_there_is_time() -> None:
    assert too_short(headroom_of(progress(waiting("a", DAY)), {"a": 7 * DAY}, NOW)) == ""
    assert too_short(None) == ""


def test_a_supervisor_learns_of_it_also_while_the_job_is_down() -> None:
    before = progress(waiting("a", 6.5 * DAY))
    found = describe(IDENTITY, before, beat("stopped", retention={"a": 7 * DAY}), None, NOW)
    assert "Kafka may delete changes of shop.orders that wait" in found.reason
    assert (found.state, check_code(found)) == ("warning", 3)
    assert "retention.ms" in found.next
    assert found.retention_headroom == pytest.approx(DAY / 2, abs=1)
