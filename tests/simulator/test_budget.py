"""The stories of a fixed stretch of seeds through the real loop: none may end in what must never happen."""

from __future__ import annotations

import pytest

from tests.simulator.draw_harder import draw_harder_reads
from tests.simulator.job_lab import JobLab
from tests.simulator.runner import DEFAULT_LAB, Totals, lines_of, quietly, run_stories

SEEDS = 1000
QUICK = 500
"""The stories of these seeds run each time."""
BLOCK = 100


@pytest.mark.parametrize(
    "first",
    [pytest.param(one, marks=() if one < QUICK else pytest.mark.slow) for one in range(0, SEEDS, BLOCK)],
)
def test_no_story_ends_in_what_must_never_happen(first: int) -> None:
    totals = run_stories(range(first, first + BLOCK), 60, DEFAULT_LAB)
    assert totals.batches > 5 * BLOCK
    judge(totals)


@pytest.mark.parametrize(
    "seed",
    [*range(12), 67, 175, 690, 1776, 2800, 5774, 6414, 9030, 10723, 11212, 11256, 11360, 11639, *range(3000, 3050)],
)
def test_no_harder_story_does(seed: int) -> None:
    """Among them those that once did."""
    judge(run_stories(range(seed, seed + 1), 60, DEFAULT_LAB, draw_harder_reads), "STORY=--harder ")


def judge(totals: Totals, more: str = "") -> None:
    for signature, found in totals.found.items():
        seeds = ", ".join(map(str, found.seeds))
        with quietly():
            story = "\n".join(lines_of(found.story, JobLab, shrunk=True))
        pytest.fail(
            f"{signature}\nseeds {seeds}; again: make simulate {more}SEEDS={found.seeds[0]}\n{story}", pytrace=False
        )
