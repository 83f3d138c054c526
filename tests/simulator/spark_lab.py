"""A laboratory whose Kafka, Spark, Iceberg and state folder are real: stories take seconds there.

    python -m tests.simulator --lab tests.simulator.spark_lab:make_lab --steps 25 --seeds 0-9

Every move of a story is possible. Only time and the lease are the simulator's. A fault before a commit happens where
the sink asks for the lease; one behind it, once the sink's call is over or asks for its next commit.
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, ParamSpec, TypeVar, cast

from pyspark.sql import SparkSession

from tests.simulator.broker import Broker
from tests.simulator.database import Database
from tests.simulator.faults import ActionKind, Died, Fault, Injector
from tests.simulator.iceberg_lake import IcebergLake
from tests.simulator.job_lab import Fence, JobProcess, LeaseRecord, State, job_view
from tests.simulator.kafka_mirror import Mirror
from tests.simulator.seams import Clock, Copy, JobView, Lab, LabMaker, TableName
from tests.simulator.setup import JobSetup, job_of
from tests.simulator.snapshots import DatabaseView
from tests.simulator.wire import WIRES
from tests.support.kafka_broker import Broker as RealBroker
from tests.support.spark_session import shared_session
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.config.job import IcebergConfig
from ticdc_spark.operate.requests import quarantined, rebuild_of
from ticdc_spark.replicate.pipeline import OpenJob
from ticdc_spark.replicate.resources import Resources
from ticdc_spark.replicate.scanning import opening_of
from ticdc_spark.replicate.state.requests import Resume
from ticdc_spark.replicate.step import Steps
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog, catalog_options
from ticdc_spark.sinks.iceberg.dead_letters import IcebergDeadLetters
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.sinks.states import open_state
from ticdc_spark.spark.sources.kafka import KafkaTopicSource

P = ParamSpec("P")
R = TypeVar("R")
_NUMBERS = count(1)


class SparkLab:
    where = ""

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        injector: Injector,
        *,
        spark: SparkSession,
        kafka: RealBroker,
        folder: Path,
        writer: Literal["python", "spark"],
    ) -> None:
        """``folder``: is made, and holds everything of this story."""
        self.clock, self.injector, self.folder, self.writer = clock, injector, folder, writer
        self.servers = kafka.servers
        self.mirror = Mirror(broker, kafka, f"{folder.name}.")
        self.state = State(injector, open_state(IcebergConfig(warehouse=str(folder / "lake")), "sim", {}))
        self.lake = LakeWithoutState(spark, folder, self.state)
        self.session = spark.newSession()
        self.lease = LeaseRecord()
        self.database: Database | None = None

    def start(self, setup: JobSetup, owner: int) -> SparkProcess:
        self.mirror.sync()
        fence = self.lease.take(self.state, self.clock, owner)
        source = self._source(setup)
        try:
            commits = Commits(self.injector, fence)
            job, protocol = job_of(setup, self.folder), WIRES[setup.protocol].name
            sink = SinkWithFaults(self, commits)
            steps = Steps(
                OpenJob(
                    job=job,
                    resources=Resources(
                        source=source,
                        sink=sink,
                        rows=SparkTopicRows(self.session, source, opening_of(job, protocol, None, None)),
                        letters=LettersWithFaults(sink, job.name, commits),
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
        return SparkProcess(steps, fence, self.mirror, source)

    def _source(self, setup: JobSetup) -> KafkaTopicSource:
        # Topics of the job file may come later in stories; under their names they would have to be there.
        named = (f"\\Q{name}\\E" for name in setup.topics or ())
        rest = ".*" if setup.topics is None else f"({'|'.join(named)})"
        return KafkaTopicSource(
            self.session,
            self.servers,
            topic_pattern=f"\\Q{self.mirror.prefix}\\E{rest}",
            starting=setup.starting,
        )

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
        self.state.ask(rebuild_of(job_of(setup, self.folder), self.state.load(), [".".join(table)], reader))

    def resume(self, setup: JobSetup, tables: Collection[TableName] | None) -> None:
        names = [] if tables is None else [".".join(name) for name in tables]
        found = quarantined(job_of(setup, self.folder), self.state.load(), names, every=tables is None)
        self.state.ask(Resume(tables=tuple((table.schema, table.name) for table in found)))


class LakeWithoutState(IcebergLake):
    """The state of the job stays as it is when the lake is restored, as in memory: it is restored by a move of its
    own."""

    def __init__(self, spark: SparkSession, folder: Path, state: State) -> None:
        super().__init__(spark, folder)
        self.state = state

    def restore(self, held: Copy) -> None:
        now = self.state.save()
        super().restore(held)
        self.state.put(now)


class SparkProcess(JobProcess):
    def __init__(self, steps: Steps, fence: Fence, mirror: Mirror, source: KafkaTopicSource) -> None:
        super().__init__(steps, fence)
        self.mirror, self.source = mirror, source

    def batch(self, most: int) -> bool:
        self.mirror.sync()
        try:
            return super().batch(most)
        except Died:
            self.source.close()  # else it lives on in the JVM, which has not died
            raise

    def stop(self) -> None:
        self.source.close()
        super().stop()

    def kill(self) -> None:
        self.source.close()
        super().kill()


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


def _ended(method: Callable[P, R]) -> Callable[P, R]:
    """A method at whose end its commits are done."""

    def call(*args: P.args, **named: P.kwargs) -> R:
        with cast("SinkWithFaults", args[0]).commits.within():
            return method(*args, **named)

    return call


class SinkWithFaults(IcebergSink):
    """Iceberg whose commits are durable actions."""

    def __init__(self, lab: SparkLab, commits: Commits) -> None:
        warehouse = str(lab.lake.warehouse)
        options = catalog_options("lake", warehouse, {})

        def fence() -> None:
            commits.begin("sink", "a commit")

        super().__init__(IcebergCatalog(lab.session, "lake", warehouse, {}, options, fence), lab.writer)
        self.commits = commits

    create = _ended(IcebergSink.create)
    drop = _ended(IcebergSink.drop)
    rename = _ended(IcebergSink.rename)
    truncate = _ended(IcebergSink.truncate)
    stamp = _ended(IcebergSink.stamp)
    create_database = _ended(IcebergSink.create_database)
    drop_database = _ended(IcebergSink.drop_database)
    change_columns = _ended(IcebergSink.change_columns)
    fill_column = _ended(IcebergSink.fill_column)
    convert_column = _ended(IcebergSink.convert_column)
    upsert = _ended(IcebergSink.upsert)


class LettersWithFaults(IcebergDeadLetters):
    """Dead letters in Iceberg whose commits are durable actions."""

    def __init__(self, sink: SinkWithFaults, job: str, commits: Commits) -> None:
        lake = sink.catalog
        super().__init__(lake.spark, lake.name, job, lambda: commits.begin("log", "a commit of dead letters"))
        self.commits = commits

    keep = _ended(IcebergDeadLetters.keep)


def spark_lab(spark: SparkSession, kafka: RealBroker, folder: Path, writer: Literal["python", "spark"]) -> LabMaker:
    """Makes laboratories in ``folder``, each of one story.

    ``writer``: as the job file's: who writes the lake's files.
    """

    def make(broker: Broker, clock: Clock, injector: Injector) -> Lab:
        place = folder / f"story{next(_NUMBERS)}"
        return SparkLab(broker, clock, injector, spark=spark, kafka=kafka, folder=place, writer=writer)

    return make


@cache
def _shared() -> LabMaker:
    """Servers of this process, until it ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(mkdtemp(prefix="ticdc-spark-stories-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    kafka = RealBroker(folder / "kafka")
    kafka.start()
    stack.callback(kafka.kill)
    return spark_lab(stack.enter_context(shared_session()), kafka, folder, "python")


def make_lab(broker: Broker, clock: Clock, injector: Injector) -> Lab:
    """For the command line: starts Spark and Kafka once."""
    return _shared()(broker, clock, injector)
