"""Waves on Spark: a task for each part."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.snapshot.plan import PartSent
from ticdc_spark.changefeed.snapshot.send import SendJob, send_part
from ticdc_spark.errors import EnvironmentFault, UsageError
from ticdc_spark.spark.session.session import open_session, runs_here, stop_session
from ticdc_spark.spark.tasks import ArrowTask, in_worker

_LOG = logging.getLogger(__name__)


class SparkSender:
    """Sends waves; Spark is started for the first one."""

    def __init__(self, changefeed: Changefeed) -> None:
        self._changefeed = changefeed
        self._spark: SparkSession | None = None
        self._ours = False

    def __call__(self, job: SendJob) -> Sequence[PartSent]:
        """Send the parts of a wave. Raises: EnvironmentFault, UsageError"""
        spark, parts = self._session(), len(job.parts)
        try:
            found = spark.range(0, parts, 1, parts).mapInArrow(_task(job), "sent string, part int").collect()
        except (Py4JJavaError, Py4JError, PySparkException) as error:
            reason = str(error).strip().partition("\n")[0][:500]
            raise EnvironmentFault(f"Spark could not run the tasks that read tables: {reason}") from error
        by_part = {row.part: msgspec.json.decode(row.sent, type=PartSent) for row in found}
        return [by_part[number] for number in range(parts)]

    def close(self) -> None:
        """Stop Spark, if it was started here."""
        spark, self._spark = self._spark, None
        if spark is not None and self._ours:
            stop_session(spark)

    def _session(self) -> SparkSession:
        if self._spark is None:
            self._ours = SparkSession.getActiveSession() is None
            _LOG.info("Spark starts, to read tables")
            options = self._changefeed.snapshot.spark
            spark = open_session(f"changefeed {self._changefeed.id}", options, ())
            if not runs_here(spark):
                raise UsageError(
                    f"[ticdc-spark.spark] spark.master is {spark.sparkContext.master!r}; allowed: local[…]: the tasks "
                    "of a changefeed that was killed could not be kept from sending elsewhere"
                )
            self._spark = spark
        return self._spark


def _task(job: SendJob) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            sent = [msgspec.json.encode(send_part(job, number)).decode() for number in numbers]
            columns = [pa.array(sent, pa.string()), pa.array(numbers, pa.int32())]
            yield pa.RecordBatch.from_arrays(columns, names=["sent", "part"])

    return in_worker(run)


__all__ = ["SparkSender"]
