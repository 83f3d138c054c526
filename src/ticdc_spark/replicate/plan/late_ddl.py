"""Late DDLs: their tables are already past them, because their topic is only read now. Pure.

Watermarks of other topics let such a table advance. If the table has had no commit since the DDL, the DDL is applied
as if it had come in time. Otherwise the table may have rows of the wrong schema, and is marked.
"""

from collections.abc import Mapping

import msgspec

from ticdc_spark.model import SchemaChange, TableName
from ticdc_spark.replicate.plan.merging import by_source
from ticdc_spark.replicate.plan.names import source_tables, tables_of
from ticdc_spark.replicate.plan.timeline import DDL_STEPS
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState, diverge

States = Mapping[TableName, TableState]


def late_for(progress: Progress, change: SchemaChange, topic: str, states: States) -> set[TableName]:
    """The tables that a DDL changes and that went past its commit_ts without it. ``progress``: before the batch;
    ``topic``: that of the DDL."""
    ts = change.commit_ts
    if ts > progress.applied:
        return set()
    if any(one.watermark > ts for one in progress.partitions if one.topic == topic):
        return set()  # The job read it before.
    if change.merged is not None and change.merged in states and not _is_known(progress, change):
        # A later DDL of another shard does not mean that this one was applied.
        state = msgspec.structs.replace(states[change.merged], ddl_ts=0, emptied=0)
        return {change.merged} if _has_passed(state, ts) else set()
    return {name for name in tables_of(change) if name in states and _has_passed(states[name], ts)}


def _is_known(progress: Progress, change: SchemaChange) -> bool:
    """Whether the job knows the shards that exist after a DDL."""
    return source_tables(change)[1] <= {*by_source(progress.shards)}


def _has_passed(state: TableState, ts: int) -> bool:
    if state.table is None or state.is_gone or state.is_quarantined or state.load is not None:
        return False
    return max(state.ddl_ts, state.emptied) < ts <= state.applied


def with_late(state: TableState, change: SchemaChange) -> TableState:
    """A table that a late DDL names. It is marked if it has had a commit after the DDL."""
    ts = change.commit_ts
    if state.mark < (ts, DDL_STEPS):
        return state
    return diverge(
        state, ts, f"a DDL came after later rows had been applied, and was left out: {change.query}", columns=True
    )
