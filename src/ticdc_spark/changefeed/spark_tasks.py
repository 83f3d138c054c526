"""Runs a changefeed's tasks on Spark. Each task gets a number and gives a result."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.errors import EnvironmentFault, UsageError
from ticdc_spark.spark.session.session import cores, open_session, runs_here, stop_session
from ticdc_spark.spark.tasks import ArrowTask, in_worker

J = TypeVar("J")
R = TypeVar("R", bound=msgspec.Struct)
_LOG = logging.getLogger(__name__)


class SparkTasks:
    """Runs tasks, and starts Spark for the first ones. Can be used from several threads."""

    def __init__(self, changefeed: Changefeed, what: str) -> None:
        """``what``: the tasks do, for logs and errors."""
        self._changefeed, self._what = changefeed, what
        self._spark: SparkSession | None = None
        self._ours = False
        self._lock = threading.Lock()

    @property
    def parallelism(self) -> int:
        """How many tasks run side by side."""
        return cores(self._changefeed.snapshot.spark.get("spark.master", "local[*]"))

    def run(self, task: Callable[[J, int], R], job: J, count: int, kind: type[R]) -> list[R]:
        """The task's results for the numbers 0 to ``count`` - 1, in order. Raises: EnvironmentFault, UsageError"""
        spark = self._session()
        try:
            found = spark.range(0, count, 1, count).mapInArrow(_task(task, job), "part int, found binary").collect()
        except (Py4JJavaError, Py4JError, PySparkException) as error:
            reason = str(error).strip().partition("\n")[0][:500]
            raise EnvironmentFault(f"Spark could not run the tasks that {self._what}: {reason}") from error
        by_part = {row.part: msgspec.msgpack.decode(row.found, type=kind) for row in found}
        return [by_part[number] for number in range(count)]

    def close(self) -> None:
        """Stop Spark, if it was started here."""
        with self._lock:
            spark, self._spark = self._spark, None
        if spark is not None and self._ours:
            stop_session(spark)

    def _session(self) -> SparkSession:
        with self._lock:
            if self._spark is None:
                self._ours = SparkSession.getActiveSession() is None
                _LOG.info("Spark starts: its tasks %s", self._what)
                spark = open_session(f"changefeed {self._changefeed.id}", self._changefeed.snapshot.spark, ())
                if not runs_here(spark):
                    raise UsageError(
                        f"[ticdc-spark.spark] spark.master is {spark.sparkContext.master!r}; allowed: local[…]: "
                        "elsewhere, the tasks of a killed changefeed could not be kept from sending"
                    )
                self._spark = spark
            return self._spark


def _task(task: Callable[[J, int], R], job: J) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            found = [msgspec.msgpack.encode(task(job, number)) for number in numbers]
            columns = [pa.array(numbers, pa.int32()), pa.array(found, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["part", "found"])

    return in_worker(run)
