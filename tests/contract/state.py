"""The contract of a store of a job's state: compare-and-swap, lost answers, a heartbeat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ticdc_spark.errors import DecisionNeeded, LeaseHeld, SinkFault
from ticdc_spark.replicate.state.conditions import Clean, Quarantined
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.progress import PartitionState, Plan, Progress
from ticdc_spark.replicate.state.requests import Clear, Rebuild, Resume, take
from ticdc_spark.replicate.state.store import JobStore, acquire, ask, read_state, take_over
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.state import NOTHING, Parts, StateMoved, StateRow, StateStore, StoredState

T = ("shop", "t")


def rows(*values: str, kind: str = "job") -> list[StateRow]:
    return [StateRow(kind=kind, value=value) for value in values]


def values(stored: StoredState) -> dict[str, list[str]]:
    return {part: [row.value for row in found] for part, found in stored.parts.items()}


def taken(states: StateStore) -> JobStore:
    """The state as a new process has it that pushes the owner aside."""
    return take_over(states, states.load(), "job", this_process())


class Waiting:
    """A state whose looks wait for ``answers``."""

    def __init__(self, states: StateStore) -> None:
        self._states, self.looks = states, 0
        self.looking, self.answers = threading.Event(), threading.Event()

    def version(self) -> str | None:
        self.looks += 1
        self.looking.set()
        assert self.answers.wait(30)
        return self._states.version()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._states, name)


class StateContract:
    """Subclasses have a fixture ``opened``: each call opens the same state as another process does."""

    def test_a_state_begins_with_nothing(self, opened: Callable[[], StateStore]) -> None:
        states = opened()
        states.beat(b"too early")
        assert (states.version(), states.load(), states.heartbeat()) == (None, NOTHING, None)

    def test_a_commit_replaces_parts_whole_and_leaves_the_others(self, opened: Callable[[], StateStore]) -> None:
        states, other = opened(), opened()
        first = states.commit({"a": rows("1", "2"), "b": rows("3")}, None, 5)
        assert other.load().version == other.version() == first
        second = states.commit({"a": rows("4")}, first, 6)
        third = other.commit({"b": rows()}, second, 7)
        for one in (states, other, opened()):
            assert values(one.load()) == {"a": ["4"], "b": []}
            assert one.version() == third

    def test_of_two_writers_one_is_refused_and_writes_nothing(self, opened: Callable[[], StateStore]) -> None:
        one, other = opened(), opened()
        first = one.commit({"a": rows("1")}, None, 0)
        with pytest.raises(StateMoved):
            other.commit({"a": rows("x")}, None, 0)
        other.load()
        second = one.commit({"a": rows("2")}, first, 0)
        for expected in (None, first, "7"):
            with pytest.raises(StateMoved):
                other.commit({"a": rows("x"), "b": rows("y")}, expected, 0)
        assert values(other.load()) == {"a": ["2"]}
        assert other.commit({"a": rows("3")}, second, 0) == one.version()

    def test_writers_at_the_same_time_lose_no_commit(self, opened: Callable[[], StateStore]) -> None:
        opened().commit({"a": rows()}, None, 0)
        moved = []

        def write(name: str) -> None:
            states = opened()
            for number in range(4):
                while True:
                    found = states.load()
                    try:
                        added = [*found.parts["a"], *rows(f"{name}{number}")]
                        states.commit({"a": added}, found.version, 0)
                        break
                    except StateMoved:
                        moved.append(name)

        threads = [threading.Thread(target=write, args=(name,)) for name in "xyz"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = values(opened().load())["a"]
        assert sorted(written) == [f"{name}{number}" for name in "xyz" for number in range(4)]
        for name in "xyz":
            assert [one for one in written if one.startswith(name)] == [f"{name}{number}" for number in range(4)]

    def test_a_heartbeat_is_replaced(self, opened: Callable[[], StateStore]) -> None:
        states = opened()
        states.commit({"a": rows()}, None, 0)
        assert states.heartbeat() is None
        version = states.version()
        for beat in (b"1", b"22", b"3"):
            states.beat(beat)
            assert opened().heartbeat() == states.heartbeat() == beat
        assert states.version() == version

    def test_everything_that_a_job_remembers_comes_back(self, opened: Callable[[], StateStore]) -> None:
        store = taken(opened())
        progress = Progress(
            job="job",
            batch=3,
            applied=7,
            partitions=tuple(PartitionState(topic="t", partition=at, offset=at) for at in range(3)),
            tables=(
                TableState(schema="s", name="ü.x/y", snapshot_id=2**62 + 1, applied=2**60 + 1, condition=Clean()),
                TableState(schema="s", name="b", condition=Quarantined(why="a 'bad' row")),
            ),
        )
        plan = Plan(batch=4, end_offsets=(("t", 0, 9),), resolved=9)
        store.save(progress)
        store.save_plan(plan)
        for request in (Rebuild(tables=(T,)), Clear(tables=(T,))):
            ask(opened(), request)
        found = read_state(opened())
        assert (found.progress, found.plan) == (progress, plan)
        assert found.requests == (Rebuild(tables=(T,)), Clear(tables=(T,)))
        assert found.held == store.held
        assert (store.load(), store.load_plan()) == (progress, plan)

    def test_a_plan_is_over_once_its_batch_is_committed(self, opened: Callable[[], StateStore]) -> None:
        store = taken(opened())
        store.save_plan(Plan(batch=4, end_offsets=(), resolved=9))
        store.save(Progress(job="job", batch=3))
        assert store.load_plan() is not None, "a full read, or a request, is saved while the batch is under way"
        store.save(Progress(job="job", batch=4))
        assert store.load_plan() is None and read_state(opened()).plan is None

    def test_an_owner_that_was_overtaken_commits_nothing_more(self, opened: Callable[[], StateStore]) -> None:
        first = acquire(opened(), "job", this_process("ann"))
        first.save(Progress(job="job", batch=1))
        first.check()
        second = taken(opened())
        assert second.held.epoch == first.held.epoch + 1
        for write in (
            first.check,
            first.load,
            first.requests,
            lambda: first.save(Progress(job="job", batch=2)),
            lambda: first.save_plan(Plan(batch=2, end_offsets=(), resolved=9)),
            lambda: first.set_jvm(1),
        ):
            with pytest.raises(LeaseHeld, match=r"was taken by job 'job', pid \d+ on host .*epoch 2"):
                write()
        first.release()
        found = read_state(opened())
        assert (found.progress, found.plan, found.held) == (Progress(job="job", batch=1), None, second.held)
        second.check()

    def test_checks_that_wait_for_another_are_one_look(self, opened: Callable[[], StateStore]) -> None:
        states = Waiting(opened())
        store = taken(states)
        with ThreadPoolExecutor(9) as pool:
            first = pool.submit(store.check)
            assert states.looking.wait(30)
            others = [pool.submit(store.check) for _ in range(8)]
            time.sleep(0.2)  # until they wait
            states.answers.set()
            for one in (first, *others):
                one.result(30)
        assert states.looks < 9
        taken(opened())
        with pytest.raises(LeaseHeld):
            store.check()

    def test_requests_of_others_come_between_and_the_owner_goes_on(self, opened: Callable[[], StateStore]) -> None:
        store = taken(opened())
        progress = Progress(job="job", tables=(TableState(schema="shop", name="t", condition=Quarantined(why="x")),))
        store.save(progress)
        ask(opened(), Rebuild(tables=(T,), at=7))
        store.save_plan(Plan(batch=1, end_offsets=(), resolved=9))
        ask(opened(), Resume(tables=(T,)))
        store.check()
        assert store.requests() == (Rebuild(tables=(T,), at=7), Resume(tables=(T,)))
        after = take(store, progress, dict, reads=False)
        assert after is not None and after.tables[0].quarantined is None
        found = read_state(opened())
        assert (found.progress, found.requests) == (after, (Rebuild(tables=(T,), at=7),))
        assert found.plan is not None

    def test_a_request_that_comes_while_another_is_taken_waits(self, opened: Callable[[], StateStore]) -> None:
        store = taken(opened())
        ask(opened(), Resume(tables=(T,)))
        requests = store.requests()
        ask(opened(), Clear(tables=(T,)))
        store.save(Progress(job="job"), requests)
        assert read_state(opened()).requests == (Clear(tables=(T,)),)

    def test_a_state_that_was_set_back_while_the_job_runs_stops_it(self, opened: Callable[[], StateStore]) -> None:
        states = opened()
        store = taken(states)
        store.save(Progress(job="job", batch=1))
        before = states.load()
        store.save(Progress(job="job", batch=2))
        opened().commit(before.parts, states.version(), 0)
        for write in (store.check, lambda: store.save(Progress(job="job", batch=3))):
            with pytest.raises(DecisionNeeded, match="it was set back or restored while the job was running"):
                write()
        assert read_state(opened()).progress == Progress(job="job", batch=1)

    @pytest.mark.parametrize("happened", [True, False])
    def test_a_commit_whose_answer_was_lost_is_found_or_done_again(
        self, opened: Callable[[], StateStore], happened: bool
    ) -> None:
        states = Flaky(opened(), happened=happened)
        store = taken(states)
        store.save(Progress(job="job", batch=1))
        states.fails = True
        with pytest.raises(SinkFault):
            store.save(Progress(job="job", batch=2))
        store.check()
        store.save(Progress(job="job", batch=2))
        store.save(Progress(job="job", batch=3))
        assert read_state(opened()).progress == Progress(job="job", batch=3)
        states.fails = True
        with pytest.raises(SinkFault):
            store.save(Progress(job="job", batch=4))
        loaded = store.load()
        assert loaded is not None and loaded.batch == (4 if happened else 3)

    def test_a_state_of_another_version_is_refused(self, opened: Callable[[], StateStore]) -> None:
        states = opened()
        states.commit({"job": rows('{"epoch": "many"}')}, None, 0)
        with pytest.raises(DecisionNeeded, match=r"cannot be read: .*Another version of this program wrote it"):
            read_state(opened())


class Flaky:
    """A store whose next commit gives no answer. ``happened``: whether it was done."""

    def __init__(self, inner: StateStore, *, happened: bool) -> None:
        self.inner, self.happened, self.fails = inner, happened, False
        self.where, self.pause = inner.where, inner.pause

    def as_of(self, resolved_ts: int) -> StoredState:
        return self.inner.as_of(resolved_ts)

    def commit(self, parts: Parts, expected: str | None, resolved_ts: int) -> str:
        fails, self.fails = self.fails, False
        if fails and not self.happened:
            raise SinkFault("no answer")
        version = self.inner.commit(parts, expected, resolved_ts)
        if fails:
            raise SinkFault("no answer")
        return version

    def version(self) -> str | None:
        return self.inner.version()

    def load(self) -> StoredState:
        return self.inner.load()

    def beat(self, heartbeat: bytes) -> None:
        self.inner.beat(heartbeat)

    def heartbeat(self) -> bytes | None:
        return self.inner.heartbeat()

    def close(self) -> None:
        self.inner.close()
