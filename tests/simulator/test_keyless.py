"""Stories with a table without a key: it has as many equal rows as the source, or it is marked."""

from __future__ import annotations

import pytest

from tests.simulator.draw_keyless import draw_keyless
from tests.simulator.job_lab import JobLab
from tests.simulator.story import run

ONCE_FOUND = (680, 911, 1601, 1713, 4005872)


@pytest.mark.parametrize("seed", [*range(60), *ONCE_FOUND])
def test_a_table_without_a_key_equals_the_source(seed: int) -> None:
    outcome = run(draw_keyless(seed), JobLab)
    assert outcome.finding is None
    assert outcome.moves["restart"] > 0
