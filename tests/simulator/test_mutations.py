"""The product is broken on purpose, in one place at a time: stories must find each of it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.simulator.job_lab import JobLab
from tests.simulator.mutate import Mutation, applied, catch, function_of, place_of_test
from tests.simulator.mutations import MUTATIONS
from tests.simulator.syntax import replaced

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
    assert not mutation.found_by or place_of_test(mutation)


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
        [*command, place_of_test(mutation)],
        env={**os.environ, "MUTATION": mutation.name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("f(a, b=1)", "None", "if x:\n    y = None\nelif z:\n    return"),
        ("b=1", "b=2, c=3", "if x:\n    y = f(a, b=2, c=3)\nelif z:\n    return"),
        ("elif z:", "if False:", "if x:\n    y = f(a, b=1)\nelif False:\n    return"),
        ("y = f(a, b=1)", "pass", "if x:\n    pass\nelif z:\n    return"),
        ("if x:", "return\n...", "return\nif x:\n    y = f(a, b=1)\nelif z:\n    return"),
    ],
)
def test_a_node_is_replaced_however_it_is_written(old: str, new: str, expected: str) -> None:
    (function,) = ast.parse("def g():\n  if (x):\n    y = f(\n      a,\n      b = 1,\n    )\n  elif z: return\n").body
    assert isinstance(function, ast.FunctionDef)
    assert "\n".join(map(ast.unparse, replaced(function, old, new).body)) == expected
    for wrong in ("f(a)", "w", "if y:"):
        with pytest.raises(AssertionError, match="stands there 0 times"):
            replaced(function, wrong, "None")
