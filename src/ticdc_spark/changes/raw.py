"""The interface from which ``TypedChanges`` reads the row changes of a table, before they have types."""

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.spark.decode.places import Places
from ticdc_spark.spark.decode.raw import RawTask
from ticdc_spark.spark.tasks import ArrowTask, Count


class RawChanges(Protocol):
    """Row changes of one table, as in their messages. A task gets them as ``RawRows``.

    A task of ``run``, ``run_spread`` and ``collect`` returns one column of bytes. Every method raises SinkFault or
    SourceFault when the changes cannot be read, and UnreadableRows when a task finds an unreadable row that it must
    not skip. The DataFrame of ``map`` raises them when Spark runs it.
    """

    @property
    def size(self) -> int | None:
        """Bytes that tasks read; ``None``: tasks cannot read the changes themselves, only Spark can."""

    @property
    def is_here(self) -> bool:
        """Whether the changes are few, and in the driver's memory: the driver then runs the tasks."""

    def count(self) -> Count:
        """A new counter, for tasks."""

    def places(self) -> Places:
        """A new collection of places, for tasks."""

    def run(self, task: RawTask) -> list[bytes]:
        """Run one task over all changes, in the driver. Only if ``is_here``."""

    def run_spread(self, first: RawTask, keys: Sequence[str], then: ArrowTask, number: int) -> list[bytes]:
        """Run ``first`` over all changes where they are read, spread its rows by ``keys``, and run ``then`` over them
        in ``number`` tasks. Not if ``size`` is ``None``."""

    def collect(self, task: RawTask) -> list[bytes]:
        """Run a task over all changes, in arbitrary parts."""

    def map(self, task: RawTask, ddl: str, session: SparkSession | None = None) -> DataFrame:
        """Run a task that returns rows of the schema ``ddl`` over all changes, in a session of Spark."""
