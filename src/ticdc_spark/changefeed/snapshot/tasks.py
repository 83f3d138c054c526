"""Sends waves on Spark, with a task for each part."""

from __future__ import annotations

from collections.abc import Sequence

from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.snapshot.plan import PartSent
from ticdc_spark.changefeed.snapshot.send import SendJob, send_part
from ticdc_spark.changefeed.spark_tasks import SparkTasks


class SparkSender:
    """Sends waves; Spark is started for the first one."""

    def __init__(self, changefeed: Changefeed) -> None:
        self._tasks = SparkTasks(changefeed, "read tables")

    def __call__(self, job: SendJob) -> Sequence[PartSent]:
        """Send the parts of a wave. Raises: EnvironmentFault, UsageError"""
        return self._tasks.run(send_part, job, len(job.parts), PartSent)

    def close(self) -> None:
        """Stop Spark, if it was started here."""
        self._tasks.close()
