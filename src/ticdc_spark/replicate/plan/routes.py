"""What the rules of ``[[route]]`` mean to a job that has tables already. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName
from ticdc_spark.replicate.plan.evolve import Alter, Create, Enter, Truncate, action
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.mark import NO_MARK


def with_routes(job: Job, progress: Progress) -> Progress:
    """The progress of a job that goes on by the rules of its file. Raises: UsageError where a table would move"""
    if progress.routes == job.routes:
        return progress
    before, now = compiled(progress.routes), compiled(job.routes)
    for table in progress.tables:
        name = (table.schema, table.name)
        if is_in_target(table) and before.target(name) != now.target(name):
            raise UsageError(
                f"{job.file}: [[route]]: {shown(name)} is {shown(before.target(name))} in the target, and would be "
                f"{shown(now.target(name))} by the rules as they are now. A table that is there keeps its name: put "
                "back the rule that gave it, above those that are new"
            )
    return msgspec.structs.replace(progress, routes=job.routes)


def stop_if_shared(
    job: Job, progress: Progress, ddls: Iterable[QueuedDdl] = (), more: Sequence[TableName] = ()
) -> None:
    """Stop before two tables have one name in the target. ``ddls``: those that are due. ``more``: tables that come.

    Raises: UsageError that names both
    """
    if not job.routes:
        return
    is_included = table_filter(job.tables)
    names = [
        (one.schema, one.name) for one in progress.tables if is_included(one.schema, one.name) or is_in_target(one)
    ]
    names += [(one.schema, one.name) for one in progress.pending]
    names += [(one.schema, one.name) for one in progress.wanted]
    for ddl in ddls:
        match action(ddl.change):
            case Create(table) | Truncate(table) | Alter(_, table) | Enter(table):
                names.append((table.schema, table.name))
    compiled(job.routes).stop_if_shared(dict.fromkeys([*names, *more]), f"{job.file}")


def is_in_target(table: TableState) -> bool:
    """Whether the job has left the table in the target."""
    return table.mark != NO_MARK and not table.is_dropped
