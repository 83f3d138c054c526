"""EXCHANGE PARTITION: a partition and a table swap their rows.

It takes a gathering of rows and three commits. After a crash, only missing ones are done again:

1. The rows of the partition are gathered beside the other table.
2. They are deleted from the partitioned table: the first step of the DDL.
3. That table takes the rows of the other table, which still has them: the second step.
4. The gathered rows become the other table.

Both tables share a timeline, so nothing else changes one of them in between.
"""

import logging

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.model import TableName
from ticdc_spark.mysql import handle_key, keep_hidden_columns
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.columns import stop_if_columns_are_gone
from ticdc_spark.replicate.apply.partitions import conditions, doubt_of
from ticdc_spark.replicate.plan.ddl_actions import Exchange
from ticdc_spark.replicate.state.table import TableState, diverge, doubt_load, known_of_both
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.spark.types import Mask

log = logging.getLogger(__name__)


def exchange(work: TimelineWork, act: Exchange, mark: Mark, ts: int) -> None:
    """Exchange the rows. ``mark``: of the first commit. Raises: DecisionNeeded, SinkFault"""
    name, other = act.table.full_name, act.other
    taken, here, there = (mark[0], mark[1] + 1), work.mark(name), work.mark(other)
    one, two = work.state(name), work.state(other)
    if one is None or two is None or (_is_past(here, taken) and _is_past(there, mark)):
        _note_what_is_gone(work, act, ts)
        return
    is_open = here != NO_MARK and NO_MARK < there < mark
    if not is_open or (here >= mark and not _is_gathered(work, act, mark)):
        _give_up(work, act, mark, ts)
        return
    if here < mark:
        _gather(work, act, mark, one)
        _give_away(work, act, mark, one)
    one = work.state(name) or one
    if work.mark(name) < taken:
        after = _after(one, two, ts)
        table = keep_hidden_columns(act.table, one.table)
        after = msgspec.structs.replace(after, table=table, partition_ids=())
        columns = work.batch.columns(table)
        work.commit(
            after,
            taken,
            mark[0],
            lambda stamp: work.batch.sink.take_rows(name, columns, other, stamp, new_keys=act.validated),
        )
        failpoints.point("take")
    after = _after(two, work.state(name) or one, ts)
    work.commit(after, mark, mark[0], lambda stamp: work.batch.sink.finish_load(other, stamp))
    failpoints.point("swap")


def doubt_of_exchange(work: TimelineWork, act: Exchange, mark: Mark) -> str:
    """Why the rows of an EXCHANGE PARTITION are not known exactly; ``""``: they are, or it has begun before."""
    name, other = act.table.full_name, act.other
    if work.mark(name) >= mark or work.mark(other) >= mark:
        return ""
    if doubt := doubt_of(work, act, mark):
        return doubt
    for one in (name, other):
        state = work.state(one)
        if state is None or state.table is None or state.is_gone:
            return f"the job has no table `{one[0]}`.`{one[1]}`"
        if not handle_key(state.table):
            return f"`{one[0]}`.`{one[1]}` has no key"
        if state.has_unsure_columns:
            return f"the columns of `{one[0]}`.`{one[1]}` may differ from the source's"
    if _columns(work, name) != _columns(work, other):
        return f"`{name[0]}`.`{name[1]}` and `{other[0]}`.`{other[1]}` have different columns or masks in the target"
    if len(kept := {_where(work, one) for one in (name, other)}) > 1:
        said = " and ".join((one and repr(one)) or "all rows" for one in sorted(kept))
        return f"[[route]] where differs between `{name[0]}`.`{name[1]}` and `{other[0]}`.`{other[1]}`: {said}"
    return ""


def is_begun(work: TimelineWork, act: Exchange, mark: Mark) -> bool:
    """Whether the first step is done, while later ones may be missing."""
    name = act.table.full_name
    return work.mark(name) >= mark and NO_MARK < work.mark(act.other) < mark and _is_gathered(work, act, mark)


def _is_past(here: Mark, mark: Mark) -> bool:
    """Whether a table is past a step, or a later DDL dropped or renamed it."""
    return here == NO_MARK or here >= mark


def _columns(work: TimelineWork, name: TableName) -> dict[str, tuple[str, bool, Mask | None]]:
    state = work.state(name)
    assert state is not None and state.table is not None, "it is there"
    columns = work.batch.columns(state.table)
    return {column.name.casefold(): (column.type.name, column.key, column.mask) for column in columns}


def _where(work: TimelineWork, name: TableName) -> str:
    state = work.state(name)
    assert state is not None and state.table is not None, "it is there"
    return work.batch.where(state.table)


def _token(act: Exchange, mark: Mark) -> str:
    """Identifies the gathered rows."""
    return f"exchange {act.table.schema}.{act.table.name} {mark[0]}:{mark[1]}"


def _is_gathered(work: TimelineWork, act: Exchange, mark: Mark) -> bool:
    note = work.batch.sink.load_note(act.other)
    return note is not None and note.done and note.token == _token(act, mark)


def _gather(work: TimelineWork, act: Exchange, mark: Mark, state: TableState) -> None:
    """Gather the rows of the partition beside the other table."""
    name, other, sink = state.full_name, act.other, work.batch.sink
    two = work.state(other)
    assert state.table is not None and two is not None and two.table is not None, "both are there"
    for one in (state, two):
        stop_if_columns_are_gone(work, one)
    note = LoadNote(token=_token(act, mark))
    sink.begin_load(other, note)
    failpoints.point("base")
    where, done = conditions(work.batch, state.table, act.where), msgspec.structs.replace(note, done=True)
    sink.load_rows(other, work.batch.columns(two.table), name, where, done)
    failpoints.point("gather")


def _give_away(work: TimelineWork, act: Exchange, mark: Mark, state: TableState) -> None:
    """Delete the rows of the partition. The table's state only changes with the next commit, so that a restart between
    the two finds the same DDL."""
    name, sink = state.full_name, work.batch.sink
    assert state.table is not None, "it is there"
    where = conditions(work.batch, state.table, act.where)
    if not where:
        work.commit(state, mark, mark[0], lambda stamp: sink.stamp(name, stamp))
    elif not all(where):
        work.commit(state, mark, mark[0], lambda stamp: sink.truncate(name, stamp))
    else:
        work.commit(state, mark, mark[0], lambda stamp: sink.delete_where(name, where, stamp))
    failpoints.point("ddl")


def _after(state: TableState, other: TableState, ts: int) -> TableState:
    """The state of a table with rows of another one: no more certain than that of either. A virtual column stays
    computed only if it is in both."""
    both = known_of_both(doubt_load(state, ts), doubt_load(other, ts))
    after = msgspec.structs.replace(both, applied=ts, ddl_ts=ts)
    if state.computed == other.computed:
        return after
    shared = tuple(one for one in state.computed if one in other.computed)
    why = f"EXCHANGE PARTITION at {ts} brought rows that have values in other generated columns"
    return diverge(msgspec.structs.replace(after, computed=shared), ts, why)


def _note_what_is_gone(work: TimelineWork, act: Exchange, ts: int) -> None:
    """Record the DDL for tables that a later DDL dropped or renamed before a restart. Only their old state is known."""
    for name in (act.table.full_name, act.other):
        state = work.state(name)
        if state is not None and state.table is not None and not state.is_gone and work.mark(name) == NO_MARK:
            table = act.table if name != act.other else state.table
            work.put(msgspec.structs.replace(state, table=table, applied=ts, ddl_ts=ts, partition_ids=()))


def _give_up(work: TimelineWork, act: Exchange, mark: Mark, ts: int) -> None:
    """Mark a table that advanced without the exchange, or whose gathered rows are gone.

    A table may also have been built again from the topic, because the batch was interrupted after a DROP or RENAME of
    it. It will be dropped or renamed again. The other table already has the exchange then, and stays unchanged.
    """
    taken = (mark[0], mark[1] + 1)
    why = f"EXCHANGE PARTITION at {ts} of `{act.table.schema}`.`{act.table.name}` was not applied: its rows differ"
    for name, end in ((act.table.full_name, taken), (act.other, mark)):
        state = work.state(name)
        if state is not None and not state.is_gone and not _is_past(work.mark(name), end):
            log.warning("`%s`.`%s`: %s", *name, why)
            work.put(diverge(state, ts, why))
    _note_what_is_gone(work, act, ts)
