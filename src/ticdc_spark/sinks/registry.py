"""The only list of sinks, by the kind that a job file names."""

from collections.abc import Callable, Collection
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.config.job import Job
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.dead_letters import DeadLetters
from ticdc_spark.sinks.delta import kind as delta
from ticdc_spark.sinks.iceberg import kind as iceberg
from ticdc_spark.sinks.mysql import kind as mysql
from ticdc_spark.sinks.postgres import kind as postgres
from ticdc_spark.sinks.recorded import of_job
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.session.session import Part


class SinkKind(Protocol):
    """A kind of sink, before it is opened. ``config`` is its section of a job file."""

    capabilities: Capabilities
    types: TypeMap
    """The types of a server whose version is unknown."""

    def parts(self, config: Any) -> list[Part]:
        """What Spark needs to write to it."""

    def spark_options(self, config: Any) -> dict[str, str]:
        """Spark's options for it."""

    def open(self, spark: SparkSession, job: Job, fence: Callable[[], None]) -> Sink:
        """Open it for a job. ``fence`` is called before each commit. Raises: SinkFault"""

    def dead_letters(self, spark: SparkSession, config: Any, job: str, fence: Callable[[], None]) -> DeadLetters:
        """Open the dead letters of a job. ``fence`` is called before each commit."""

    def read_dead_letters(self, job: Job) -> list[dict[str, Any]]:
        """The dead letters of a job, in the order of topics, partitions and offsets. Raises: SinkFault"""

    def place(self, job: Job) -> str:
        """A text that says whether the target can be written to, if that is known without Spark. Raises: SinkFault"""

    def stop_without_rights(self, config: Any, tables: Collection[TableName]) -> str:
        """A text on whether the user may write tables, named as in the target; ``""``: the target does not say.

        Raises: DecisionNeeded for a name that the target cannot have; UsageError with the statements that give missing
        rights; SinkFault
        """

    def look(self, spark: SparkSession, config: Any) -> str:
        """Open the catalog without changing it, and describe its content. Raises: SinkFault"""

    def is_untouched(self, config: Any) -> bool:
        """Whether no job has written to it, so that opening it would create something. Raises: SinkFault"""

    def open_lake(self, job: Job) -> SparkSession:
        """A session for reading the tables of a job."""

    def read_as_of(self, job: Job, session: SparkSession, table: TableName, snapshot_id: int | None) -> DataFrame:
        """A table as of a snapshot, see ``Tables.snapshot_id``. Raises: SinkFault if that snapshot is gone"""


SINKS: dict[str, SinkKind] = {
    "iceberg": iceberg.KIND,
    "delta": delta.KIND,
    "mysql": mysql.KIND,
    "postgres": postgres.KIND,
}


def sink_kind(job: Job) -> SinkKind:
    """The kind of a job's sink."""
    return SINKS[str(job.sink.__struct_config__.tag)]


def open_sink(spark: SparkSession, job: Job, fence: Callable[[], None]) -> Sink:
    """Open the sink of a job for callers with the source's names. ``fence`` is called before each commit.

    Raises: SinkFault
    """
    return of_job(sink_kind(job).open(spark, job, fence), job)
