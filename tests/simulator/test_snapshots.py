"""Stories of jobs that begin with full reads of a database or a dump, with deaths, and operators who want more."""

from __future__ import annotations

import pytest

from tests.simulator.draw_snapshots import draw_more_snapshots, draw_with_snapshots
from tests.simulator.job_lab import JobLab
from tests.simulator.story import run

ONCE_FOUND = (
    920,
    1787,
    2042,
    3019497,
    3053120,
    3064620,
    3084966,
    3125809,
    3177377,
    3206999,
    3207183,
    3230425,
    3300348,
    3325848,
    3330667,
)
"""With a schema file."""
WITHOUT_FILE = (
    *(3400421, 3400877, 3402091, 3406657, 3410323, 3419611, 3450903, 3462861),
    *(3464468, 3478039, 3481307, 3503819, 3769153),
)


@pytest.mark.parametrize("seed", [*range(16), *ONCE_FOUND])
def test_a_story_ends_well(seed: int) -> None:
    assert run(draw_with_snapshots(seed), JobLab).finding is None


@pytest.mark.parametrize("seed", [*range(1, 16, 2), *WITHOUT_FILE])
def test_a_story_without_a_schema_file_ends_well(seed: int) -> None:
    assert run(draw_more_snapshots(seed), JobLab).finding is None
