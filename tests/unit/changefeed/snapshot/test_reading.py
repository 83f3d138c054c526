"""Tables that are read for a changefeed: random stories with deaths and DDL, and mutations that they must find."""

import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from tests.changefeed import reading
from tests.changefeed.world import Wrong
from ticdc_spark.capture import base
from ticdc_spark.changefeed import sequence
from ticdc_spark.changefeed.snapshot import plan, reads, rounds

STORIES = 120
BUDGET = 250
"""Stories within which a mutation must be found."""
TELLING = (9, 23, 84)
"""The seeds of stories that find mutations which few find. They come first, so that fewer stories run."""


def story(seed: int, folder: Path) -> None:
    made = folder / f"{seed}"
    made.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        one = reading.Reading(seed, made)
        one.run(patch)
    one.check_logs()
    one.check_end()


@pytest.mark.parametrize("first", range(0, STORIES, 40))
def test_what_is_read_and_sent_is_the_truth_whatever_dies(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 40):
        try:
            story(seed, tmp_path)
        except Wrong as error:
            raise AssertionError(f"story {seed}: {error}") from error


def test_a_changefeed_that_reads_no_tables_needs_no_spark() -> None:
    code = "import sys, ticdc_spark.changefeed.loop; print([name for name in sys.modules if name == 'pyspark'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


MUTATIONS: dict[str, tuple[ModuleType, str, str, tuple[ModuleType, ...]]] = {
    "watermarks before what was read is settled": (
        sequence,
        "max(self._consistent_from, 1)",
        "1",
        (reading,),
    ),
    "rows at a commitTs that a watermark has passed": (
        reads,
        "commit_ts=state.commit_ts + 2",
        "commit_ts=state.commit_ts",
        (reading,),
    ),
    "a table that was altered is read as it was": (
        plan,
        "if not same_rows(known, found.table):",
        "if False:",
        (rounds,),
    ),
    "a table is read that took the name of the one to be read": (
        plan,
        "if found.identity != identities[name]:",
        "if False:",
        (rounds,),
    ),
    "a part that found another table counts as read": (plan, 'if one.moved), ""):', 'if False), ""):', (rounds,)),
    "a table is read no further than its first wave": (plan, "elif not stretch.upto:", "elif True:", (rounds,)),
    "a wave goes on behind its own end": (
        plan,
        "note.upto if goes_on else",
        "note.upto + note.upto if goes_on else",
        (rounds,),
    ),
    "a renamed table is forgotten": (base, "now.get(name, name) for name", "now.get(name) for name", (sequence,)),
    "a round of an earlier process is forgotten": (
        reads,
        "return None if loaded is None or not base or",
        "return None if loaded is None or not base or folder.reading.total or",
        (reading,),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found(name: str, tmp_path: Path) -> None:
    changed, old, new, users = MUTATIONS[name]
    text = inspect.getsource(changed)
    assert old in text, "the mutation follows the words that it changes"
    module = ModuleType("mutated")
    exec(compile(text.replace(old, new), "mutated", "exec"), module.__dict__)
    with pytest.MonkeyPatch.context() as patch:
        for user in users:
            for known, value in vars(changed).items():
                if getattr(user, known, None) is value and getattr(value, "__module__", "") == changed.__name__:
                    patch.setattr(user, known, getattr(module, known))
        for seed in (*TELLING, *(one for one in range(BUDGET) if one not in TELLING)):
            try:
                story(seed, tmp_path)
            except (Wrong, AssertionError, KeyError, ValueError, msgspec.DecodeError):
                return
    pytest.fail(f"no story of {BUDGET} finds it")
