"""The conditions of a table, and what changes them."""

import ast
from pathlib import Path

import msgspec
import pytest

import ticdc_spark
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.replicate.state import table as states
from ticdc_spark.replicate.state.conditions import (
    Clean,
    Condition,
    Diverged,
    Dropped,
    Kept,
    Loading,
    Quarantined,
    Settling,
    Unverified,
)
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.rows import job_state, progress_rows
from ticdc_spark.replicate.state.table import TableState, condition_of
from ticdc_spark.sinks.state import StoredState

KEYED = Table(schema="s", name="t", columns=(Column(name="id", type=ColumnType(name="int")),), indexes=())
MARK = Diverged(since=5, why="a message was left out")
LOAD = Loading(base=40, token="1.2")


def state(condition: Condition, applied: int = 10) -> TableState:
    return TableState(schema="s", name="t", condition=condition, applied=applied)


WORDS = [
    (Clean(), "clean"),
    (Unverified(), "unverified"),
    (Settling(upto=9), "unverified"),
    (MARK, "diverged"),
    (LOAD, "snapshot"),
    (Dropped(), "dropped"),
    (Kept(rows=Clean()), "kept"),
    (Kept(rows=MARK), "diverged"),
    (Quarantined(why="x", lifted=Kept(rows=MARK)), "quarantined"),
]


@pytest.mark.parametrize(("condition", "word"), WORDS)
def test_each_condition_has_its_word_and_is_read_as_it_was_written(condition: Condition, word: str) -> None:
    found = state(condition)
    assert condition_of(found) == word
    assert msgspec.json.decode(msgspec.json.encode(found), type=TableState) == found


@pytest.mark.parametrize("around", [Clean(), LOAD, Dropped(), Kept(rows=Clean())])
def test_a_mark_stays_whatever_comes_around_it(around: Condition) -> None:
    stopped = states.diverge(states.quarantine(state(around), "unreadable"), 7, "left out")
    again = states.lift(states.diverge(stopped, 3, "later"))
    assert (stopped.quarantined, again.quarantined) == ("unreadable", None)
    assert (again.diverged_since, again.diverged_why, again.is_clean) == (7, "left out", False)
    assert type(again.lifted) is (Diverged if around == Clean() else type(around))


def test_a_quarantine_keeps_its_first_reason_and_what_the_table_is() -> None:
    stopped = states.quarantine(states.quarantine(state(Clean()), "first"), "second")
    assert stopped.quarantined == "first" and states.lift(stopped) == state(Clean())


@pytest.mark.parametrize(
    ("before", "loses", "after"),
    [
        (Clean(), "", Unverified()),
        (Clean(), "dropped columns", Diverged(since=10, why="dropped columns")),
        (MARK, "dropped columns", MARK),
        (Quarantined(why="unreadable", lifted=Clean()), "", Diverged(since=10, why="unreadable")),
    ],
)
def test_a_read_that_is_given_up_leaves_what_the_table_was(before: Condition, loses: str, after: Condition) -> None:
    begun = states.begin_load(msgspec.structs.replace(state(before), origin="create"), KEYED, LOAD, loses)
    assert (condition_of(begun), begun.applied) == ("snapshot", 40)
    given_up = states.give_up_load(begun)
    assert given_up.condition == after
    assert given_up.origin == ("bootstrap" if isinstance(after, Diverged) else "create")


def test_a_mark_of_a_read_under_way_outlives_the_read() -> None:
    begun = states.begin_load(state(Clean()), KEYED, LOAD, "")
    done = states.finish_load(states.diverge(begun, 45, "left out"), 3, 60, in_shape=True)
    assert done.condition == Diverged(since=45, why="left out", settles=60)
    cleared = states.clear(done)
    assert (cleared.condition, cleared.cleared) == (Settling(upto=60), 45)
    assert (states.settle_load(cleared).is_clean, states.settle_load(done).is_clean) == (True, False)


def test_a_drop_keeps_no_mark_and_a_mark_after_it_waits_for_the_next_table() -> None:
    gone = states.diverge(states.drop(("s", "t"), 20, ("topic",)), 30, "left out")
    assert (gone.is_dropped, condition_of(gone)) == (True, "diverged")
    assert states.create_by_rows(gone, KEYED, 40, certain=True).condition == Diverged(since=30, why="left out")
    assert states.drop(("s", "t"), 50, ()).condition == Dropped()


def test_a_table_that_is_kept_is_what_it_was_once_it_comes_back() -> None:
    assert states.come_back(states.keep(state(MARK))) == state(MARK)
    assert states.come_back(state(LOAD)) == state(LOAD), "it is not gone"


@pytest.mark.parametrize("same_mark", [True, False])
def test_what_the_operator_cleared_wins_over_the_stamp_unless_that_has_another_mark(same_mark: bool) -> None:
    cleared = states.clear(state(MARK))
    stamped, other = state(MARK), state(msgspec.structs.replace(MARK, since=6))
    assert states.take_promise(stamped, cleared, same_mark=same_mark).condition == Unverified()
    assert states.take_promise(other, cleared, same_mark=same_mark).diverged_since == 6


def test_a_state_with_the_flags_of_another_version_is_refused() -> None:
    (progress, table) = progress_rows(Progress(job="job", tables=(state(Clean()),)))
    old = {"schema": "s", "name": "t", "clean": False, "diverged_since": 5}
    table = msgspec.structs.replace(table, value=msgspec.json.encode(old).decode())
    with pytest.raises(DecisionNeeded, match="Another version of this program wrote it"):
        job_state(StoredState(version="1", parts={"progress": [progress, table]}), "here")


def test_nothing_but_the_file_of_transitions_makes_a_condition() -> None:
    root = Path(ticdc_spark.__file__).parent
    makers = {
        (file.relative_to(root).as_posix(), name.name)
        for file in root.rglob("*.py")
        for found in ast.walk(ast.parse(file.read_text()))
        if isinstance(found, ast.ImportFrom) and found.module == "ticdc_spark.replicate.state.conditions"
        for name in found.names
        if name.name != "Loading"  # who asks for a full read says what to read
    }
    assert {file for file, _ in makers} == {"replicate/state/table.py"}
