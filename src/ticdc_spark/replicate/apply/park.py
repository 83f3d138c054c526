"""Park a table that the source drops or empties, so that RECOVER TABLE or FLASHBACK TABLE can bring it back.

A dropped table is renamed. If a table is emptied, its rows are copied, since it keeps its name. Parking that began
before a restart is finished, whatever the job file now says.
"""

import logging

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.rename import is_begun, rename
from ticdc_spark.replicate.plan.parked import parked_name, parks
from ticdc_spark.replicate.state.table import TableState, doubt_load, drop, keep
from ticdc_spark.sinks.mark import NO_MARK, Mark

log = logging.getLogger(__name__)


def park_dropped(work: TimelineWork, name: TableName, mark: Mark, ts: int) -> bool:
    """Park a table that is dropped at ``ts``. Returns: whether it is parked, now or before a restart"""
    parked = parked_name(name, ts)
    if not _is_parking(work, name) and not is_begun(work, name, parked, mark):
        return False
    there = work.mark(parked) != NO_MARK
    state = work.state(name)
    if work.mark(name) > mark:
        return there  # A later table has the name.
    if not there and (state is None or state.table is None or state.is_gone or work.mark(name) == NO_MARK):
        return False
    rename(work, name, parked, mark, ts)
    moved = work.state(parked)
    if moved is not None and not moved.is_kept and work.mark(parked) != NO_MARK:
        kept = msgspec.structs.replace(keep(doubt_load(moved, ts)), applied=ts, ddl_ts=ts)
        end = (mark[0], mark[1] + 2)
        work.commit(kept, end, mark[0], lambda stamp: work.batch.sink.stamp(parked, stamp))
        failpoints.point("stamp")
    log.info("`%s`.`%s` is parked as `%s`", *name, parked[1])
    work.put(drop(name, ts, () if state is None else state.topics, 0 if state is None else state.rows))
    return True


def park_emptied(work: TimelineWork, name: TableName, mark: Mark, ts: int) -> None:
    """Park the rows of a table that a TRUNCATE at ``ts`` empties."""
    parked, state = parked_name(name, ts), work.state(name)
    there = work.mark(parked)
    if not _is_parking(work, name) and there == NO_MARK:
        return
    if state is None or state.table is None or state.is_gone or not NO_MARK < work.mark(name) < mark:
        return
    was = (*state.was, name)
    copy = msgspec.structs.replace(keep(doubt_load(state, ts)), schema=parked[0], name=parked[1], was=was, applied=ts)
    copy = msgspec.structs.replace(copy, ddl_ts=ts, mark=NO_MARK, partition_ids=(), snapshot_id=None)
    columns, sink = work.batch.columns_of(state), work.batch.sink
    if there == NO_MARK:
        work.commit(copy, mark, mark[0], lambda stamp: sink.create(parked, columns, stamp))
        failpoints.point("create")
    filled = (mark[0], mark[1] + 1)
    if work.mark(parked) < filled:
        work.commit(copy, filled, mark[0], lambda stamp: sink.take_rows(parked, columns, name, stamp, new_keys=True))
        failpoints.point("take")


def _is_parking(work: TimelineWork, name: TableName) -> bool:
    return parks(work.batch.job, name) and work.batch.resolves


def forget(state: TableState) -> TableState:
    """Record that a parked table is no longer in the target."""
    return drop(state.full_name, state.ddl_ts, state.topics)
