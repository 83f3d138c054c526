"""The laboratory of a job that keeps only some rows of each table, by their keys."""

from __future__ import annotations

from msgspec.structs import replace

from tests.simulator.job_lab import Fence, JobLab
from tests.simulator.setup import JobSetup
from ticdc_spark.config.job import Job, Route
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.routed import routed


class FilteredLab(JobLab):
    """See ``job_lab.JobLab``."""

    where = "CRC32(id) % 3 <> 0"
    """Every table has such a column, of one kind or another."""

    def _job(self, setup: JobSetup) -> Job:
        return replace(super()._job(setup), routes=(Route(tables=("*.*",), where=self.where),))

    def _sink(self, setup: JobSetup, fence: Fence) -> Sink:
        return routed(super()._sink(setup, fence), self._job(setup))
