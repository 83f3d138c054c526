"""Whether the target has tables of others under the names of a job, before the job makes its first one."""

from collections.abc import Collection

from pyspark.sql import SparkSession

from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.look import look_at
from ticdc_spark.replicate.state.store import progress_of
from ticdc_spark.sinks.registry import open_sink, sink_kind

_MOST = 1000
"""Tables that are looked at."""


def look_at_target(job: Job, spark: SparkSession, names: Collection[TableName]) -> str:
    """Look for tables of a job in its target. ``names``: as the source has them.

    Raises: DecisionNeeded for one that is not of this job, and not to be taken over by ``adopt``; SinkFault
    """
    if sink_kind(job).is_untouched(job.sink):
        return "nothing is there yet"
    before = progress_of(job)
    promised = {} if before is None else before.states()
    sink = open_sink(spark, job, lambda: None)
    tables = sorted(set(map(compiled(job.routes).known_as, names)))
    some = tables[:_MOST]
    there = sum(look_at(sink, job, name, promised.get(name)).stamp is not None for name in some)
    rest = f", the first {_MOST:,} of them looked at" if len(tables) > _MOST else ""
    return f"{there:,} of {len(tables):,} known tables are there{rest}"
