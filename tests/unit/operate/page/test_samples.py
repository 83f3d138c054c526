"""Lags and rates over time."""

import pytest

from ticdc_spark.operate.page.samples import EVERY, MOST, Sample, Samples, lags, rates
from ticdc_spark.operate.page.spark_line import drawn
from ticdc_spark.operate.page.view import Chart


def test_a_sample_keeps_the_highest_lag_of_its_time_and_the_last_total() -> None:
    samples = Samples()
    for at, lag, total in ((1.0, 3.0, 5), (2.0, 9.0, 6), (3.0, None, 7), (4.0, 1.0, 8), (11.0, 2.0, 9)):
        samples.add(at, lag, total)
    assert samples.all() == (Sample(4.0, 9.0, 8), Sample(11.0, 2.0, 9))


def test_the_memory_of_samples_does_not_grow() -> None:
    samples = Samples()
    for at in range(3 * MOST):
        samples.add(at * EVERY, 1.0, at)
    assert len(samples.all()) == MOST


def test_a_lag_grows_until_now_while_nothing_is_committed() -> None:
    assert lags((Sample(10.0, 4.0, 1), Sample(20.0, None, 1)), 50.0, 34.0) == ((10.0, 4.0), (50.0, 34.0))
    assert lags((Sample(10.0, 4.0, 1),), 10.0, 4.0) == ((10.0, 4.0),)
    assert lags((), 10.0, None) == ()


def test_a_rate_is_of_the_time_since_the_sample_before() -> None:
    samples = (Sample(10.0, None, 100), Sample(20.0, None, 350), Sample(40.0, None, 350), Sample(50.0, None, 30))
    assert rates(samples) == ((20.0, 25.0), (40.0, 0.0), (50.0, 3.0))


@pytest.mark.parametrize("points", [(), ((1.0, 2.0),), ((1.0, 2.0), (1.0, 3.0))])
def test_a_line_needs_two_moments(points: tuple[tuple[float, float], ...]) -> None:
    assert "<svg" not in drawn(Chart(title="Lag", points=points, unit="seconds"))


def test_a_line_says_its_numbers() -> None:
    shown = drawn(Chart(title="Lag", points=((0.0, 2.0), (60.0, 0.0), (120.0, 75.0)), unit="seconds"))
    assert 'aria-label="Lag: now 1 min 15 s, highest 1 min 15 s, lowest 0.0 s, over 2 min"' in shown
    assert 'points="0.0,62.4 300.0,64.0 600.0,4.0"' in shown
    assert "nan" not in drawn(Chart(title="Lag", points=((0.0, 0.0), (60.0, 0.0)), unit="a second"))
