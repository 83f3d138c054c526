"""The stories of a fixed stretch of seeds through the real loop: none may end in what must never happen."""

from __future__ import annotations

import pytest

from tests.simulator.job_lab import JobLab
from tests.simulator.runner import DEFAULT_LAB, lines_of, quietly, run_stories

SEEDS = 1000
BLOCK = 100


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_story_ends_in_what_must_never_happen(first: int) -> None:
    totals = run_stories(range(first, first + BLOCK), 60, DEFAULT_LAB)
    assert totals.batches > 5 * BLOCK
    for signature, found in totals.found.items():
        seeds = ", ".join(map(str, found.seeds))
        with quietly():
            story = "\n".join(lines_of(found.story, JobLab, shrunk=True))
        pytest.fail(f"{signature}\nseeds {seeds}; again: make simulate SEEDS={found.seeds[0]}\n{story}", pytrace=False)
