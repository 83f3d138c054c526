"""The target of a job as of one of its commits."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from ticdc_spark.config.job import Job, MysqlConfig, PostgresConfig
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.rows import job_state
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.lake_tables import made_again, newest
from ticdc_spark.sinks.mysql.client import OURS as MYSQL_OURS
from ticdc_spark.sinks.mysql.types import MysqlNames
from ticdc_spark.sinks.postgres.client import OURS as POSTGRES_OURS
from ticdc_spark.sinks.registry import sink_kind
from ticdc_spark.sinks.shaped_types import ShapedTypes
from ticdc_spark.sinks.spark_types import LakeNames
from ticdc_spark.sinks.state import StoredState
from ticdc_spark.sinks.states import open_state
from ticdc_spark.sinks.type_map import NameRule, TypeMap
from ticdc_spark.spark.types import LakeOptions
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.database import DatabaseTable, Place, Sessions
from ticdc_spark.verify.dialects import Mysql, Postgres
from ticdc_spark.verify.lake import LakeTable
from ticdc_spark.verify.sessions import MysqlSessions, PostgresSession
from ticdc_spark.verify.sides import Side

_TRIES = 20
"""Attempts to open a transaction that sees the state that was read."""
_MOMENT = ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT")


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """One table of the target."""

    side: Side
    snapshot: int | None = None
    """The newest snapshot of a lake's table."""
    columns: tuple[str, ...]
    """The names of its current columns."""
    is_commit: bool
    """Whether it is as the job's last commit left it. ``False``: a batch or another writer may have changed it
    since."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The target as of one commit of the job. In a lake, later changes of other writers are visible, too."""

    progress: Progress
    opened: Callable[[TablePlan, TableState], Opened]
    close: Callable[[], None] = lambda: None

    def table(self, name: TableName) -> TableState | None:
        """The job's state of a table; ``None``: it has no table with this name."""
        return next((one for one in self.progress.tables if one.full_name == name), None)


class Target:
    """The target of a job."""

    def __init__(self, job: Job, starting: Callable[[], None]) -> None:
        """``starting``: called when Spark starts, which only a lake needs."""
        self._job, self._kind, self._starting = job, sink_kind(job), starting
        self.lake = LakeOptions(tinyint1_as_boolean=job.tinyint1 == "boolean", zero_dates=job.zero_dates)
        self.is_lake = not isinstance(job.sink, MysqlConfig | PostgresConfig)
        """Whether a table's snapshots have ids."""
        self._states = open_state(job.sink, job.name, job.spark)
        self.pause = self._states.pause
        """Seconds between two looks at what the job has committed."""

    def close(self) -> None:
        """Close the connections."""
        self._states.close()

    def types(self, progress: Progress) -> TypeMap:
        """The types of columns in the target."""
        routes = compiled(progress.routes)
        names: NameRule = LakeNames() if self.is_lake else MysqlNames()  # a database has the source's names
        return ShapedTypes(self._kind.types, names, routes, self._job.mask_salt) if routes else self._kind.types

    def progress(self) -> Progress:
        """What the job has committed. Raises: SinkFault, DecisionNeeded, UsageError"""
        return self._progress(self._states.load())

    def view(self) -> View:
        """The target as of the last commit. Raises: SinkFault, DecisionNeeded, UsageError"""
        if self.is_lake:
            return View(progress=self.progress(), opened=self._lake_table)
        for _ in range(_TRIES):
            stored = self._states.load()
            sessions, version, opened = self._transaction()
            try:
                found = sessions.fetch(version)
            except BaseException:
                sessions.close()
                raise
            if found and found[0][0] == stored.version:
                return View(progress=self._progress(stored), opened=opened, close=sessions.close)
            sessions.close()
            time.sleep(0.05)
        raise SinkFault(f"the state {self._states.where} keeps changing: try again")

    def _transaction(self) -> tuple[Any, str, Callable[[TablePlan, TableState], Opened]]:
        """A session that sees one moment, the query for the version of the state, and a function that opens a table."""
        sink, job = self._job.sink, "'{}'".format(self._job.name.replace("'", "''"))
        if isinstance(sink, MysqlConfig):
            sessions = MysqlSessions(sink.uri, self.lake, _MOMENT, SinkFault, vectors=False)
            sessions.open()
            version = f"SELECT `version` FROM `{MYSQL_OURS}`.`states` WHERE `job` = {job}"
            # A table with a DDL or a full read is ahead until its batch ends.
            place = _Place(sessions, Mysql(), sink.database_prefix)
            return sessions, version, lambda plan, _: place.opened(plan, is_commit=False)
        assert isinstance(sink, PostgresConfig)
        session = PostgresSession(sink.uri)
        version = f"SELECT version FROM {POSTGRES_OURS}.states WHERE job = {job}"
        schemas = _Place(session, Postgres(), sink.schema_prefix)
        return session, version, lambda plan, _: schemas.opened(plan, is_commit=True)

    def _lake_table(self, plan: TablePlan, state: TableState) -> Opened:
        snapshot, columns = newest(self._job.sink, self._job.spark, plan.target)

        def read() -> Any:
            return self._kind.read_as_of(self._job, self._session, plan.target, snapshot)

        side = LakeTable(plan, read, shown(plan.target))
        is_commit = snapshot == state.snapshot_id and not made_again(
            self._job.sink, self._job.spark, {plan.target: snapshot}, state.mark[0]
        )
        return Opened(side=side, snapshot=snapshot, columns=tuple(columns), is_commit=is_commit)

    @cached_property
    def _session(self) -> SparkSession:
        self._starting()
        return self._kind.open_lake(self._job)

    def _progress(self, stored: StoredState) -> Progress:
        found = job_state(stored, self._states.where).progress
        if found is None or not found.applied:
            raise UsageError(f"job {self._job.name} has applied nothing yet; run it first")
        if found.mode == "arrival":
            raise UsageError(
                f"job {self._job.name} runs in arrival mode. Without watermarks it is not known which changes are not "
                "applied yet, so they cannot be distinguished from differences"
            )
        return found


class _Place(NamedTuple):
    """The tables of a database."""

    sessions: Sessions
    dialect: Mysql | Postgres
    prefix: str
    """The prefix of its databases or schemas."""

    def opened(self, plan: TablePlan, *, is_commit: bool) -> Opened:
        """Open a table. Raises: SinkFault"""
        schema, table = self.prefix + plan.target[0], plan.target[1]
        columns = [pair.target for pair in plan.pairs]
        place = Place(self.sessions, self.dialect, f"{self.dialect.quoted(schema)}.{self.dialect.quoted(table)}")
        found = self.sessions.fetch(
            "SELECT column_name FROM information_schema.columns "
            f"WHERE table_schema = {self.dialect.literal(schema)} AND table_name = {self.dialect.literal(table)}"
        )
        names = tuple(name if isinstance(name, str) else name.decode() for (name,) in found)
        return Opened(side=DatabaseTable(plan, columns, place), columns=names, is_commit=is_commit)
