"""The state of a job in the process that owns the job. Every write is a compare-and-swap in the target.

So a write is refused once another process has taken the job over. A commit to a table first checks (``Fence``) that
the job is still ours. Other processes may only add requests, and a write keeps these.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from types import TracebackType
from typing import Protocol

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.errors import DecisionNeeded, LeaseHeld, SinkFault
from ticdc_spark.replicate.state.owner import (
    RUNNING,
    Owner,
    Ownership,
    TakeoverWait,
    await_end,
    beat_of,
    describe,
    is_ours,
)
from ticdc_spark.replicate.state.processes import process
from ticdc_spark.replicate.state.progress import Plan, Progress
from ticdc_spark.replicate.state.requests import Request, RequestStore, added
from ticdc_spark.replicate.state.rows import JOB, PROGRESS, JobState, job_rows, job_state, progress_rows
from ticdc_spark.sinks.state import StateMoved, StateRow, StateStore, StoredState
from ticdc_spark.sinks.states import open_state

log = logging.getLogger(__name__)
_TRIES = 20
"""Tries of a commit while others add requests."""


class Fence(Protocol):
    """Keeps an owner from writing once its job was taken over."""

    def check(self) -> None:
        """Make sure that the job is still ours. Called before each commit.

        Raises: LeaseHeld when another process has taken it. SinkFault when the target cannot say.
        """


class ProgressStore(RequestStore, Fence, Protocol):
    """The progress of a job, the plan of the batch under way, and its requests.

    Raises: LeaseHeld when the job is no longer ours. SinkFault when the target does not answer.
    """

    states: StateStore
    """Where all of these are stored."""

    def load(self) -> Progress | None:
        """The progress that the target has now; ``None``: there is none yet."""

    def load_plan(self) -> Plan | None:
        """The plan of a batch that may have been interrupted, as of the last ``load`` or write."""

    def save_plan(self, plan: Plan) -> None:
        """Fix a batch before it starts."""


class JobStore:
    """See ``ProgressStore``. Thread-safe. Use it as a context manager, which gives the job back."""

    def __init__(self, states: StateStore, state: JobState, version: str | None) -> None:
        """``state``: as this process committed it, with itself as owner. ``version``: the version of ``state``."""
        self.states = states
        self._state, self._version = state, version
        RUNNING.add(self.held.owner.token)
        self._begun = self._passed = 0
        """The numbers of the check that began last, and of the one that passed last."""
        self._unsure: JobState | None = None
        """The state after a commit that failed, and that may have happened all the same or may still happen."""
        self._lock = threading.RLock()

    @property
    def held(self) -> Ownership:
        """Which taking of the job this is."""
        assert self._state.held is not None, "its owner has made it"
        return self._state.held

    def check(self) -> None:
        asked = self._begun
        with self._lock:
            # Tables are committed concurrently, and each commit checks: one look answers all that waited for it.
            if self._passed > asked:
                return
            self._begun = mine = self._begun + 1
            if self.states.version() != self._version:
                self._look_again()
            self._passed = mine

    def load(self) -> Progress | None:
        with self._lock:
            # After a fault the last commit may have happened or not: the target decides.
            self._state, self._version = self._found()
            return self._state.progress

    def load_plan(self) -> Plan | None:
        return self._state.plan

    def save(self, progress: Progress, taken: Sequence[Request] = ()) -> None:
        def change(state: JobState) -> JobState:
            plan = state.plan
            is_over = plan is not None and plan.batch <= progress.batch
            left = tuple(request for request in state.requests if request not in taken)
            return msgspec.structs.replace(state, progress=progress, plan=None if is_over else plan, requests=left)

        self._commit(change)

    def save_plan(self, plan: Plan) -> None:
        self._commit(lambda state: msgspec.structs.replace(state, plan=plan))

    def requests(self) -> tuple[Request, ...]:
        self.check()
        return self._state.requests

    def set_jvm(self, pid: int) -> None:
        """Record the driver's JVM as soon as it runs: a later run waits for its end too. Raises: as ``check``"""

        def change(state: JobState) -> JobState:
            owner = msgspec.structs.replace(self.held.owner, jvm=process(pid))
            return msgspec.structs.replace(state, held=msgspec.structs.replace(self.held, owner=owner))

        self._commit(change)

    def release(self) -> None:
        """Give the job back. Does no harm if it was taken over or given back already."""
        try:
            if not self.held.released:
                self._commit(_released)
        except (LeaseHeld, DecisionNeeded, SinkFault) as fault:
            # This must not hide the error that ends the job. The next run will find the process gone.
            log.warning("cannot give the job back: %s", fault)
        finally:
            RUNNING.discard(self.held.owner.token)

    def __enter__(self) -> "JobStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _commit(self, change: Callable[[JobState], JobState]) -> None:
        with self._lock:
            for _ in range(_TRIES):
                after = change(self._state)
                try:
                    version = _committed(self.states, self._state, after, self._version)
                except StateMoved:
                    self._look_again()
                    continue
                except SinkFault:
                    self._unsure = after
                    raise
                self._state, self._version, self._unsure = after, version, None
                return
        raise SinkFault(f"cannot write the state {self.states.where}: other processes keep writing to it")

    def _look_again(self) -> None:
        """Read the state after another process wrote to it. Others may add requests, and nothing else."""
        found, version = self._found()
        ours = [one for one in (self._state, self._unsure) if one is not None and _is_same(one, found)]
        if not ours:
            raise DecisionNeeded(
                f"the state {self.states.where} is not the one that this process wrote: it was set back or restored "
                "while the job was running. Nothing more is written; start the job again"
            )
        self._state, self._version = msgspec.structs.replace(found, progress=ours[0].progress), version

    def _found(self) -> tuple[JobState, str | None]:
        """Raises: LeaseHeld when another process owns the job"""
        stored = self.states.load()
        found = job_state(stored, self.states.where)
        if not is_ours(found.held, self.held):
            taken = "away: its state is gone or was set back"
            if found.held is not None and found.held.epoch > self.held.epoch:
                taken = f"by {describe(found.held, beat_of(self.states, found.held))}"
            raise LeaseHeld(f"{self.states.where} was taken {taken}; this process stops and writes nothing more")
        return found, stored.version


def _is_same(one: JobState, found: JobState) -> bool:
    return (one.progress, one.plan) == (found.progress, found.plan)


def _released(state: JobState) -> JobState:
    assert state.held is not None, "its owner has made it"
    return msgspec.structs.replace(state, held=msgspec.structs.replace(state.held, released=True))


def _committed(states: StateStore, before: JobState, after: JobState, expected: str | None) -> str:
    """Commit the parts that have changed. Raises: StateMoved, SinkFault"""
    parts: dict[str, Sequence[StateRow]] = {JOB: job_rows(after)}
    if after.progress is not None and after.progress is not before.progress:
        parts[PROGRESS] = progress_rows(after.progress)
    return states.commit(parts, expected, after.progress.applied if after.progress is not None else 0)


def take_over(states: StateStore, stored: StoredState, job: str, owner: Owner) -> JobStore:
    """Make a process the owner of a job, whoever owned it before. ``stored``: the job's state, unchanged since it was
    read.

    Raises: StateMoved, SinkFault, DecisionNeeded
    """
    before = job_state(stored, states.where)
    epoch = 1 if before.held is None else before.held.epoch + 1
    after = msgspec.structs.replace(before, held=Ownership(job=job, owner=owner, epoch=epoch))
    return JobStore(states, after, _committed(states, before, after, stored.version))


def acquire(
    states: StateStore,
    job: str,
    owner: Owner,
    wait: TakeoverWait | None = None,
    stop: threading.Event | None = None,
) -> JobStore:
    """Take a job, after the end of a crashed owner if there is one. ``stop``: set it to end the waiting early.

    Raises: LeaseHeld when its owner still runs; it names the owner and what to do. SinkFault when the target does not
    answer. DecisionNeeded when another version of this program wrote the state.
    """
    wait, stop = wait or TakeoverWait(), stop or threading.Event()
    while True:
        stored = states.load()
        held = job_state(stored, states.where).held
        if held is not None and not held.released:
            await_end(states, held, wait, stop)
        try:
            return take_over(states, stored, job, owner)
        except StateMoved:
            continue  # The owner gave the job back, or another process was faster: look again.


def ask(states: StateStore, request: Request) -> None:
    """Add a request to the state, whether the job runs or not. Raises: SinkFault, DecisionNeeded"""
    for _ in range(_TRIES):
        stored = states.load()
        before = job_state(stored, states.where)
        after = msgspec.structs.replace(before, requests=added(before.requests, request))
        try:
            _committed(states, before, after, stored.version)
            return
        except StateMoved:
            continue
    raise SinkFault(f"cannot write the state {states.where}: other processes keep writing to it. Run the command again")


def read_state(states: StateStore) -> JobState:
    """The state of a job, for a process that does not own it. Raises: SinkFault, DecisionNeeded"""
    return job_state(states.load(), states.where)


def progress_of(job: Job) -> Progress | None:
    """The progress of a job, for a process that does not own it. Raises: SinkFault, DecisionNeeded, UsageError"""
    with closing(open_state(job.sink, job.name, job.spark)) as states:
        return read_state(states).progress
