"""The sink ``kind = "postgres"``: tables of a PostgreSQL database, all at the same commit, including DDL."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from ticdc_spark.clients.postgres import connection_options
from ticdc_spark.config.job import PostgresConfig
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import TableFound
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.composed import ComposedSink, Parts, without_prefix
from ticdc_spark.sinks.postgres.appends import PostgresAppends
from ticdc_spark.sinks.postgres.client import OURS, Client
from ticdc_spark.sinks.postgres.loads import PostgresLoads
from ticdc_spark.sinks.postgres.rewrites import PostgresRewrites
from ticdc_spark.sinks.postgres.rows import PostgresRows
from ticdc_spark.sinks.postgres.state import PostgresState
from ticdc_spark.sinks.postgres.tables import PostgresTables
from ticdc_spark.sinks.postgres.types import PostgresNames, PostgresTypes, why_no_name
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally


class PostgresSink(ComposedSink):
    """See ``sinks.base.Sink``. A database of the source is a schema here."""

    capabilities = Capabilities(
        time_travel=False,
        atomic_tables=True,
        upkeep=False,
        sees_others=False,
        column_order=False,
        layouts=False,
    )
    names = PostgresNames()
    types = PostgresTypes()

    def __init__(
        self,
        config: PostgresConfig,
        fence: Callable[[], None] = lambda: None,
        *,
        job: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """``job``: everything it writes waits for ``commit_with``; ``None``: each call has its own commit.
        ``spark``: runs the tasks of full reads; ``None``: this process reads."""
        self.client = Client(connection_options(config.uri))
        self.tables = PostgresTables(self.client, fence, job)
        self.rows = PostgresRows(self.tables, spark)
        self.conflicts = Tally()  # stays empty: locks keep other writers out
        self._prefix = config.schema_prefix
        parts = Parts(
            tables=self.tables,
            rewrites=PostgresRewrites(self.rows),
            changes=self.rows,
            loads=PostgresLoads(self.rows),
            histories=PostgresAppends(self.rows),
            upkeep=None,
        )
        super().__init__(self.capabilities, parts, partial(target_name, self._prefix))

    def begin(self) -> None:
        """Clean up after processes of this job that crashed or lost it. Raises: SinkFault, LeaseHeld"""
        self.tables.fence()
        self.tables.work.end_others()
        self.rows.remove_stages()

    def state(self, job: str) -> PostgresState:
        return PostgresState(Client(self.client.options), job)

    def commit_with(self, states: StateStore) -> None:
        assert isinstance(states, PostgresState), "the state of a job is in its target"
        states.waiting = self.tables.work

    def find(self, table: TableName) -> TableFound | None:
        if why_no_name(self._prefix + table[0]) or why_no_name(table[1]):
            return None
        return super().find(table)

    def list_tables(self, job: str) -> list[TableName]:
        return without_prefix(self._prefix, super().list_tables(job))


def target_name(prefix: str, table: TableName) -> TableName:
    """The name of a table in the target. ``prefix``: of schemas. Raises: DecisionNeeded if it cannot have that name"""
    schema = prefix + table[0]
    if schema in (OURS, "information_schema") or schema.startswith("pg_"):
        raise DecisionNeeded(
            f"database `{table[0]}` would be copied into the schema `{schema}`, which is reserved. Set "
            f"`schema-prefix` under [sink] so that the schema has another name (now: {prefix!r}), or exclude "
            "its tables with `tables` under [job]"
        )
    for name, what in ((schema, "schema"), (table[1], "table")):
        if why := why_no_name(name):
            raise DecisionNeeded(
                f"table {shown((schema, table[1]))}: the name of its {what} {why}. Give it another one with "
                f"`target-{what}` under [[route]], or exclude it with `tables` under [job]"
            )
    return schema, table[1]
