"""Upkeep of a job's tables by hand, whether the job runs or not."""

import time
from collections.abc import Iterator, Sequence

from ticdc_spark.config.job import Job
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.replicate.parallel import looks
from ticdc_spark.replicate.run.open import open_spark
from ticdc_spark.replicate.run.upkeep import policy_of
from ticdc_spark.sinks.registry import open_sink, sink_kind
from ticdc_spark.sinks.upkeep import FilePlace


def look_after(job: Job, rules: Sequence[str], orphans: float | None) -> Iterator[tuple[TableName, list[str]]]:
    """Maintain each table of a job that the rules include; yields what was done, as text.

    ``orphans``: remove files that belong to no commit and are older than this time; ``None``: keep them.
    Raises: SinkFault after all tables were tried; EnvironmentFault if Spark does not start
    """
    wanted = table_filter(tuple(rules) or ("*.*",))
    # Does not take the job: for a running job this is another writer, like any tool's upkeep.
    fault: SinkFault | None = None
    kind = sink_kind(job)
    kind.capabilities.need("upkeep", f"{job.file}: the files of its tables are to be looked after")
    sink = open_sink(open_spark(job), job, lambda: None)
    places: Sequence[FilePlace] = ()
    if orphans is not None:
        try:
            places = sink.file_places()
        except SinkFault as raised:
            fault, orphans = raised, None

    def one(name: TableName) -> tuple[TableName, list[str], SinkFault | None]:
        done: list[str] = []
        try:
            done += sink.look_after(name, policy_of(job.upkeep), time.time()).done
            if orphans is not None and (removed := sink.remove_orphans(name, orphans, places)):
                done.append(f"{removed} orphan files removed")
        except SinkFault as raised:
            return name, [*done, str(raised)], raised
        return name, done, None

    for name, done, failed in looks(job, one, [name for name in sorted(sink.list_tables(job.name)) if wanted(*name)]):
        fault = failed or fault
        yield name, done
    if fault is not None:
        raise fault
