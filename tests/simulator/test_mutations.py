"""The product is broken on purpose, in one place at a time: stories must find each of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulator.job_lab import JobLab
from tests.simulator.mutate import Mutation, applied, catch, function_of
from tests.simulator.mutations import MUTATIONS

SEEDS = range(60_000)
STORIES = 600
"""So many of the seeds' stories are run at most, of those that have what the mutation needs."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_can_be_made(mutation: Mutation) -> None:
    functions = [function_of(edit.where) for edit in mutation.edits]
    before = [function.__code__ for function in functions]
    with applied(mutation):
        assert all(function.__code__ is not code for function, code in zip(functions, before, strict=True))
    assert [function.__code__ for function in functions] == before


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [one for one in MUTATIONS if not one.found_by], ids=lambda mutation: mutation.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    caught = catch(mutation, mutation.seeds or SEEDS, JobLab, STORIES)
    assert caught is not None, f"{STORIES} stories do not find it"


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [one for one in MUTATIONS if one.found_by], ids=lambda mutation: mutation.name)
def test_a_rare_mutation_is_found_by_its_test(mutation: Mutation) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.simulator.mutate"]
    done = subprocess.run(
        [*command, mutation.found_by],
        env={**os.environ, "MUTATION": mutation.name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
