"""Where the row changes of a table are read from, before they have types: the seam below ``TypedChanges``."""

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.spark.decode.places import Places
from ticdc_spark.spark.decode.raw import RawTask
from ticdc_spark.spark.tasks import ArrowTask, Count


class RawChanges(Protocol):
    """Row changes of one table, as their messages have them. A task gets them as ``RawRows``.

    A task of ``run``, ``run_spread`` and ``collect`` gives one column of bytes. Every method raises SinkFault or
    SourceFault where the changes cannot be read, and UnreadableRows where a task met a row that it was not to leave
    out; what ``map`` gives does so when Spark runs it.
    """

    @property
    def size(self) -> int | None:
        """Bytes that tasks read; ``None``: tasks cannot read them by themselves, only Spark can."""

    @property
    def is_here(self) -> bool:
        """Whether they are few, in memory: the driver does them."""

    def count(self) -> Count:
        """A new counter, for tasks."""

    def places(self) -> Places:
        """A new collection of places, for tasks."""

    def run(self, task: RawTask) -> list[bytes]:
        """All of them through one task, by the driver. Only where ``is_here``."""

    def run_spread(self, first: RawTask, keys: Sequence[str], then: ArrowTask, number: int) -> list[bytes]:
        """All of them through ``first`` where they are, and what that gives, spread by its keys, through ``then`` in
        ``number`` tasks. Not where ``size`` is ``None``."""

    def collect(self, task: RawTask) -> list[bytes]:
        """All of them through tasks, in parts of any cut."""

    def map(self, task: RawTask, ddl: str, session: SparkSession | None = None) -> DataFrame:
        """All of them through tasks that give ``ddl``, in a session of Spark's."""
