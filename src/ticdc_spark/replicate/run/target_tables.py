"""Look at the tables of a job in its target: for tables of others that have their names, and for lost columns."""

from collections.abc import Collection

from pyspark.sql import SparkSession

from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.look import columns_gone, look_at
from ticdc_spark.replicate.state.store import progress_of
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.registry import open_sink, sink_kind

_MOST = 1000
"""Most tables that are checked."""


def look_at_target(job: Job, spark: SparkSession, names: Collection[TableName]) -> str:
    """Look for tables of a job in its target. ``names``: the source's.

    Raises: DecisionNeeded for a table that lacks columns, or that is not this job's if ``adopt`` does not take it over;
    SinkFault
    """
    if sink_kind(job).is_untouched(job.sink):
        return "nothing is there yet"
    before = progress_of(job)
    promised = {} if before is None else before.states()
    sink = open_sink(spark, job, lambda: None)
    tables = sorted(set(map(compiled(job.routes).known_as, names)))
    some = tables[:_MOST]
    there = sum(_is_there(sink, job, name, promised.get(name)) for name in some)
    rest = f", the first {_MOST:,} of them checked" if len(tables) > _MOST else ""
    return f"{there:,} of {len(tables):,} known tables are there{rest}"


def _is_there(sink: Sink, job: Job, name: TableName, promise: TableState | None) -> bool:
    """Whether the target has a table of the job. Raises: as ``look_at_target``"""
    looked = look_at(sink, job, name, promise)
    stamp = looked.stamp
    if (
        stamp is not None
        and promise is not None
        and stamp.mark == promise.mark
        and (why := columns_gone(sink.types, promise, looked.columns))
    ):
        raise DecisionNeeded(
            f"{sink.sql_name(name)}: {why}. Rename them back, or add them again: `replicate` stops with the statement"
        )
    return stamp is not None
