"""Stories in which partitions are emptied, or exchanged, whatever else happens to the job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.simulator.draw import draw
from tests.simulator.job_lab import JobLab
from tests.simulator.story import Story, run

INSTEAD = ("truncate_table", "add_index", "drop_index", "add_column", "exchange_partition")
"""Schema changes in whose place this is done to partitions."""


def with_partitions(seed: int, word: str) -> Story:
    story = draw(seed)
    moves = tuple(
        replace(move, word=word) if move.kind == "ddl" and move.word in INSTEAD else move for move in story.moves
    )
    return replace(story, moves=moves)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("word", ["empty_partition", "swap_partition"])
def test_the_rows_of_partitions_are_those_of_the_source(word: str, seed: int) -> None:
    outcome = run(with_partitions(seed, word), JobLab)
    assert outcome.finding is None
