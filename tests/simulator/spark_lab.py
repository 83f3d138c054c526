"""A laboratory whose Kafka, Spark, target and state are real: stories take seconds there.

    python -m tests.simulator --lab tests.simulator.spark_lab:make_lab --steps 25 --seeds 0-9

The target is Iceberg there. ``tests.simulator.target_labs`` has a laboratory for each of the others: ``:rest`` (Iceberg
in a REST catalog, one commit for all tables), ``:delta``, ``:mysql`` and ``:postgres``. Their topics are in memory, and
the databases need no Spark, so a story of theirs takes a second or less. A story is told without the moves that its
target lacks (``Target.lacks``).

Only time and the lease are the simulator's. A fault before a commit happens where the sink asks for the lease; one
behind it, once the sink's call is over or asks for its next commit. A process also dies at the failpoints inside a
sink's commits and between the steps of a DDL.
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, ParamSpec, TypeVar, cast
from unittest.mock import patch

import msgspec
from pyspark.sql import SparkSession

from tests.simulator.broker import Broker
from tests.simulator.database import Database
from tests.simulator.faults import ActionKind, Died, Fault, Injector
from tests.simulator.iceberg_target import IcebergTarget
from tests.simulator.job_lab import Fence, JobProcess, LeaseRecord, State, WithFaults, job_view
from tests.simulator.seams import Clock, Copy, JobView, Lab, LabMaker, Lake, TableName
from tests.simulator.setup import JobSetup, job_of
from tests.simulator.snapshots import DatabaseView
from tests.simulator.target import Target
from tests.simulator.topics_of_lab import Topics, TopicsInKafka, TopicsInMemory
from tests.simulator.wire import WIRES
from tests.support.kafka_broker import Broker as RealBroker
from tests.support.spark_session import shared_session
from ticdc_spark import failpoints
from ticdc_spark.config.job import Job
from ticdc_spark.operate.requests import quarantined, rebuild_of
from ticdc_spark.replicate.pipeline import OpenJob
from ticdc_spark.replicate.resources import Resources
from ticdc_spark.replicate.scanning import opening_of
from ticdc_spark.replicate.state.requests import Repair, Resume
from ticdc_spark.replicate.step import Steps
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.dead_letters import DeadLetters
from ticdc_spark.sinks.registry import sink_kind
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.states import open_state
from ticdc_spark.spark.sources.base import Source

P = ParamSpec("P")
R = TypeVar("R")
Writer = Literal["python", "spark"]
_NUMBERS = count(1)
_OF_STEPS = {"scan", "advance", "apply", "progress"}
"""Points between two durable actions, where faults before and behind these happen anyway."""
_COMMITTING = frozenset(
    (
        *("create", "drop", "rename", "truncate", "end", "stamp", "create_database", "drop_database", "change_columns"),
        *("fill_column", "convert_column", "upsert", "change_counts", "take_rows", "delete_where", "append"),
        *("begin_load", "load", "load_changes", "load_rows", "finish_load", "keep"),
    )
)
"""What commits, of a sink or of dead letters."""


@dataclass(frozen=True)
class Place:
    """What a story has besides topics and target."""

    folder: Path
    session: SparkSession | None
    """Of the job; ``None``: its sink needs no Spark."""
    writer: Writer = "python"


class SparkLab:
    where = ""

    def __init__(self, clock: Clock, injector: Injector, *, topics: Topics, target: Target, place: Place) -> None:
        self.clock, self.injector, self.topics, self.target = clock, injector, topics, target
        self.folder, self.session, self.writer = place.folder, place.session, place.writer
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lacks = target.lacks
        self.state = State(injector, lambda: open_state(target.config, "sim", {}))
        self.lake = cast(Lake, LakeWithoutState(target.lake, self.state))
        self.lease = LeaseRecord()
        self.database: Database | None = None

    def start(self, setup: JobSetup, owner: int) -> SparkProcess:
        self.topics.sync()
        fence = self.lease.take(self.state, self.clock, owner)
        source = self.topics.source(setup)
        try:
            commits = Commits(self.injector, fence)
            job, protocol = self._job(setup), WIRES[setup.protocol].name
            sink, letters = self._sink(job, commits)
            steps = Steps(
                OpenJob(
                    job=job,
                    resources=Resources(
                        source=source,
                        sink=cast(Sink, sink),
                        rows=self.topics.rows(source, opening_of(job, protocol, None, None)),
                        letters=cast(DeadLetters, letters),
                        store=fence.store,
                        reader=self._reader(setup),
                    ),
                    protocol=protocol,
                    clock=lambda: self.clock.now,
                )
            )
        except BaseException:
            source.close()
            fence.release()
            raise
        return SparkProcess(steps, fence, self, lambda: self._close(source, sink, fence))

    def _close(self, source: Source, sink: SinkWithFaults, fence: Fence) -> None:
        source.close()  # else it lives on in the JVM, which has not died
        self.target.close(sink.inner)
        fence.store.states.close()

    def _job(self, setup: JobSetup) -> Job:
        job = job_of(setup, self.folder)
        return msgspec.structs.replace(job, sink=self.target.config, writer=self.writer)

    def _sink(self, job: Job, commits: Commits) -> tuple[SinkWithFaults, WithCommits]:
        kind, session = sink_kind(job), cast(SparkSession, self.session)
        with commits.within():
            sink = kind.open(session, job, lambda: commits.begin("sink", "a commit"))
        letters = kind.dead_letters(
            session, job.sink, job.name, lambda: commits.begin("log", "a commit of dead letters")
        )
        return SinkWithFaults(sink, commits), WithCommits(letters, commits)

    def view(self) -> JobView:
        return job_view(self.state.load(), self.folder, self.clock.now)

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
        found = quarantined(self._job(setup), self.state.load(), names, every=tables is None)
        self.state.ask(Resume(tables=tuple((table.schema, table.name) for table in found)))


class LakeWithoutState:
    """A lake in whose place a copy is put without the state of the job: as in memory, this is restored by a move of its
    own."""

    def __init__(self, lake: Lake, state: State) -> None:
        self._lake, self._state = lake, state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def restore(self, held: Copy) -> None:
        now = self._state.save()
        self._lake.restore(held)
        self._state.reopen()
        self._state.put(now)


class SparkProcess(JobProcess):
    def __init__(self, steps: Steps, fence: Fence, lab: SparkLab, close: Callable[[], None]) -> None:
        """``close``: ends its connections."""
        super().__init__(steps, fence)
        self.topics, self.injector, self.close = lab.topics, lab.injector, close

    def batch(self, most: int) -> bool:
        self.topics.sync()
        try:
            with patch.object(failpoints, "point", self._point):
                return super().batch(most)
        except Died:
            self.close()
            raise

    def _point(self, name: str) -> None:
        if name not in _OF_STEPS:
            self.injector.pass_point(name)

    def stop(self) -> None:
        super().stop()
        self.close()

    def kill(self) -> None:
        super().kill()
        self.close()


class Commits:
    """Faults at the commits of one process to its lake."""

    def __init__(self, injector: Injector, fence: Fence) -> None:
        self.injector, self.fence = injector, fence
        self._done: tuple[Fault, str] | None = None
        """The fault that is to happen once the commit is done that was begun last."""

    def begin(self, kind: ActionKind, what: str) -> None:
        """Before a commit: where the lease is asked for."""
        self.end()
        fault = self.injector.begin_action(kind, what)
        self.fence.check()
        self._done = None if fault is None else (fault, what)

    def end(self) -> None:
        """The last commit is done."""
        done, self._done = self._done, None
        if done is not None:
            self.injector.end_action(*done)

    @contextmanager
    def within(self) -> Iterator[None]:
        """A call of a sink or a log, at whose end its last commit is done."""
        try:
            yield
        except BaseException:
            self._done = None
            raise
        self.end()


class WithCommits:
    """A sink or dead letters, at the end of whose calls the last commit is done."""

    def __init__(self, inner: Any, commits: Commits) -> None:
        self.inner, self.commits = inner, commits

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return self._ended(found) if name in _COMMITTING else found

    def _ended(self, method: Callable[P, R]) -> Callable[P, R]:
        def call(*args: P.args, **named: P.kwargs) -> R:
            with self.commits.within():
                return method(*args, **named)

        return call


class SinkWithFaults(WithCommits):
    """A sink whose commits are durable actions."""

    def commit_with(self, states: StateStore) -> None:
        with self.commits.within():
            self.inner.commit_with(cast(WithFaults, states).inner)


def spark_lab(spark: SparkSession, kafka: RealBroker, folder: Path, writer: Writer) -> LabMaker:
    """Makes laboratories over Iceberg in ``folder``, each of one story.

    ``writer``: as the job file's: who writes the lake's files.
    """

    def make(broker: Broker, clock: Clock, injector: Injector) -> Lab:
        place = Place(folder / f"story{next(_NUMBERS)}", spark.newSession(), writer)
        topics = TopicsInKafka(broker, kafka, f"{place.folder.name}.", spark.newSession())
        target = IcebergTarget(spark, place.folder)
        return SparkLab(clock, injector, topics=topics, target=target, place=place)

    return make


def lab_over(spark: SparkSession | None, folder: Path, made: Callable[[Path], Target]) -> LabMaker:
    """Makes laboratories with topics in memory in ``folder``, each of one story.

    ``spark``: for a sink that needs it. ``made``: makes a target, in a folder of its own.
    """

    def make(broker: Broker, clock: Clock, injector: Injector) -> Lab:
        session = None if spark is None else spark.newSession()
        place = Place(folder / f"story{next(_NUMBERS)}", session)
        topics = TopicsInMemory(broker, session)
        return SparkLab(clock, injector, topics=topics, target=made(place.folder), place=place)

    return make


class Servers:
    """What stories of this process share, until it ends. Each server is started when it is first asked for."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        atexit.register(self.stack.close)
        self.folder = Path(mkdtemp(prefix="ticdc-spark-stories-"))
        self.stack.callback(shutil.rmtree, self.folder, ignore_errors=True)

    @cached_property
    def kafka(self) -> RealBroker:
        made = RealBroker(self.folder / "kafka")
        made.start()
        self.stack.callback(made.kill)
        return made

    @cached_property
    def spark(self) -> SparkSession:
        return self.stack.enter_context(shared_session())


@cache
def servers() -> Servers:
    return Servers()


def make_lab(broker: Broker, clock: Clock, injector: Injector) -> Lab:
    """For the command line."""
    found = servers()
    return spark_lab(found.spark, found.kafka, found.folder, "python")(broker, clock, injector)
