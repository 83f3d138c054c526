"""The laboratory of the real job: its loop over a source, a change log, a sink, a store and a lease in memory."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from tests.memory_sink.lake import Lake as Tables
from tests.memory_sink.letters import open_letters
from tests.memory_sink.rows import MemoryRows
from tests.memory_sink.sink import MemorySink
from tests.simulator.broker import Broker
from tests.simulator.database import Database
from tests.simulator.faults import Injector
from tests.simulator.files import Files
from tests.simulator.files_sink import FilesSink
from tests.simulator.lake_of_lab import LakeOfLab
from tests.simulator.seams import Clock, Copy, JobView, TableName, TableView
from tests.simulator.setup import JobSetup, job_of, scratch_folder
from tests.simulator.snapshots import DatabaseView
from tests.simulator.wire import WIRES
from ticdc_spark.config.job import Identity
from ticdc_spark.errors import LeaseHeld
from ticdc_spark.model import Message, Offsets
from ticdc_spark.operate.requests import quarantined, rebuild_of
from ticdc_spark.operate.status import describe
from ticdc_spark.replicate.scanning import opening_of
from ticdc_spark.replicate.state.progress import Plan, Progress
from ticdc_spark.replicate.state.requests import Request, Resume
from ticdc_spark.replicate.step import Steps
from ticdc_spark.spark.sources.base import KeyValue, OffsetRange, check_start, fair_cut

TTL = 90.0
"""Seconds after the last heartbeat until another owner may take the lease."""
_FOLDER = scratch_folder("sim")
_LOG_ACTIONS = ("dead letters",)
_NO_PROGRESS = Progress(job="sim")


class JobLab:
    def __init__(self, broker: Broker, clock: Clock, injector: Injector) -> None:
        self.broker, self.clock, self.injector = broker, clock, injector
        self.tables = Tables(self._act)
        self.files = Files()
        self.lake = LakeOfLab(self.tables, self.files)
        self.state = State(injector)
        self.lease = LeaseRecord()
        self._viewed: tuple[Progress, JobView] | None = None
        self.database: Database | None = None

    def _act(self, what: str, do: Any) -> None:
        self.injector.act("log" if what in _LOG_ACTIONS else "sink", what, do)

    def start(self, setup: JobSetup, owner: int) -> JobProcess:
        fence = self.lease.take(self.injector, self.clock, owner)
        try:
            source = BrokerSource(self.broker, setup)
            job, protocol = job_of(setup, _FOLDER), WIRES[setup.protocol].name
            rows = MemoryRows(source, opening_of(job, protocol, None, None))
            steps = Steps(
                job,
                source,
                self._sink(setup, fence),
                rows,
                open_letters(self.tables, job.name, fence.check),
                fence,
                StateOfProcess(self.state, fence),
                protocol=protocol,
                registry=None,
                bounded=False,
                until_ts=None,
                clock=lambda: self.clock.now,
                reader=self._reader(setup),
            )
        except BaseException:
            fence.release()
            raise
        return JobProcess(steps, fence)

    def _sink(self, setup: JobSetup, fence: Fence) -> MemorySink:
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
        self.state.ask(rebuild_of(job_of(setup, _FOLDER), self.state.load(), [".".join(table)], reader))

    def resume(self, setup: JobSetup, tables: Collection[TableName] | None) -> None:
        names = [] if tables is None else [".".join(name) for name in tables]
        found = quarantined(job_of(setup, _FOLDER), self.state.load(), names, every=tables is None)
        self.state.ask(Resume(tables=tuple((table.schema, table.name) for table in found)))


def job_view(progress: Progress | None, folder: Path, now: float) -> JobView:
    """What status shows of a job's progress."""
    identity = Identity(file=folder / "job.toml", name="sim", state=folder)
    status = describe(identity, progress or _NO_PROGRESS, None, None, now)
    tables = {
        (one.schema, one.table): TableView(applied=one.applied_ts, condition=one.condition, detail=one.detail)
        for one in status.tables
    }
    read = frozenset(one.topic for one in status.partitions if one.offset > 0)
    offsets = {(one.topic, one.partition): one.offset for one in status.partitions}
    hold = status.held_back_by.what
    return JobView(applied=status.resolved_ts, batch=status.batch, tables=tables, read=read, offsets=offsets, hold=hold)


class LeaseRecord:
    """Who holds the lease."""

    def __init__(self) -> None:
        self.epoch, self.held, self.beat = 0, False, 0.0

    def take(self, injector: Injector, clock: Clock, owner: int) -> Fence:
        """Take it. Raises: LeaseHeld while its owner is heard of"""
        if self.held and clock.now - self.beat < TTL:
            raise LeaseHeld("the target of the lease is held by another process; stop that process")
        try:
            injector.act("lease", f"owner {owner} takes the lease", lambda: self._set(clock))
        except BaseException:
            self.held = False  # The process is gone, or has seen an error and gives up.
            raise
        return Fence(self, self.epoch, clock)

    def _set(self, clock: Clock) -> None:
        self.epoch, self.held, self.beat = self.epoch + 1, True, clock.now


class Fence:
    """One owner's hold on the lease."""

    def __init__(self, record: LeaseRecord, epoch: int, clock: Clock) -> None:
        self.record, self.epoch, self.clock = record, epoch, clock

    def check(self) -> None:
        if self.record.epoch != self.epoch:
            raise LeaseHeld("the lease was taken by another process; this job stops and writes nothing more")
        self.record.beat = self.clock.now

    def release(self) -> None:
        """Give it back, or leave it as one who is gone."""
        if self.record.epoch == self.epoch:
            self.record.held = False


class JobProcess:
    def __init__(self, steps: Steps, fence: Fence) -> None:
        self.steps, self.fence = steps, fence

    def batch(self, most: int) -> bool:
        self.steps.job = msgspec.structs.replace(self.steps.job, batch_rows=max(1, most))
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

    def notes(self, read: Offsets) -> dict[str, str]:
        topics = {topic for topic, _ in read}
        ids = self.broker.ids(self.topics)
        return {f"the id of topic {name}": str(number) for name, number in ids.items() if name in topics}

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        backlog = {
            place: [OffsetRange(start.get(place, 0), last, last - start.get(place, 0), 0)]
            for place, last in end.items()
            if start.get(place, 0) < last
        }
        return fair_cut(backlog, end, max_rows, max_bytes)

    def offsets_since(self, commit_ts: int) -> Offsets:
        return self.beginning_offsets()

    def read_here(self, start: Offsets, end: Offsets) -> None:
        raise AssertionError("rows in memory come from read")

    def read_parts(self, start: Offsets, end: Offsets) -> None:
        raise AssertionError("rows in memory come from read")

    def read(self, start: Offsets, end: Offsets, session: None = None) -> list[Message]:
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        return [message for place, begins in first.items() for message in self.broker.read(place, begins, end[place])]

    def first_messages(self, start: Offsets, end: Offsets, limit: int) -> list[KeyValue]:
        return [(message.key, message.value) for message in self.read(start, end)[:limit]]


class State:
    """The state folder: a progress store whose writes are durable actions, and the folder as an operator has it."""

    def __init__(self, injector: Injector) -> None:
        self.injector = injector
        self.progress: Progress | None = None
        self.plan: Plan | None = None
        self.waiting: dict[str, Request] = {}
        self.asked = 0

    def load(self) -> Progress | None:
        return self.progress

    def save(self, progress: Progress | Copy = None) -> Copy:
        """The store's ``save(progress)``, and the folder's ``save()``."""
        if progress is None:
            return self.progress, self.plan, dict(self.waiting)
        self.injector.act("store", "save the progress", lambda: setattr(self, "progress", progress))
        return None

    def load_plan(self) -> Plan | None:
        return self.plan

    def save_plan(self, plan: Plan) -> None:
        self.injector.act("store", "save the plan", lambda: setattr(self, "plan", plan))

    def requests(self) -> dict[str, Request]:
        return dict(self.waiting)

    def ask(self, request: Request) -> None:
        """By the operator, beside every process."""
        self.asked += 1
        self.waiting[f"{self.asked:08d}"] = request

    def remove_request(self, name: str) -> None:
        self.injector.act("store", "remove a request", lambda: self.waiting.pop(name, None))

    def restore(self, held: Copy) -> None:
        self.progress, self.plan, waiting = held
        self.waiting = dict(waiting)

    def wipe(self) -> None:
        """Lose every file."""
        self.progress = self.plan = None
        self.waiting = {}


class StateOfProcess:
    """The state folder as one process writes it: each write checks the lease when it happens."""

    def __init__(self, state: State, fence: Fence) -> None:
        self.state, self.fence = state, fence

    def load(self) -> Progress | None:
        return self.state.progress

    def load_plan(self) -> Plan | None:
        return self.state.plan

    def save(self, progress: Progress) -> None:
        self.state.injector.act("store", "save the progress", lambda: self._set("progress", progress))

    def save_plan(self, plan: Plan) -> None:
        self.state.injector.act("store", "save the plan", lambda: self._set("plan", plan))

    def requests(self) -> dict[str, Request]:
        return self.state.requests()

    def ask(self, request: Request) -> None:
        self.state.ask(request)

    def remove_request(self, name: str) -> None:
        self.fence.check()
        self.state.remove_request(name)

    def _set(self, name: str, value: object) -> None:
        self.fence.check()
        setattr(self.state, name, value)
