"""DDLs that come later than their tables have passed them: the topic is read only now in which they stand. Pure.

Watermarks of other topics had brought such a table so far. Where it has had no commit since, the DDL is applied as if
it had come in time; where it has, rows of another schema may be in it, and it is marked.
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
    """The tables that a DDL changes and that have passed it without it. ``progress``: before the batch; ``topic``:
    where the DDL stands."""
    ts = change.commit_ts
    if ts > progress.applied:
        return set()
    if any(one.watermark > ts for one in progress.partitions if one.topic == topic):
        return set()  # It was read before.
    if change.merged is not None and change.merged in states and not _is_known(progress, change):
        # A later DDL of another shard says nothing about this one.
        state = msgspec.structs.replace(states[change.merged], ddl_ts=0, emptied=0)
        return {change.merged} if _has_passed(state, ts) else set()
    return {name for name in tables_of(change) if name in states and _has_passed(states[name], ts)}


def _is_known(progress: Progress, change: SchemaChange) -> bool:
    """Whether the shards that a DDL leaves behind are known to the job."""
    return source_tables(change)[1] <= {*by_source(progress.shards)}


def _has_passed(state: TableState, ts: int) -> bool:
    if state.table is None or state.is_gone or state.is_quarantined or state.load is not None:
        return False
    return max(state.ddl_ts, state.emptied) < ts <= state.applied


def with_late(state: TableState, change: SchemaChange) -> TableState:
    """A table that a late DDL names: marked where a commit after the DDL has been made to it."""
    ts = change.commit_ts
    if state.mark < (ts, DDL_STEPS):
        return state
    return diverge(
        state, ts, f"a DDL came after later rows had been applied, and was left out: {change.query}", columns=True
    )
