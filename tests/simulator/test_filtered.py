"""Stories of a job that keeps only some rows: in the end it has these, or a story ends as all others do."""

from __future__ import annotations

import pytest

from tests.simulator.draw import draw
from tests.simulator.draw_snapshots import draw_with_snapshots
from tests.simulator.filtered_lab import FilteredLab
from tests.simulator.runner import quietly
from tests.simulator.story import run


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_a_story_ends_with_the_rows_that_meet_the_condition(first: int) -> None:
    with quietly():
        for seed in range(first, first + 20):
            assert run(draw(seed), FilteredLab).finding is None, seed


def test_a_story_with_full_reads_does_so_too() -> None:
    with quietly():
        for seed in range(20):
            assert run(draw_with_snapshots(seed), FilteredLab).finding is None, seed
