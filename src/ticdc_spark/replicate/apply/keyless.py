"""Tables without a key: their rows cannot be told apart, so that no update or delete finds its row."""

import logging

from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Table, TableName
from ticdc_spark.mysql import handle_key, no_key
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.state.table import TableState, diverge

log = logging.getLogger(__name__)
_NAMED = 20
"""Tables that one error names."""


def leave_out_rows(work: TimelineWork, state: TableState, since: int) -> TableState:
    """What a table without a key is, once rows of it from a commit_ts on are left out.

    Raises: DecisionNeeded with ``no-key = "stop"``, naming every such table
    """
    if work.batch.job.no_key == "stop":
        raise _stop(work, (state.schema, state.name))
    why = 'it has no primary key and no unique key that is not null, and no-key = "skip" leaves its rows out'
    if not state.has_diverged:
        log.warning("`%s`.`%s`: %s", state.schema, state.name, why)
    return diverge(state, since, why)


def _stop(work: TimelineWork, first: TableName) -> DecisionNeeded:
    is_included = table_filter(work.batch.job.tables)
    tables: dict[TableName, Table] = {(schema, name): one for (schema, name, _), one in work.batch.schemas.items()}
    for name, state in work.promised.items():
        if state.is_gone:
            tables.pop(name, None)
        elif state.table is not None:
            tables[name] = state.table
    others = sorted(
        name for name, one in tables.items() if is_included(*name) and not handle_key(one) and name != first
    )
    names = [f"`{schema}`.`{name}`" for schema, name in (first, *others)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return no_key(", ".join(names[:_NAMED]) + more, "[job]")
