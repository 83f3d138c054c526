"""How long a run goes on trying."""

import pytest

from ticdc_spark.errors import EnvironmentFault, RegistryFault, SinkFault, SourceFault
from ticdc_spark.replicate.run.retry import LONGEST_PAUSE, RetryPolicy
from ticdc_spark.sinks.capabilities import SinkConflict


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("fault", [SourceFault("x"), SinkFault("x"), RegistryFault("x")])
def test_pauses_grow_until_the_time_is_over(fault: EnvironmentFault) -> None:
    clock = Clock()
    patience = RetryPolicy("shop", 100.0, clock)
    patience.worked()
    pauses = []
    while (pause := patience.pause_after(fault)) is not None:
        pauses.append(pause)
        clock.now += pause
    assert pauses == [1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE, 9]
    assert clock.now == 200, "the whole time, and no more"


def test_each_batch_that_is_done_starts_anew() -> None:
    clock = Clock()
    patience = RetryPolicy("shop", 5.0, clock)
    patience.worked()
    for _ in range(3):
        assert patience.pause_after(SourceFault("x")) == 1.0
        clock.now += 4
        assert patience.pause_after(SinkFault("y")) == 1.0, "what is left of five seconds"
        patience.worked()
    assert patience.pause_after(SourceFault("x")) == 1.0
    clock.now += 5
    assert patience.pause_after(SourceFault("x")) is None


@pytest.mark.parametrize(
    ("retry_for", "works", "fault"),
    [
        (600.0, False, SourceFault("the topic does not exist")),
        (0.0, True, SourceFault("x")),
        (600.0, True, EnvironmentFault("too many rejects")),
    ],
)
def test_what_is_not_tried_again(retry_for: float, works: bool, fault: EnvironmentFault) -> None:
    patience = RetryPolicy("shop", retry_for, Clock())
    if works:
        patience.worked()
    assert patience.pause_after(fault) is None


def test_a_first_batch_in_which_another_writer_was_faster_is_tried_again() -> None:
    clock = Clock()
    patience = RetryPolicy("shop", 600.0, clock)
    assert patience.pause_after(SinkConflict("x")) == 1.0
    assert patience.pause_after(SinkFault("y")) is None
    clock.now += 600
    assert patience.pause_after(SinkConflict("x")) is None
