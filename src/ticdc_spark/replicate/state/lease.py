"""One process per job and target: a lease that is found from the target itself.

A living owner is never pushed aside. After a crash on this machine the lease is taken once the owner's process and
its JVM are gone, since the JVM can outlive the process and still commit. An owner on another machine cannot be
looked at: the lease is taken when its heartbeat has stood still for its ttl and a commit's time on top, by our clock,
so that clocks need not agree.
"""

import logging
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

import msgspec

from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.replicate.state.lease_store import LeaseRecord, LeaseStore, Owner
from ticdc_spark.replicate.state.processes import machine, process, runs
from ticdc_spark.replicate.state.progress import Plan, Progress
from ticdc_spark.replicate.state.requests import Request
from ticdc_spark.replicate.state.store import ProgressStore

log = logging.getLogger(__name__)

TTL = 30.0
"""Seconds that a heartbeat is good for; three are sent in that time."""
COMMIT_WINDOW = 60.0
"""Seconds that a commit under way on another machine may still take after its owner's last heartbeat."""
JVM_PATIENCE = 60.0
"""Seconds to wait for the JVM of a killed owner."""
RELEASE_PATIENCE = 30.0
"""Seconds to wait, at the end, for a heartbeat that is under way."""
_POLL = 0.2


class Fence(Protocol):
    """What keeps an owner from writing whose lease was taken."""

    def check(self) -> None:
        """Make sure that the lease is still ours; called before each commit.

        Raises: LeaseHeld when another job has taken it. SinkFault when that cannot be known.
        """


class FencedStore:
    """A store of progress that checks the lease before it writes."""

    def __init__(self, store: ProgressStore, fence: Fence) -> None:
        self._store, self._fence = store, fence

    def load(self) -> Progress | None:
        return self._store.load()

    def load_plan(self) -> Plan | None:
        return self._store.load_plan()

    def save(self, progress: Progress) -> None:
        """See ``ProgressStore``. Raises: LeaseHeld"""
        self._fence.check()
        self._store.save(progress)

    def save_plan(self, plan: Plan) -> None:
        """See ``ProgressStore``. Raises: LeaseHeld"""
        self._fence.check()
        self._store.save_plan(plan)

    def requests(self) -> Mapping[str, Request]:
        return self._store.requests()

    def ask(self, request: Request) -> None:
        self._store.ask(request)

    def remove_request(self, name: str) -> None:
        """See ``RequestStore``. Raises: LeaseHeld, since another owner may not have what was saved here"""
        self._fence.check()
        self._store.remove_request(name)


class Lease:
    """A lease that is held, kept alive by a thread. Use as a context manager."""

    def __init__(self, store: LeaseStore, record: LeaseRecord, version: bytes) -> None:
        self._store = store
        self._record = record
        self._version = version
        self._beat_at = time.monotonic()
        self._lost: str | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease-heartbeat", daemon=True)
        self._thread.start()

    @property
    def epoch(self) -> int:
        """How often the lease of this target has been taken, this time included."""
        return self._record.epoch

    @property
    def owner(self) -> Owner:
        """This process, as others see it."""
        return self._record.owner

    def set_jvm(self, pid: int) -> None:
        """Record the driver's JVM, as soon as it runs: a later run waits for its end too. Raises: LeaseHeld"""
        with self._lock:
            owner = msgspec.structs.replace(self._record.owner, jvm=process(pid))
            self._renew(msgspec.structs.replace(self._record, owner=owner))
        self.check()

    def check(self) -> None:
        """Make sure that the lease is still ours; call it before each commit.

        Raises: LeaseHeld when another job has taken it. SinkFault when that cannot be known.
        """
        with self._lock:
            if self._lost is None:
                # A process that was suspended cannot trust its own clock: the record itself counts.
                found, version = self._store.read()
                if version != self._version and self._is_ours(found):
                    self._version = version  # the answer to a renewal of ours was lost
                if version != self._version:
                    self._lost = self._taken(found)
                elif time.monotonic() - self._beat_at > self._record.ttl:
                    self._renew(self._record)
            if self._lost is not None:
                raise LeaseHeld(self._lost)

    def release(self) -> None:
        """Give the lease back. Harmless when it is lost or released already."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(RELEASE_PATIENCE)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            log.warning("the lease %s is not given back: it does not answer", self._store.where)
            self._store.let_go()
            return
        with self._lock:
            if self._lost is None and not self._record.released:
                try:
                    self._renew(msgspec.structs.replace(self._record, released=True))
                except SinkFault as fault:
                    # What ends the job must not be hidden by this; the next run finds the process gone.
                    log.warning("the lease is not given back: %s", fault)
        self._store.let_go()

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _beat(self) -> None:
        while not self._stop.wait(self._record.ttl / 3):
            with self._lock:
                try:
                    self._renew(self._record)
                except SinkFault as fault:
                    log.warning("no heartbeat: %s", fault)
                if self._lost is not None:
                    log.error("%s", self._lost)
                    return

    def _renew(self, record: LeaseRecord) -> None:
        """Raises: SinkFault"""
        record = msgspec.structs.replace(record, heartbeat_at=time.time())
        version = self._store.swap(self._version, record)
        if version is None:
            found, there = self._store.read()
            if not self._is_ours(found):
                self._lost = self._taken(found)
                return
            version = self._store.swap(there, record)
        if version is None:
            raise SinkFault(f"the lease {self._store.where} cannot be renewed: it is refused, though it is still ours")
        self._record, self._version, self._beat_at = record, version, time.monotonic()

    def _is_ours(self, found: LeaseRecord | None) -> bool:
        """Whether a record is of this taking of the lease, whatever became of the answer to the write."""
        if found is None or found.released or found.epoch != self._record.epoch:
            return False
        mine, owner = (msgspec.structs.replace(one.owner, jvm=None) for one in (self._record, found))
        return mine == owner

    def _taken(self, found: LeaseRecord | None) -> str:
        taken = f"by {describe(found)}" if found else "away: its record is gone"
        return f"the lease {self._store.where} was taken {taken}; this job stops and writes nothing more"


def acquire(
    store: LeaseStore,
    owner: Owner,
    ttl: float = TTL,
    *,
    commit_window: float = COMMIT_WINDOW,
    jvm_patience: float = JVM_PATIENCE,
    stop: threading.Event | None = None,
) -> Lease:
    """Take the lease, waiting for a crashed owner's end where that must be.

    ``stop``: set to end the waiting early.

    Raises: LeaseHeld when its owner lives; it names the owner, the host, the age of the heartbeat and what to do.
    SinkFault when the store cannot be read or written.
    """
    stop = stop or threading.Event()
    if store.earlier is not None:
        _await_earlier(store.earlier, owner, commit_window, jvm_patience, stop)
    while True:
        record, version = store.read()
        if record is not None and not record.released:
            if record.owner.machine == owner.machine:
                _await_processes(store, record, jvm_patience, stop)
            else:
                _await_silence(store, record, version, record.ttl + commit_window, stop)
        if not store.hold():
            raise _held(store, record, "a process holds its lock; stop that process")
        new = LeaseRecord(owner=owner, epoch=record.epoch + 1 if record else 1, heartbeat_at=time.time(), ttl=ttl)
        taken = store.swap(version, new)
        if taken is not None:
            return Lease(store, new, taken)
        store.let_go()  # Another job was faster: look at it again.
        stop.wait(_POLL)


def describe(record: LeaseRecord) -> str:
    """Describe an owner for messages."""
    owner = record.owner
    label = f" ({owner.label})" if owner.label else ""
    jvm = f", JVM pid {owner.jvm.pid}" if owner.jvm else ""
    age = max(0.0, time.time() - record.heartbeat_at)
    return (
        f"job {owner.job!r}{label}, pid {owner.process.pid}{jvm} on host {owner.host}, "
        f"epoch {record.epoch}, last heartbeat {age:.0f} s ago"
    )


def living(store: LeaseStore) -> str:
    """The owner that holds a lease and may still write, as ``describe`` has it; ``""``: there is none.

    Raises: SinkFault
    """
    record, _ = store.read()
    if record is None or record.released:
        return ""
    if record.owner.machine == machine():
        lives = any(runs(one) for one in (record.owner.process, record.owner.jvm) if one is not None)
    else:
        lives = time.time() - record.heartbeat_at < record.ttl + COMMIT_WINDOW
    return describe(record) if lives else ""


def _await_earlier(
    store: LeaseStore, owner: Owner, commit_window: float, jvm_patience: float, stop: threading.Event
) -> None:
    """Honour the lease that a run of this job by an earlier version holds; those of other jobs are no concern."""
    record, version = store.read()
    if record is None or record.released or record.owner.job != owner.job:
        return
    if record.owner.machine == owner.machine:
        _await_processes(store, record, jvm_patience, stop)
    else:
        _await_silence(store, record, version, record.ttl + commit_window, stop)
    if not store.hold():
        raise _held(store, record, "a process holds its lock; stop that process")
    try:
        # Not waited for again at the next start.
        store.swap(store.read()[1], msgspec.structs.replace(record, released=True))
    finally:
        store.let_go()


def _await_processes(store: LeaseStore, record: LeaseRecord, patience: float, stop: threading.Event) -> None:
    if runs(record.owner.process):
        raise _held(store, record, f"it is running; stop it first: kill {record.owner.process.pid}")
    jvm = record.owner.jvm
    if jvm is None or not runs(jvm):
        return
    log.warning("waiting for the JVM of a job that is gone, pid %d, at most %.0f s", jvm.pid, patience)
    end = time.monotonic() + patience
    while runs(jvm):
        if time.monotonic() > end or stop.wait(_POLL):
            todo = f"its process is gone but its JVM still runs and may commit; end it: kill -9 {jvm.pid}"
            raise _held(store, record, todo)


def _await_silence(
    store: LeaseStore, record: LeaseRecord, version: bytes, patience: float, stop: threading.Event
) -> None:
    log.warning("watching for %.0f s whether %s still lives", patience, describe(record))
    end = time.monotonic() + patience
    while time.monotonic() < end:
        stopped = stop.wait(min(_POLL, patience))
        found, now = store.read()
        if stopped or (now != version and not (found and found.released)):
            todo = f"stop it there first; if it is surely gone, delete {store.where}"
            raise _held(store, found or record, todo)
        if now != version:
            return


def _held(store: LeaseStore, record: LeaseRecord | None, todo: str) -> LeaseHeld:
    who = describe(record) if record else "another process"
    return LeaseHeld(f"the target of the lease {store.where} is held by {who}; {todo}")
