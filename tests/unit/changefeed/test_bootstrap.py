"""When BOOTSTRAP messages and watermarks are due, by a clock that the test sets."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.changefeed.history import table
from tests.support.changefeed_tables import cadence
from ticdc_spark.capture.base import CaptureState, Resolved, Transaction
from ticdc_spark.changefeed.actions import Cadence, Routed, Save, SendBootstrap, SendRows, SendWatermark
from ticdc_spark.changefeed.config.settings import BootstrapCadence
from ticdc_spark.changefeed.sequence import Sequencer
from ticdc_spark.model import RowChange, Table

T = table("t", 7)


class Layout:
    def topics(self, tables: Iterable[Table]) -> Iterable[str]:
        return ["main", *(found.name for found in tables)]

    def topic_of(self, found: Table) -> str | None:
        return found.name

    def partitions(self, topic: str) -> int:
        return 2


class Run:
    """A sequence whose messages are acknowledged at once."""

    def __init__(self, bootstrap: BootstrapCadence | None = None, **options: Any) -> None:
        state = CaptureState(position="", commit_ts=100, tables=(T,))
        self.sequencer = Sequencer(state, Layout(), Cadence(bootstrap=bootstrap, **options), 0.0)
        self.ts = 100

    def rows(self, now: float, count: int = 1) -> list[Any]:
        self.ts += 1
        rows = [
            (("t", 0), RowChange(op="insert", table=T, commit_ts=self.ts, after={"id": str(i)})) for i in range(count)
        ]
        changes = tuple(row for _, row in rows)
        self.sequencer.offer(Routed(Transaction(commit_ts=self.ts, changes=changes, position=""), rows))
        return self.at(now)

    def at(self, now: float) -> list[Any]:
        """What is sent at a time."""
        sent = []
        for _ in range(5):
            for action in self.sequencer.actions(now):
                if isinstance(action, Save):
                    self.sequencer.saved(action.state)
                else:
                    sent.append(action)
                    self.sequencer.acknowledge(action.ticket)
        return sent


def kinds(sent: list[Any]) -> list[type]:
    return [type(action) for action in sent if not isinstance(action, SendWatermark)]


def test_before_the_first_row_to_all_partitions() -> None:
    run = Run(cadence())
    sent = [action for action in run.rows(0.0) if not isinstance(action, SendWatermark)]
    assert [type(action) for action in sent] == [SendBootstrap, SendRows]
    assert sent[0].places == (("t", 0), ("t", 1)) and sent[0].table is T
    assert kinds(run.rows(1.0)) == [SendRows]


def test_by_interval_while_there_are_rows_and_not_when_idle() -> None:
    run = Run(cadence(interval=120))
    run.rows(0.0)
    assert kinds(run.at(119.0)) == []
    assert kinds(run.at(126.0)) == [SendBootstrap]
    assert kinds(run.at(200.0)) == []
    assert kinds(run.at(1795.0)) == [SendBootstrap]
    assert kinds(run.at(1805.0)) == [], "half an hour without rows"
    assert kinds(run.at(4000.0)) == []
    assert kinds(run.rows(4001.0)) == [SendBootstrap, SendRows], "as before the first"


def test_by_count() -> None:
    run = Run(cadence(messages=10))
    run.rows(0.0, 10)
    assert kinds(run.rows(0.1)) == [SendBootstrap, SendRows]
    assert kinds(run.rows(0.2, 8)) == [SendRows]


@pytest.mark.parametrize(
    "off", [cadence(interval=0), cadence(interval=-1), cadence(messages=0), cadence(messages=-1), None]
)
def test_off_unless_both_are_set(off: BootstrapCadence | None) -> None:
    run = Run(off)
    assert kinds(run.rows(0.0)) == [SendRows]
    assert kinds(run.at(500.0)) == []


def test_at_the_start_to_every_partition_and_later_to_the_first() -> None:
    run = Run(cadence(to_all_partitions=False, all_at_start=True, messages=10))
    (first,) = [action for action in run.at(0.0) if isinstance(action, SendBootstrap)]
    assert first.places == (("t", 0), ("t", 1))
    assert kinds(run.rows(0.1, 10)) == [SendRows]
    (later,) = [action for action in run.rows(0.2) if isinstance(action, SendBootstrap)]
    assert later.places == (("t", 0),)


def test_watermarks_come_each_second_to_all_topics_also_when_nothing_happens() -> None:
    run = Run()
    marks = [(now, action) for tenth in range(50) for now in [tenth / 10] for action in run.at(now)]
    assert [now for now, _ in marks] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert all(action.commit_ts == 101 for _, action in marks)
    assert marks[0][1].places == (("main", 0), ("main", 1), ("t", 0), ("t", 1))
    run.sequencer.offer(Routed(Resolved(commit_ts=150, position="")))
    assert [action.commit_ts for action in run.at(5.0)] == [151]


def test_none_where_the_protocol_has_none() -> None:
    run = Run(watermarks=False)
    assert kinds(run.rows(0.0)) == [SendRows] and run.at(10.0) == []
    run.sequencer.end()
    run.at(11.0)
    assert run.sequencer.done


def test_a_round_of_watermarks_waits_for_the_one_before_it() -> None:
    run = Run()
    (first,) = run.sequencer.actions(0.0)
    assert [run.sequencer.actions(now) for now in (1.0, 2.0, 60.0)] == [[], [], []]
    run.sequencer.acknowledge(first.ticket)
    assert [type(action) for action in run.sequencer.actions(60.1)] == [SendWatermark]
