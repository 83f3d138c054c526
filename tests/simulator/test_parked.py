"""Stories in which dropped tables come back, whatever else happens to the job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.simulator.draw import draw
from tests.simulator.job_lab import JobLab
from tests.simulator.story import Story, run
from tests.simulator.test_partitions import INSTEAD

NOT_SENT = ("debezium", "debezium-avro")
"""Protocols without RECOVER TABLE."""


def with_returns(seed: int) -> Story | None:
    """``None``: the story has nothing of the kind. Tables that were there before the job may not be known to it."""
    story = draw(seed)
    if story.setup.feed.protocol in NOT_SENT or story.setup.tables_before:
        return None
    job = replace(story.setup.job, keep_dropped=1e6, drop_table="apply")
    moves = tuple(
        replace(move, word="recover_table") if move.kind == "ddl" and move.word in INSTEAD else move
        for move in story.moves
        if move.kind != "drop_table"
    )
    return replace(story, setup=replace(story.setup, job=job), moves=moves)


@pytest.mark.parametrize("seed", range(0, 120, 2))
def test_tables_come_back_with_the_rows_of_the_source(seed: int) -> None:
    story = with_returns(seed)
    if story is not None:
        assert run(story, JobLab).finding is None
