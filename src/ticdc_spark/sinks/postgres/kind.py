"""PostgreSQL as a kind of sink: how it is opened, and its dead letters."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.clients.postgres import connection_options
from ticdc_spark.config.job import Job, PostgresConfig
from ticdc_spark.model import TableName
from ticdc_spark.sinks.capabilities import NotSupported
from ticdc_spark.sinks.dead_letters import DeadLetter
from ticdc_spark.sinks.postgres.client import OURS, Client
from ticdc_spark.sinks.postgres.sink import PostgresSink, target_name
from ticdc_spark.sinks.postgres.types import PostgresTypes
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.session.session import Part

_COLUMNS = ("batch", "stage", "topic", "partition", "offset", "seq", "reason", "key", "value", "at")
_LISTED = ", ".join(f'"{name}"' for name in _COLUMNS)
_BY_SQL = "the tables of a PostgreSQL sink are read by SQL: at every moment all of them are at one commitTs"


class PostgresLetters:
    """See ``sinks.dead_letters.DeadLetters``."""

    def __init__(self, client: Client, job: str, fence: Callable[[], None] = lambda: None) -> None:
        self._client, self._job, self._fence = client, job, fence
        self.where = f"{OURS}.dead_letters at {client.where}"

    def keep(self, batch: int, stage: str, letters: Sequence[DeadLetter], at: float) -> None:
        self._client.prepare()
        moment = datetime.fromtimestamp(at, UTC)
        rows = [
            (
                *(self._job, batch, stage, one.topic, one.partition, one.offset, one.seq),
                *(one.reason.replace("\0", "\\0"), one.key, one.value, moment),
            )
            for one in letters
        ]
        with self._client.transaction() as cursor:
            cursor.executemany(
                f"DELETE FROM {OURS}.dead_letters WHERE job = $1 AND batch = $2 AND stage = $3 AND topic = $4 "
                'AND partition = $5 AND "offset" = $6 AND seq = $7',
                [row[:7] for row in rows],
            )
            cursor.executemany(
                f"INSERT INTO {OURS}.dead_letters (job, {_LISTED}) VALUES "
                "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                rows,
            )
            self._fence()

    def read(self) -> list[dict[str, Any]]:
        """All letters, ordered by topic, partition and offset."""
        order = 'ORDER BY topic COLLATE "C", partition, "offset", seq, batch'
        rows = self._client.ask(f"SELECT {_LISTED} FROM {OURS}.dead_letters WHERE job = $1 {order}", self._job)
        return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]


class PostgresKind:
    """See ``sinks.registry.SinkKind``."""

    capabilities = PostgresSink.capabilities
    types: TypeMap = PostgresTypes()

    def parts(self, config: PostgresConfig) -> list[Part]:
        return []

    def spark_options(self, config: PostgresConfig) -> dict[str, str]:
        return {}

    def open(self, spark: SparkSession, job: Job, fence: Callable[[], None]) -> PostgresSink:
        assert isinstance(job.sink, PostgresConfig), "it is of this kind"
        sink = PostgresSink(job.sink, fence, job=job.name, spark=spark)
        sink.begin()
        return sink

    def dead_letters(
        self, spark: SparkSession, config: PostgresConfig, job: str, fence: Callable[[], None]
    ) -> PostgresLetters:
        return PostgresLetters(client_of(config), job, fence)

    def read_dead_letters(self, job: Job) -> list[dict[str, Any]]:
        assert isinstance(job.sink, PostgresConfig)
        return PostgresLetters(client_of(job.sink), job.name).read()

    def place(self, job: Job) -> str:
        assert isinstance(job.sink, PostgresConfig)
        client = client_of(job.sink)
        ((version,),) = client.run("SELECT current_setting('server_version')")
        client.stop_without_grant()
        client.close()
        return f"{client.where}, PostgreSQL {version}"

    def stop_without_rights(self, config: PostgresConfig, tables: Collection[TableName]) -> str:
        names = [target_name(config.schema_prefix, table) for table in sorted(tables)]
        schemas = dict.fromkeys([OURS, *(schema for schema, _ in names)])
        client = client_of(config)
        client.stop_without_rights(schemas, names)
        client.close()
        return f"the user may write {', '.join(schemas)}"

    def look(self, spark: SparkSession, config: PostgresConfig) -> str:
        there = "will be created" if self.is_untouched(config) else "is there"
        return f"{client_of(config).where}: the schema {OURS} {there}"

    def is_untouched(self, config: PostgresConfig) -> bool:
        client = client_of(config)
        found = client.run("SELECT FROM pg_namespace WHERE nspname = $1", OURS)
        client.close()
        return not found

    def open_lake(self, job: Job) -> SparkSession:
        raise NotSupported(_BY_SQL)

    def read_as_of(self, job: Job, session: SparkSession, table: TableName, snapshot_id: int | None) -> DataFrame:
        raise NotSupported(_BY_SQL)


def client_of(config: PostgresConfig) -> Client:
    """The database of a sink. Opens no connection yet."""
    return Client(connection_options(config.uri))


KIND = PostgresKind()
