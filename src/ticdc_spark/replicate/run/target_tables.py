"""Look for tables of others that have the names of a job's tables, before the job creates its first one."""

from collections.abc import Collection

from pyspark.sql import SparkSession

from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.look import look_at
from ticdc_spark.replicate.state.store import progress_of
from ticdc_spark.sinks.registry import open_sink, sink_kind

_MOST = 1000
"""Most tables that are checked."""


def look_at_target(job: Job, spark: SparkSession, names: Collection[TableName]) -> str:
    """Look for tables of a job in its target. ``names``: the source's.

    Raises: DecisionNeeded for a table that is not this job's, if ``adopt`` does not take it over; SinkFault
    """
    if sink_kind(job).is_untouched(job.sink):
        return "nothing is there yet"
    before = progress_of(job)
    promised = {} if before is None else before.states()
    sink = open_sink(spark, job, lambda: None)
    tables = sorted(set(map(compiled(job.routes).known_as, names)))
    some = tables[:_MOST]
    there = sum(look_at(sink, job, name, promised.get(name)).stamp is not None for name in some)
    rest = f", the first {_MOST:,} of them checked" if len(tables) > _MOST else ""
    return f"{there:,} of {len(tables):,} known tables are there{rest}"
