"""Stories in which several things go wrong at once."""

from __future__ import annotations

import pytest

from tests.simulator.draw_harder import draw_harder
from tests.simulator.job_lab import JobLab
from tests.simulator.moves import Move
from tests.simulator.operator import MOVES
from tests.simulator.story import run


def test_every_trouble_is_made_of_moves_that_there_are() -> None:
    moves: list[Move] = [move for seed in range(300) for move in draw_harder(seed).moves]
    assert {move.kind for move in moves} <= {*MOVES, "batch"}
    assert {"older_start", "recreate_topic", "restore_lake", "rebuild"} <= {move.kind for move in moves}


@pytest.mark.parametrize("seed", [2313126, 2405331, 2469613])
def test_a_story_ends_well(seed: int) -> None:
    assert run(draw_harder(seed), JobLab).finding is None
