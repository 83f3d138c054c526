"""Stories of a job whose tables are shards of merged ones: they end as others do, or at a table that does not fit."""

from __future__ import annotations

import pytest

from tests.simulator.draw import draw
from tests.simulator.draw_snapshots import draw_with_snapshots
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


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_a_story_with_full_reads_ends_in_the_truth_in_merged_tables(first: int) -> None:
    with quietly():
        for seed in range(first, first + 20):
            story = without_stops(draw_with_snapshots(seed))
            finding = None if story.setup.job.snapshot == "dump" else run(story, MergedLab).finding
            # So is a RENAME, and a topic that only a shard has had which the job never had.
            stops = ("does not fit into", "it renames a table", "not there any more")
            assert finding is None or any(text in finding.detail for text in stops), (seed, finding)
