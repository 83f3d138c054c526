"""Row changes that come from no topic: they are in the driver's memory, as their messages would have them."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.spark.decode.places import Place
from ticdc_spark.spark.decode.raw import RawRows, RawTask
from ticdc_spark.spark.faults import spark_faults, task_faults
from ticdc_spark.spark.tasks import ArrowTask, first_cells


class Counted:
    """Counts in this process."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, number: int, /) -> None:
        """Add to the count."""
        self.value += number


class Collected:
    """Collects places in this process."""

    def __init__(self) -> None:
        self.value: set[Place] = set()

    def add(self, places: set[Place], /) -> None:
        """Add places."""
        self.value |= places


class GivenRows:
    """Row changes of one table. See ``changes.raw.RawChanges``."""

    size = 0
    """Tasks of Spark read nothing."""
    is_here = True

    def __init__(self, rows: RawRows, what: str) -> None:
        """``what``: the beginning of an error, such as "rows of shop.orders"."""
        self.rows, self._what = rows, f"{what} cannot be written"

    def count(self) -> Counted:
        return Counted()

    def places(self) -> Collected:
        return Collected()

    def run(self, task: RawTask) -> list[bytes]:
        with spark_faults(self._what), task_faults(self._what):
            return list(first_cells(task([self.rows])))

    def run_spread(self, first: RawTask, keys: Sequence[str], then: ArrowTask, number: int) -> list[bytes]:
        raise AssertionError("the driver runs the tasks, see is_here")

    def collect(self, task: RawTask) -> list[bytes]:
        return self.run(task)

    def map(self, task: RawTask, ddl: str, session: SparkSession | None = None) -> DataFrame:
        assert session is not None, "sinks read in a session of theirs"
        with spark_faults(self._what), task_faults(self._what):
            batches = list(task([self.rows]))
            return session.createDataFrame(pa.Table.from_batches(batches) if batches else [], ddl)
