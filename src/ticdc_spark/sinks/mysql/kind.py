"""MySQL as a kind of sink: how it is opened, and its dead letters."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.clients.mysql import connection_options
from ticdc_spark.config.job import Job, MysqlConfig
from ticdc_spark.model import TableName
from ticdc_spark.sinks.capabilities import NotSupported
from ticdc_spark.sinks.dead_letters import DeadLetter
from ticdc_spark.sinks.mysql.client import OURS, Client
from ticdc_spark.sinks.mysql.sink import MysqlSink, target_name
from ticdc_spark.sinks.mysql.types import MysqlTypes
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.session.session import Part

_COLUMNS = ("batch", "stage", "topic", "partition", "offset", "seq", "reason", "key", "value", "at")
_BY_SQL = "the tables of a MySQL sink are read by SQL: at every commit all of them are at one commitTs"


class MysqlLetters:
    """See ``sinks.dead_letters.DeadLetters``."""

    def __init__(self, client: Client, job: str, fence: Callable[[], None] = lambda: None) -> None:
        self._client, self._job, self._fence = client, job, fence
        self.where = f"`{OURS}`.`dead_letters` at {client.where}"

    def keep(self, batch: int, stage: str, letters: Sequence[DeadLetter], at: float) -> None:
        self._client.prepare()
        moment = datetime.fromtimestamp(at, UTC).replace(tzinfo=None)
        rows = [(self._job, batch, stage, *(getattr(one, name) for name in _COLUMNS[2:-1]), moment) for one in letters]
        with self._client.transaction() as cursor:
            cursor.executemany(
                f"DELETE FROM `{OURS}`.`dead_letters` WHERE `job` = %s AND `batch` = %s AND `stage` = %s "
                "AND `topic` = %s AND `partition` = %s AND `offset` = %s AND `seq` = %s",
                [row[:7] for row in rows],
            )
            cursor.executemany(f"INSERT INTO `{OURS}`.`dead_letters` VALUES ({', '.join(['%s'] * 11)})", rows)
            self._fence()

    def read(self) -> list[dict[str, Any]]:
        """All letters, ordered by topic, partition and offset."""
        listed = ", ".join(f"`{name}`" for name in _COLUMNS)
        order = "ORDER BY `topic`, `partition`, `offset`, `seq`, `batch`"
        rows = self._client.ask(f"SELECT {listed} FROM `{OURS}`.`dead_letters` WHERE `job` = %s {order}", self._job)
        return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]


class MysqlKind:
    """See ``sinks.registry.SinkKind``."""

    capabilities = MysqlSink.capabilities
    types: TypeMap = MysqlTypes()

    def parts(self, config: MysqlConfig) -> list[Part]:
        return []

    def spark_options(self, config: MysqlConfig) -> dict[str, str]:
        return {}

    def open(self, spark: SparkSession, job: Job, fence: Callable[[], None]) -> MysqlSink:
        assert isinstance(job.sink, MysqlConfig), "it is of this kind"
        sink = MysqlSink(job.sink, fence, job=job.name, spark=spark)
        sink.rows.remove_stages()
        return sink

    def dead_letters(
        self, spark: SparkSession, config: MysqlConfig, job: str, fence: Callable[[], None]
    ) -> MysqlLetters:
        return MysqlLetters(client_of(config), job, fence)

    def read_dead_letters(self, job: Job) -> list[dict[str, Any]]:
        assert isinstance(job.sink, MysqlConfig)
        return MysqlLetters(client_of(job.sink), job.name).read()

    def place(self, job: Job) -> str:
        assert isinstance(job.sink, MysqlConfig)
        client = client_of(job.sink)
        ((version,),) = client.run("SELECT VERSION()")
        client.close()
        return f"{client.where}, {version}"

    def stop_without_rights(self, config: MysqlConfig, tables: Collection[TableName]) -> str:
        names = [target_name(config.database_prefix, table) for table in sorted(tables)]
        databases = dict.fromkeys([OURS, *(database for database, _ in names)])
        client = client_of(config)
        client.stop_without_rights(databases)
        client.close()
        return f"the user may write {', '.join(databases)}"

    def look(self, spark: SparkSession, config: MysqlConfig) -> str:
        there = "will be created" if self.is_untouched(config) else "is there"
        return f"{client_of(config).where}: the database {OURS} {there}"

    def is_untouched(self, config: MysqlConfig) -> bool:
        client = client_of(config)
        found = client.run("SHOW DATABASES LIKE %s", OURS.replace("_", "\\_"))
        client.close()
        return not found

    def open_lake(self, job: Job) -> SparkSession:
        raise NotSupported(_BY_SQL)

    def read_as_of(self, job: Job, session: SparkSession, table: TableName, snapshot_id: int | None) -> DataFrame:
        raise NotSupported(_BY_SQL)


def client_of(config: MysqlConfig) -> Client:
    """The server of a sink. Opens no connection yet."""
    return Client(connection_options(config.uri))


KIND = MysqlKind()
