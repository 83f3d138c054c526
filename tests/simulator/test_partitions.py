"""Stories in which partitions are emptied, whatever else happens to the job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.simulator.draw import draw
from tests.simulator.job_lab import JobLab
from tests.simulator.story import Story, run

INSTEAD = ("truncate_table", "add_index", "drop_index", "add_column", "exchange_partition")
"""Schema changes in whose place partitions are emptied."""


def with_partitions(seed: int) -> Story:
    story = draw(seed)
    moves = tuple(
        replace(move, word="empty_partition") if move.kind == "ddl" and move.word in INSTEAD else move
        for move in story.moves
    )
    return replace(story, moves=moves)


@pytest.mark.parametrize("seed", range(60))
def test_the_rows_of_partitions_are_those_of_the_source(seed: int) -> None:
    outcome = run(with_partitions(seed), JobLab)
    assert outcome.finding is None
