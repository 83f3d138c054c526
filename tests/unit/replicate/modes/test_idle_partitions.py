"""When a partition without newer watermarks no longer holds the others back."""

from tests.support.scanned import scanned
from ticdc_spark.replicate.modes.base import Advanced, Rules, SchemaWaits
from ticdc_spark.replicate.modes.watermark import advance
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import ControlEvent, WatermarkRead

ENDS = {("t", 0): 5, ("t", 1): 5}


def _watermark(ts: int, partition: int) -> ControlEvent:
    return WatermarkRead(topic="t", partition=partition, offset=1, seq=0, commit_ts=ts)


def _step(progress: Progress, now: float, *controls: ControlEvent, behind: int = 0) -> Advanced:
    """One batch that reads to the end, but for ``behind`` messages of partition 1."""
    latest_offsets = ENDS | {("t", 1): 5 + behind}
    rules = Rules(idle_timeout=60.0, bounded=False, now=now)
    return advance(progress, scanned(controls, ENDS, latest_offsets), rules, SchemaWaits())


def test_a_long_batch_makes_no_partition_idle() -> None:
    both = _step(Progress(job="j"), 0.0, _watermark(10, 0), _watermark(10, 1))
    assert both.resolved == 9
    # Ten minutes later: the other partition's watermark is there too, but was sent after this batch's ends were read.
    one = _step(both.progress, 600.0, _watermark(20, 0))
    assert one.resolved == 9 and one.progress.hold.kind == "partition"


def test_what_stays_behind_at_its_end_is_idle_after_the_timeout() -> None:
    progress = _step(Progress(job="j"), 0.0, _watermark(10, 0), _watermark(10, 1)).progress
    progress = _step(progress, 1.0, _watermark(20, 0)).progress
    assert _step(progress, 60.9, _watermark(30, 0)).resolved == 9
    idle = _step(progress, 61.0, _watermark(30, 0))
    assert idle.resolved == 29 and [one.idle for one in idle.progress.partitions] == [False, True]
    # With messages to read it is not, however long that takes, and the time begins anew.
    assert _step(progress, 61.0, behind=1).resolved == 9
    again = _step(progress, 61.0, behind=1).progress
    assert _step(again, 70.0).resolved == 9


def test_a_message_of_a_partition_begins_the_time_anew() -> None:
    """Seed 8388918: a topic that had been idle gets a DDL that is sent again; its watermarks come after it."""
    progress = _step(Progress(job="j"), 0.0, _watermark(10, 0), _watermark(10, 1)).progress
    progress = _step(progress, 1.0, _watermark(20, 0)).progress
    rules = Rules(idle_timeout=60.0, bounded=False, now=70.0)
    more = ENDS | {("t", 1): 6}
    awake = advance(progress, scanned([_watermark(30, 0)], more, more), rules, SchemaWaits())
    assert awake.resolved == 9 and [one.idle for one in awake.progress.partitions] == [False, False]
    # But only once: others may write there for ever, and without watermarks.
    progress = awake.progress
    for number in range(1, 5):
        more = ENDS | {("t", 1): 6 + number}
        rules = Rules(idle_timeout=60.0, bounded=False, now=70.0 + 29 * number)
        again = advance(progress, scanned([_watermark(30 + number, 0)], more, more), rules, SchemaWaits())
        progress = again.progress
        assert again.resolved == (9 if number < 3 else 29 + number)


def test_without_any_watermark_nothing_is_resolved_and_that_is_reported() -> None:
    nothing = _step(Progress(job="j"), 0.0)
    assert nothing.resolved == 0 and "no partition has had a watermark" in nothing.progress.hold.what


def test_a_partition_to_which_older_messages_are_sent_again_is_not_idle_while_its_watermarks_come() -> None:
    """Its rows between its own watermark and the others' are still to come: they would be late."""
    progress = _step(Progress(job="j"), 0.0, _watermark(13, 0), _watermark(10, 1)).progress
    for second in range(30, 300, 30):
        again = _step(progress, second, _watermark(second // 30, 0), _watermark(second // 30, 1))
        assert again.resolved == 9 and not any(one.idle for one in again.progress.partitions)
        progress = again.progress
    assert _step(progress, 299.0).resolved == 9
    assert _step(_step(progress, 300.0).progress, 361.0).resolved == 12, "when nothing comes any more"
