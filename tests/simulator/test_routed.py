"""Stories of a job whose tables have other names in the target: they end as all others do."""

from __future__ import annotations

import pytest

from tests.simulator.draw import draw
from tests.simulator.draw_snapshots import draw_with_snapshots
from tests.simulator.routed_lab import RoutedLab
from tests.simulator.runner import quietly
from tests.simulator.story import run


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_a_story_ends_in_the_truth_under_other_names(first: int) -> None:
    with quietly():
        for seed in range(first, first + 20):
            assert run(draw(seed), RoutedLab).finding is None, seed


def test_a_story_with_full_reads_ends_in_the_truth_under_other_names() -> None:
    with quietly():
        for seed in range(20):
            assert run(draw_with_snapshots(seed), RoutedLab).finding is None, seed
