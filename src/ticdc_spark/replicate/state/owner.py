"""One process per job: only the owner of a job's state may write to its tables. Taking a job over raises its epoch.

A running owner never loses its job. After a crash on this machine, the job can be taken once the owner's process and
its JVM are gone. The JVM can outlive the process and still commit. A process on another machine cannot be seen. Its job
can be taken once its heartbeat has not changed for its ttl plus a commit's time. This uses our clock alone, so clocks
need not agree.
"""

import logging
import os
import socket
import threading
import time
from uuid import uuid4

import msgspec

from ticdc_spark.errors import LeaseHeld
from ticdc_spark.replicate.state.processes import Process, machine, process, runs
from ticdc_spark.replicate.state.progress import Status
from ticdc_spark.sinks.state import StateStore

log = logging.getLogger(__name__)
TTL = 30.0
"""Seconds that a heartbeat is valid for; three are sent in that time."""
COMMIT_WINDOW = 60.0
"""Seconds that a commit on another machine may still take after its owner's last heartbeat."""
JVM_PATIENCE = 60.0
"""Seconds to wait for the JVM of a killed owner."""
POLL = 0.2


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that owns a job."""

    host: str
    machine: str
    """Identifies this boot of this machine or container, among others of the same host name."""
    process: Process
    jvm: Process | None = None
    """The JVM of its Spark driver, which can still commit when the process itself is gone."""
    label: str | None = None
    token: str
    """Identifies one taking of the job."""


class Ownership(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a job, in its state."""

    job: str
    owner: Owner
    epoch: int
    """Rises by one each time the job is taken."""
    released: bool = False


class TakeoverWait(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a start waits for an earlier owner to end."""

    ttl: float = TTL
    commit_window: float = COMMIT_WINDOW
    jvm: float = JVM_PATIENCE


RUNNING: set[str] = set()
"""Tokens of owners in this process whose runs have not ended. A run that ended may still own its job, if its target was
unreachable."""


def this_process(label: str | None = None) -> Owner:
    """This process as an owner; each call makes a new one."""
    me = process(os.getpid())
    assert me is not None, "this process runs"
    return Owner(host=socket.gethostname(), machine=machine(), process=me, label=label, token=uuid4().hex)


def is_ours(found: Ownership | None, mine: Ownership) -> bool:
    """Whether a job still belongs to an owner."""
    if found is None:
        return False
    return (found.epoch, found.owner.token, found.released) == (mine.epoch, mine.owner.token, False)


def load_status(states: StateStore) -> Status | None:
    """The last heartbeat; ``None``: there is none, or it cannot be read. Nothing depends on it."""
    data = states.heartbeat()
    try:
        return None if data is None else msgspec.json.decode(data, type=Status)
    except msgspec.DecodeError:
        return None


def beat_of(states: StateStore, held: Ownership) -> Status | None:
    """The last heartbeat of an owner; ``None``: it has sent none."""
    beat = load_status(states)
    return beat if beat is not None and beat.token == held.owner.token else None


def describe(held: Ownership, beat: Status | None) -> str:
    """An owner as text, for messages."""
    owner = held.owner
    label = f" ({owner.label})" if owner.label else ""
    jvm = f", JVM pid {owner.jvm.pid}" if owner.jvm else ""
    seen = f", last heartbeat {max(0.0, time.time() - beat.at):.0f} s ago" if beat is not None else ""
    return f"job {held.job!r}{label}, pid {owner.process.pid}{jvm} on host {owner.host}, epoch {held.epoch}{seen}"


def _has_ended(owner: Owner) -> bool:
    """Whether an owner was a run of this process that is over."""
    here = owner.machine == machine() and owner.process == process(os.getpid())
    return here and owner.token not in RUNNING


def lives(held: Ownership | None, beat: Status | None) -> bool:
    """Whether an owner may still write. ``beat``: its last heartbeat."""
    if held is None or held.released or _has_ended(held.owner):
        return False
    if held.owner.machine == machine():
        return any(runs(one) for one in (held.owner.process, held.owner.jvm) if one is not None)
    return beat is not None and time.time() - beat.at < TTL + COMMIT_WINDOW


def await_end(states: StateStore, held: Ownership, wait: TakeoverWait, stop: threading.Event) -> None:
    """Wait until an owner has certainly ended.

    Raises: LeaseHeld when it still runs; it names the owner, the host, the heartbeat's age and what to do. SinkFault
    """
    if held.owner.machine == machine():
        _await_processes(states, held, wait.jvm, stop)
    else:
        _await_silence(states, held, wait.ttl + wait.commit_window, stop)


def _await_processes(states: StateStore, held: Ownership, seconds: float, stop: threading.Event) -> None:
    if _has_ended(held.owner):
        return
    if runs(held.owner.process):
        raise refused(states, held, f"it is running; stop it first: kill {held.owner.process.pid}")
    jvm = held.owner.jvm
    if jvm is None or not runs(jvm):
        return
    log.warning("waiting for the JVM of the job's last run, pid %d, for at most %.0f s", jvm.pid, seconds)
    end = time.monotonic() + seconds
    while runs(jvm):
        if time.monotonic() > end or stop.wait(POLL):
            todo = f"its process is gone but its JVM still runs and may commit; end it: kill -9 {jvm.pid}"
            raise refused(states, held, todo)


def _await_silence(states: StateStore, held: Ownership, seconds: float, stop: threading.Event) -> None:
    log.warning("watching for %.0f s whether %s still runs", seconds, describe(held, beat_of(states, held)))
    version, beat = states.version(), states.heartbeat()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stopped = stop.wait(min(max(POLL, states.pause / 5), seconds))
        if states.version() != version:
            return  # It may have given the job back: the caller looks again.
        if stopped or states.heartbeat() != beat:
            raise refused(states, held, "stop it there first")


def refused(states: StateStore, held: Ownership, todo: str) -> LeaseHeld:
    """The error of a start while another owner runs."""
    return LeaseHeld(f"{states.where} is held by {describe(held, beat_of(states, held))}; {todo}")
