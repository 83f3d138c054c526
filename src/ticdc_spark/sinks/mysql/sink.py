"""The sink ``kind = "mysql"``: tables of MySQL, MariaDB or TiDB, equal to the source's, all at the same commit."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from ticdc_spark.clients.mysql import connection_options
from ticdc_spark.config.job import MysqlConfig
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.composed import ComposedSink, Parts, without_prefix
from ticdc_spark.sinks.mysql.appends import MysqlAppends
from ticdc_spark.sinks.mysql.client import OURS, Client
from ticdc_spark.sinks.mysql.commits import Commits
from ticdc_spark.sinks.mysql.loads import MysqlLoads
from ticdc_spark.sinks.mysql.rewrites import MysqlRewrites
from ticdc_spark.sinks.mysql.rows import MysqlRows
from ticdc_spark.sinks.mysql.state import MysqlState
from ticdc_spark.sinks.mysql.tables import MysqlTables
from ticdc_spark.sinks.mysql.types import MysqlNames, MysqlTypes
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally

_TAKEN = {OURS, "mysql", "information_schema", "performance_schema", "sys"}
"""Databases that belong to the job or the server."""


class MysqlSink(ComposedSink):
    """See ``sinks.base.Sink``."""

    capabilities = Capabilities(
        time_travel=False,
        atomic_tables=True,
        upkeep=False,
        sees_others=False,
        layouts=False,
    )
    names = MysqlNames()

    def __init__(
        self,
        config: MysqlConfig,
        fence: Callable[[], None] = lambda: None,
        *,
        job: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """``job``: its row changes wait for ``commit_with``; ``None``: each has its own commit.
        ``spark``: runs the tasks of full reads; ``None``: this process reads."""
        self.client = Client(connection_options(config.uri))
        self.commits = Commits(self.client, fence, gathers=job is not None)
        self.tables = MysqlTables(self.client, self.commits)
        self.rows = MysqlRows(self.tables, spark, job or "")
        self.conflicts = Tally()  # stays empty: locks keep other writers out
        self._prefix = config.database_prefix
        parts = Parts(
            tables=self.tables,
            rewrites=MysqlRewrites(self.tables),
            changes=self.rows,
            loads=MysqlLoads(self.rows),
            histories=MysqlAppends(self.rows),
            upkeep=None,
        )
        super().__init__(self.capabilities, parts, partial(target_name, self._prefix))

    @property
    def types(self) -> MysqlTypes:
        return self.tables.types

    def state(self, job: str) -> MysqlState:
        return MysqlState(Client(self.client.options), job)

    def commit_with(self, states: StateStore) -> None:
        assert isinstance(states, MysqlState), "the state of a job is in its target"
        states.waiting = self.commits.pending

    def list_tables(self, job: str) -> list[TableName]:
        return without_prefix(self._prefix, super().list_tables(job))


def target_name(prefix: str, table: TableName) -> TableName:
    """The name of a table in the target. ``prefix``: of databases. Raises: DecisionNeeded if that database is
    reserved"""
    database = prefix + table[0]
    if database.casefold() in _TAKEN:
        raise DecisionNeeded(
            f"database `{table[0]}` would be copied into `{database}`, which is reserved. Set `database-prefix` "
            f"under [sink] so that it has another name (now: {prefix!r}), or exclude its tables with "
            "`tables` under [job]"
        )
    return database, table[1]
