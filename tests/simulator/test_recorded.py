"""Stories of a job whose tables have histories: tables end as all others do, and histories have every change once."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulator.draw import draw
from tests.simulator.draw_snapshots import draw_with_snapshots
from tests.simulator.recorded_lab import RecordedLab, judge_histories
from tests.simulator.runner import quietly
from tests.simulator.story import run


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_a_story_leaves_every_change_once_in_the_histories(first: int) -> None:
    judged: Counter[str] = Counter()
    with quietly():
        for seed in range(first, first + 20):
            found = run(draw(seed), RecordedLab, judge=lambda world: judge_histories(world, judged))
            assert found.finding is None, seed
    assert judged["judged"] > 3
    assert judged["folded"] > 3


def test_a_story_with_full_reads_does_so_too() -> None:
    judged: Counter[str] = Counter()
    with quietly():
        for seed in range(12):
            found = run(draw_with_snapshots(seed), RecordedLab, judge=lambda world: judge_histories(world, judged))
            assert found.finding is None, seed
    assert judged["there"] > 5
    assert judged["folded"] > 5
