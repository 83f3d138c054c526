"""The laboratory of the real job: its loop over a source, a change log, a sink, a store and a lease in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from tests.memory_sink.lake import Lake as Tables
from tests.memory_sink.letters import open_letters
from tests.memory_sink.rows import MemoryRows
from tests.memory_sink.sink import MemorySink
from tests.memory_sink.state import MemoryState
from tests.simulator.broker import Broker
from tests.simulator.database import Database
from tests.simulator.faults import ActionKind, Injector
from tests.simulator.files import Files
from tests.simulator.files_sink import FilesSink
from tests.simulator.lake_of_lab import LakeOfLab
from tests.simulator.moves import MoveKind
from tests.simulator.seams import Clock, Copy, JobView, TableName, TableView
from tests.simulator.setup import JobSetup, job_of, scratch_folder
from tests.simulator.snapshots import DatabaseView
from tests.simulator.wire import WIRES
from ticdc_spark.config.job import IcebergConfig, Identity, Job
from ticdc_spark.errors import LeaseHeld
from ticdc_spark.model import Message, Offsets
from ticdc_spark.operate.requests import quarantined, rebuild_of
from ticdc_spark.operate.status import describe
from ticdc_spark.replicate.pipeline import OpenJob
from ticdc_spark.replicate.resources import Resources
from ticdc_spark.replicate.scanning import opening_of
from ticdc_spark.replicate.state.owner import Owner
from ticdc_spark.replicate.state.processes import Process
from ticdc_spark.replicate.state.progress import Plan, Progress
from ticdc_spark.replicate.state.requests import Repair, Request, Resume, added
from ticdc_spark.replicate.state.rows import JOB, PROGRESS, JobState, job_rows, job_state, progress_rows
from ticdc_spark.replicate.state.store import JobStore, take_over
from ticdc_spark.replicate.step import Steps
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.state import Parts, StateMoved, StateStore, StoredState
from ticdc_spark.spark.sources.base import KeyValue, OffsetRange, Stretch, check_start, fair_cut
from ticdc_spark.topics.json_lines import to_table

TTL = 90.0
"""Seconds after the last heartbeat until another owner may take the lease."""
_FOLDER = scratch_folder("sim")
_LOG_ACTIONS = ("dead letters",)
_NO_PROGRESS = Progress(job="sim")


class JobLab:
    where = ""
    lacks: frozenset[MoveKind] = frozenset()

    def __init__(self, broker: Broker, clock: Clock, injector: Injector) -> None:
        self.broker, self.clock, self.injector = broker, clock, injector
        self.tables = Tables(self._act)
        self.files = Files()
        self.lake = LakeOfLab(self.tables, self.files)
        states = MemoryState("sim")
        self.state = State(injector, lambda: states)
        self.lease = LeaseRecord()
        self._viewed: tuple[Progress, JobView] | None = None
        self.database: Database | None = None

    def _act(self, what: str, do: Any) -> None:
        self.injector.act("log" if what in _LOG_ACTIONS else "sink", what, do)

    def start(self, setup: JobSetup, owner: int) -> JobProcess:
        fence = self.lease.take(self.state, self.clock, owner)
        try:
            source = BrokerSource(self.broker, setup)
            job, protocol = self._job(setup), WIRES[setup.protocol].name
            rows = MemoryRows(source, opening_of(job, protocol, None, None))
            steps = Steps(
                OpenJob(
                    job=job,
                    resources=Resources(
                        source=source,
                        sink=self._sink(setup, fence),
                        rows=rows,
                        letters=open_letters(self.tables, job.name, fence.check),
                        store=fence.store,
                        reader=self._reader(setup),
                    ),
                    protocol=protocol,
                    clock=lambda: self.clock.now,
                )
            )
        except BaseException:
            fence.release()
            raise
        return JobProcess(steps, fence)

    def _job(self, setup: JobSetup) -> Job:
        return job_of(setup, _FOLDER)

    def _sink(self, setup: JobSetup, fence: Fence) -> Sink:
        if setup.row_deltas:
            return FilesSink(self.tables, self.files, fence.check)
        return MemorySink(self.tables, fence.check)

    def view(self) -> JobView:
        progress = self.state.progress or _NO_PROGRESS
        if self._viewed is None or self._viewed[0] is not progress:
            self._viewed = progress, job_view(progress, _FOLDER, self.clock.now)
        return self._viewed[1]

    def show(self, database: Database) -> None:
        self.database = database
        self.dumped = database.ts

    def _reader(self, setup: JobSetup) -> DatabaseView | None:
        return DatabaseView(self.database, setup.snapshot, self.dumped) if setup.snapshot and self.database else None

    def rebuild(self, setup: JobSetup, table: TableName) -> None:
        reader = self._reader(setup)
        assert reader is not None
        self.state.ask(rebuild_of(self._job(setup), self.state.load(), [".".join(table)], reader))

    def repair(self, request: Repair) -> None:
        self.state.ask(request)

    def resume(self, setup: JobSetup, tables: Collection[TableName] | None) -> None:
        names = [] if tables is None else [".".join(name) for name in tables]
        found = quarantined(job_of(setup, _FOLDER), self.state.load(), names, every=tables is None)
        self.state.ask(Resume(tables=tuple((table.schema, table.name) for table in found)))


def job_view(progress: Progress | None, folder: Path, now: float) -> JobView:
    """What status shows of a job's progress."""
    identity = Identity(file=folder / "job.toml", name="sim", sink=IcebergConfig(warehouse="memory"))
    status = describe(identity, progress or _NO_PROGRESS, None, None, now)
    tables = {
        (one.schema, one.table): TableView(applied=one.applied_ts, condition=one.condition, detail=one.detail)
        for one in status.tables
    }
    read = frozenset(one.topic for one in status.partitions if one.offset > 0)
    offsets = {(one.topic, one.partition): one.offset for one in status.partitions}
    hold = status.held_back_by.what
    return JobView(
        applied=status.resolved_ts,
        batch=status.batch,
        tables=tables,
        read=read,
        offsets=offsets,
        hold=hold,
        mode=status.mode,
    )


class LeaseRecord:
    """Whether the owner of the job is heard of: what its heartbeat, and a look at its process, show for real."""

    def __init__(self) -> None:
        self.held, self.beat, self.takings = False, 0.0, 0

    def take(self, state: State, clock: Clock, owner: int) -> Fence:
        """Take the job. Raises: LeaseHeld while its owner is heard of"""
        if self.held and clock.now - self.beat < TTL:
            raise LeaseHeld("the job is held by another process; stop that process")
        self.takings += 1
        process = Process(owner, "0")
        new = Owner(host="sim", machine="sim", process=process, token=str(self.takings))
        try:
            store = state.taken(f"owner {owner} takes the job", new)
        except StateMoved:  # Another process was faster: look at it again, as ``acquire`` does.
            return self.take(state, clock, owner)
        except BaseException:
            self.held = False  # The process is gone, or has seen an error and gives up.
            raise
        self.held, self.beat = True, clock.now
        return Fence(self, store, clock)


class Fence:
    """One owner's hold on the job."""

    def __init__(self, record: LeaseRecord, store: JobStore, clock: Clock) -> None:
        self.record, self.store, self.clock = record, store, clock

    def check(self) -> None:
        self.store.check()
        self.record.beat = self.clock.now

    def release(self) -> None:
        """Give it back, or leave it as one who is gone."""
        if str(self.record.takings) == self.store.held.owner.token:
            self.record.held = False


class JobProcess:
    def __init__(self, steps: Steps, fence: Fence) -> None:
        self.steps, self.fence = steps, fence

    def batch(self, most: int) -> bool:
        job = msgspec.structs.replace(self.steps.open.job, batch_rows=max(1, most))
        self.steps.open = dataclasses.replace(self.steps.open, job=job)
        before = self.steps.progress.batch
        self.fence.record.beat = self.fence.clock.now
        try:
            self.steps.take_requests()
            loads = self.steps.load(lambda _phase, _batch: None)
            report = self.steps.batch(None, lambda _phase, _batch: None)
        except BaseException:
            self.fence.release()
            raise
        return report.progress.batch > before or loads == "worked"

    def stop(self) -> None:
        self.fence.release()

    def kill(self) -> None:
        self.fence.release()


class BrokerSource:
    """The broker's topics as a source."""

    has_more = False
    is_recorded = False

    def __init__(self, broker: Broker, setup: JobSetup) -> None:
        self.broker = broker
        self.topics = None if setup.topics is None else frozenset(setup.topics)
        self.from_end = setup.starting == "latest"

    def starting(self) -> Offsets:
        return self.end_offsets() if self.from_end else self.beginning_offsets()

    def beginning_offsets(self) -> Offsets:
        return self.broker.beginning_offsets(self.topics)

    def end_offsets(self) -> Offsets:
        return self.broker.end_offsets(self.topics)

    def notes(self, read: Offsets) -> dict[tuple[str, str], str]:
        topics = {topic for topic, _ in read}
        ids = self.broker.ids(self.topics)
        return {(name, f"the id of topic {name}"): str(number) for name, number in ids.items() if name in topics}

    def recall(self, memory: str) -> None:
        return

    def memory(self, offsets: Offsets, needed: Iterable[Stretch]) -> str:
        return ""

    def retention(self) -> dict[str, float]:
        return {}

    @property
    def unread(self) -> str:
        return ""

    def publish(self, offsets: Offsets) -> None:
        return None

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        backlog = {
            place: [OffsetRange(start.get(place, 0), last, last - start.get(place, 0), 0)]
            for place, last in end.items()
            if start.get(place, 0) < last
        }
        return fair_cut(backlog, end, max_rows, max_bytes)

    def offsets_since(self, commit_ts: int) -> Offsets:
        return self.beginning_offsets()

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table:
        return to_table(self.read(start, end))

    def read_parts(self, start: Offsets, end: Offsets) -> None:
        raise AssertionError("rows in memory come from read")

    def read(self, start: Offsets, end: Offsets, session: None = None) -> list[Message]:
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        return [message for place, begins in first.items() for message in self.broker.read(place, begins, end[place])]

    def first_messages(self, start: Offsets, end: Offsets, limit: int) -> list[KeyValue]:
        return [(message.key, message.value) for message in self.read(start, end)[:limit]]

    def close(self) -> None:
        """Nothing is open."""


class State:
    """The state of the job, whose writes are durable actions, and as an operator has it."""

    def __init__(self, injector: Injector, opened: Callable[[], StateStore]) -> None:
        """``opened``: opens it, once for each process and for the operator."""
        self._injector, self._opened = injector, opened
        self.reopen()

    def reopen(self) -> None:
        """Open it anew, after it was changed by other means than commits: a store keeps what it has read."""
        self.states = WithFaults(self._injector, self._opened())
        self._read: tuple[str | None, JobState] = (None, JobState())

    def now(self) -> JobState:
        """Everything that it holds."""
        stored = self.states.load()
        if self._read[0] != stored.version:
            self._read = stored.version, job_state(stored, self.states.where)
        return self._read[1]

    @property
    def progress(self) -> Progress | None:
        return self.now().progress

    @property
    def plan(self) -> Plan | None:
        return self.now().plan

    def load(self) -> Progress | None:
        return self.now().progress

    def requests(self) -> tuple[Request, ...]:
        return self.now().requests

    def ask(self, request: Request) -> None:
        """By the operator, beside every process."""
        self._write(msgspec.structs.replace(self.now(), requests=added(self.now().requests, request)))

    def taken(self, what: str, owner: Owner) -> JobStore:
        """A new owner takes the job, whoever has it."""
        own = WithFaults(self._injector, self._opened())
        own.taking = what
        try:
            return take_over(own, own.load(), "sim", owner)
        finally:
            own.taking = ""

    def save(self) -> Copy:
        return self.now()

    def restore(self, held: Copy) -> None:
        """Put everything back, but for whose the job is."""
        self._write(msgspec.structs.replace(held, held=self.now().held))

    def put(self, state: JobState) -> None:
        """Put everything back, whose the job is, too."""
        self._write(state)

    def wipe(self) -> None:
        self._write(JobState(held=self.now().held))

    def _write(self, state: JobState) -> None:
        rows = [] if state.progress is None else progress_rows(state.progress)
        parts = {JOB: job_rows(state), PROGRESS: rows}
        self.states.inner.commit(parts, self.states.version(), 0)


class WithFaults:
    """A store of a state whose commits are durable actions."""

    def __init__(self, injector: Injector, inner: StateStore) -> None:
        self.injector, self.inner = injector, inner
        self.where, self.pause = inner.where, inner.pause
        self.taking = ""
        """What is done, where the job is being taken."""

    def version(self) -> str | None:
        return self.inner.version()

    def load(self) -> StoredState:
        return self.inner.load()

    def as_of(self, resolved_ts: int) -> StoredState:
        return self.inner.as_of(resolved_ts)

    def commit(self, parts: Parts, expected: str | None, resolved_ts: int) -> str:
        what = self.taking or ("save the progress" if PROGRESS in parts else "save the plan")
        kind: ActionKind = "lease" if self.taking else "store"
        return self.injector.act(kind, what, lambda: self.inner.commit(parts, expected, resolved_ts))

    def beat(self, heartbeat: bytes) -> None:
        self.inner.beat(heartbeat)

    def heartbeat(self) -> bytes | None:
        return self.inner.heartbeat()

    def close(self) -> None:
        self.inner.close()
