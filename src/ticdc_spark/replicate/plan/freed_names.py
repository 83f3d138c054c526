"""Names that no table has at the moment: rows of one are of a later table, whose DDL is still to come. Pure."""

from collections.abc import Collection, Iterable

from ticdc_spark.model import TableName
from ticdc_spark.replicate.plan.catch_up import database_of
from ticdc_spark.replicate.plan.names import tables_before_and_after
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.state.progress import QueuedDdl
from ticdc_spark.replicate.state.table import TableState


def freed_names(
    tables: Iterable[TableState], ddls: Iterable[QueuedDdl], named: Collection[TableName]
) -> dict[TableName, int]:
    """The names that no table has after some DDLs, each with the commit_ts of the DDL that took its table away.

    ``tables``: before the DDLs. ``named``: all known names, for a DROP DATABASE.
    """
    there: dict[TableName, int] = {}
    freed: dict[TableName, int] = {}
    for table in tables:
        (freed if table.is_gone else there)[table.full_name] = table.ddl_ts
    for ddl in in_order(ddls):
        before, after = tables_before_and_after(ddl.change)
        if database := database_of(ddl.change):
            before = {name for name in {*named, *freed} if name[0] == database}
        # A DDL that is read late leaves a later table of the name.
        gone = {name for name in before - after if there.get(name, 0) <= ddl.change.commit_ts}
        freed |= dict.fromkeys(gone, ddl.change.commit_ts)
        freed = {name: ts for name, ts in freed.items() if name not in after}
    return freed
