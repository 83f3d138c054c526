"""Rows that were applied before a DDL that they followed at the source: possible only without a resolved ts.

canal-json sends a DDL to one partition. The others may be read further than that one.
"""

import logging

from ticdc_spark.model import ColumnType, TableName
from ticdc_spark.replicate.apply.batch import COMMIT_TS, Batch, TimelineWork
from ticdc_spark.replicate.state.table import TableState, diverge, lose_rows_of_next
from ticdc_spark.sinks.conditions import Condition

log = logging.getLogger(__name__)


def has_newer_rows(work: TimelineWork, state: TableState, ts: int) -> bool:
    """Whether a table may have changes from after a DDL at ``ts``, which is about to be applied."""
    promise = work.promised.get(state.full_name)
    # An earlier DDL of the batch has set ``applied`` back to its own commit_ts.
    return not work.batch.resolves and max(state.applied, 0 if promise is None else promise.applied) > ts


def diverge_behind(state: TableState, ts: int) -> TableState:
    """Mark a table that has, or loses, rows from after a DDL at ``ts``."""
    why = f"the DDL at {ts} was read after rows from behind it"
    log.warning("`%s`.`%s`: %s", state.schema, state.name, why)
    return lose_rows_of_next(state, ts + 1, why) if state.is_gone else diverge(state, ts, why)


def doubt_shape(work: TimelineWork, before: TableState, after: TableState, ts: int) -> TableState:
    """Mark a table if a DDL at ``ts`` changes its name or its columns under rows from behind it."""
    if after.schema_keys or _shape(before) == _shape(after) or not has_newer_rows(work, before, ts):
        return after
    return diverge_behind(after, ts)


def with_lost_rows(work: TimelineWork, new: TableState, before: TableState | None) -> TableState:
    """Mark a new table if some of its rows are lost: the table before it took them, or was dropped with them, or they
    were skipped because no schema was known. ``before``: what is known of the name."""
    if work.batch.resolves or before is None:
        return new
    since = before.diverged_since
    if before.is_gone and since is not None and since > before.ddl_ts:
        return diverge(new, since, before.diverged_why)
    if before.applied > new.ddl_ts:
        return diverge(new, new.ddl_ts + 1, before.diverged_why or "rows of it came before its CREATE TABLE was read")
    return new


def _shape(state: TableState) -> tuple[TableName, list[tuple[str, ColumnType]]] | None:
    """What rows are read by: a default or NOT NULL changes none of them. Only the places show that names swapped."""
    if state.table is None:
        return None
    return state.table.full_name, [(column.name, column.type) for column in state.table.columns]


def rows_until(batch: Batch, state: TableState, ts: int) -> tuple[tuple[Condition, ...], ...]:
    """The condition for the rows of a table that were last changed at ``ts`` or before."""
    (column,) = (one for one in batch.columns_of(state) if one.name == COMMIT_TS)
    return ((Condition(column=column, below=str(ts + 1), or_null=True, lake=batch.lake),),)
