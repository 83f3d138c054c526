"""The state of a job in its lake, for tests that write it in the place of a job, or look at it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from ticdc_spark.config.load import load_identity
from ticdc_spark.replicate.state.owner import Owner, load_status, this_process
from ticdc_spark.replicate.state.progress import Progress, Status
from ticdc_spark.replicate.state.rows import JobState
from ticdc_spark.replicate.state.store import JobStore, acquire, read_state, take_over
from ticdc_spark.sinks.iceberg.state import IcebergState
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.states import open_state


@contextmanager
def state_of(job_file: Path) -> Iterator[StateStore]:
    """The state of the job of a job file."""
    identity = load_identity(job_file)
    with closing(open_state(identity.sink, identity.name, identity.spark)) as states:
        yield states


@contextmanager
def owned(job_file: Path, owner: Owner | None = None) -> Iterator[JobStore]:
    """The state as a process has it that runs the job."""
    with (
        state_of(job_file) as states,
        acquire(states, load_identity(job_file).name, owner or this_process()) as store,
    ):
        yield store


def put(job_file: Path, progress: Progress, status: Status | None = None) -> None:
    """What a job leaves that has ended: its progress, and its last heartbeat."""
    with state_of(job_file) as states:
        store = take_over(states, states.load(), load_identity(job_file).name, this_process())
        store.save(progress)
        if status is not None:
            states.beat(msgspec.json.encode(status))
        store.release()


def held_by(job_file: Path, owner: Owner, status: Status) -> None:
    """What a job has that another process runs."""
    with state_of(job_file) as states:
        store = take_over(states, states.load(), load_identity(job_file).name, owner)
        states.beat(msgspec.json.encode(msgspec.structs.replace(status, token=store.held.owner.token)))


def read(job_file: Path) -> JobState:
    """Everything that the state holds."""
    with state_of(job_file) as states:
        return read_state(states)


def heartbeat(job_file: Path) -> Status | None:
    """The last heartbeat."""
    with state_of(job_file) as states:
        return load_status(states)


def lose(job_file: Path) -> None:
    """Drop the state, as a person may who restores parts of a lake."""
    with state_of(job_file) as states:
        assert isinstance(states, IcebergState)
        if states.version() is not None:
            assert states._catalog is not None
            states._catalog.drop_table(states.name)
