"""Stories of a job whose tables are shards of merged ones: they end as others do, or at a table that does not fit."""

from __future__ import annotations

import pytest

from tests.simulator.draw import draw
from tests.simulator.merged_lab import MergedLab, without_stops
from tests.simulator.runner import quietly
from tests.simulator.story import run


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_a_story_ends_in_the_truth_in_merged_tables(first: int) -> None:
    with quietly():
        for seed in range(first, first + 20):
            finding = run(without_stops(draw(seed)), MergedLab).finding
            # A table that is made anew with other columns is a stop: a merged table keeps those that it had.
            assert finding is None or "does not fit into" in finding.detail, seed
