"""The commits of a table's full read: begin it, give it up, or load its rows. Each can be repeated."""

import logging

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.capture.snapshot.base import same_columns
from ticdc_spark.config.layout import Layout
from ticdc_spark.ddl import Comments
from ticdc_spark.model import Column, Table, TableName
from ticdc_spark.mysql import keep_hidden_columns
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.columns import compute_columns, computed_of, lose_hidden_values
from ticdc_spark.replicate.apply.look import OLD_VALUES
from ticdc_spark.replicate.apply.rename import set_aside
from ticdc_spark.replicate.state.conditions import Loading
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState, begin_load, diverge, finish_load, give_up_load
from ticdc_spark.sinks.base import ColumnChanges, Sink
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.spark.types import commented

log = logging.getLogger(__name__)
LOAD_STEP = 1_000_000_000
"""The first step of a full read at its base, after all rows and DDLs of that commit_ts."""


def begin(
    work: TimelineWork,
    name: TableName,
    table: Table,
    load: Loading,
    comments: Comments,
    *,
    lacks: bool = False,
) -> None:
    """Pause a table at the base of ``load``, with the columns of ``table``, and begin to gather rows.

    ``comments``: of the source. A table or column without one keeps that of the target. ``lacks``: the table may lack
    changes from before the base.

    Raises: DecisionNeeded when the lake's table is another job's; SinkFault
    """
    sink, base = work.batch.sink, load.base
    state = work.state(name) or TableState(schema=name[0], name=name[1])
    if work.mark(name) != NO_MARK and state.is_kept:
        set_aside(work, name)
    there = work.mark(name) != NO_MARK
    columns = commented(work.batch.columns(table), comments.columns)
    have = sink.columns(name) if there else {}
    live = {column.casefold(): (column, kind) for column, kind in have.items()}
    old = () if state.table is None else work.batch.columns(state.table)
    wanted = {column.name.casefold(): column.type.name for column in columns}
    mine = {column.name.casefold() for column in old}
    drop = [
        column
        for folded, (column, kind) in live.items()
        if (folded in wanted and wanted[folded] != kind) or (folded in {*mine, OLD_VALUES} and folded not in wanted)
    ]
    add = [
        column for column in columns if column.name.casefold() not in live or live[column.name.casefold()][0] in drop
    ]
    new = {column.name for column in add}
    told = (column for column in columns if column.comment and column.name not in new)
    stay = tuple((live[column.name.casefold()][0], column.comment) for column in told)
    changes = ColumnChanges(drop=tuple(drop), add=tuple(add), comments=stay, comment=comments.table)
    # If the read is given up, the table lacks the changes up to the base, or the values in dropped columns.
    lacks_rows = there and (state.applied < base or computed_of(work.batch, table) != state.computed)
    loses = f"a full read of it began at {base}, and was given up" if drop or lacks_rows else ""
    begun = compute_columns(work.batch, begin_load(state, table, load, loses))
    kept = zip(state.kept_columns, work.batch.kept_columns(state), strict=True)
    # A kept column whose name the source has again is now the source's column: every row is read.
    still = tuple(one for one, column in kept if column.name.casefold() not in wanted)
    begun = msgspec.structs.replace(begun, kept_columns=still)
    if lacks:
        begun = diverge(begun, base, "messages that could not be read were left out before its full read", columns=True)
    mark = next_mark(work, name, base)
    if not there:
        layout = Layout(comment=comments.table or "")
        work.commit(begun, mark, base, lambda stamp: sink.create(name, columns, stamp, layout))
    elif changes:
        work.commit(begun, mark, base, lambda stamp: sink.change_columns(name, changes, stamp))
    else:
        work.commit(begun, mark, base, lambda stamp: sink.stamp(name, stamp))
    failpoints.point("base")
    sink.begin_load(name, LoadNote(token=load.token))


def with_states(progress: Progress, work: TimelineWork, sink: Sink | None = None) -> Progress:
    """The progress with the new states of tables. ``sink``: to look up their snapshots."""
    states = progress.states()
    for name, state in work.known.items():
        if state is None or (name not in states and work.stamps.get(name) is None):
            continue
        if sink is not None and work.stamps.get(name) is not None:
            state = msgspec.structs.replace(state, snapshot_id=sink.snapshot_id(name))
        states[name] = state
    return msgspec.structs.replace(progress, tables=tuple(states.values()))


def as_known(table: Table, state: TableState | None, work: TimelineWork) -> Table:
    """The job's schema of a table if its rows look the same, else the source's with the hidden columns of TiDB that it
    has. The source fills in what the job does not know: which columns are generated, and the partitions."""
    if state is None or state.table is None or state.is_gone or work.mark(state.full_name) == NO_MARK:
        return table
    table = keep_hidden_columns(table, state.table)
    same = same_columns(work.batch.columns(state.table), work.batch.columns(table))
    return _with_generated(state.table, table) if same else table


def _with_generated(table: Table, source: Table) -> Table:
    """A table with what only the source knows about it: generated columns, partitions, the default charset."""
    by_name = {column.name: column for column in source.columns}
    columns = tuple(_as_generated(column, by_name.get(column.name, column)) for column in table.columns)
    return msgspec.structs.replace(
        table, columns=columns, partitioning=source.partitioning, charset=source.charset, collate=source.collate
    )


def _as_generated(column: Column, source: Column) -> Column:
    virtual = source.virtual if column.virtual is None else column.virtual
    return msgspec.structs.replace(column, virtual=virtual, expression=source.expression if virtual else "")


def give_up(work: TimelineWork, name: TableName) -> None:
    """Give up a table's read: the table has its former condition again. Raises: SinkFault"""
    state = work.state(name)
    assert state is not None and state.load is not None, "its read is under way"
    base, after = state.load.base, give_up_load(state)
    mark = next_mark(work, name, base)
    work.commit(after, mark, base, lambda stamp: work.batch.sink.stamp(name, stamp))


def bring_in(work: TimelineWork, name: TableName, note: LoadNote) -> None:
    """Make the gathered rows the table, which continues from the base. If they were read from the topics, its CREATE or
    TRUNCATE and its rows have made it. Raises: SinkFault"""
    state = work.state(name)
    assert state is not None and state.load is not None, "its read is under way"
    base, others = state.load.base, _other_columns(work, state)
    if others:
        why = "it was there before this job, and has columns that the source does not have"
        log.warning("`%s`.`%s` stays unverified: %s: %s", *name, why, ", ".join(others))
    after = lose_hidden_values(finish_load(state, note.rows, note.settles, in_shape=not others), None)
    mark = next_mark(work, name, base)
    work.commit(after, mark, base, lambda stamp: work.batch.sink.finish_load(name, stamp))
    failpoints.point("swap")


def _other_columns(work: TimelineWork, state: TableState) -> list[str]:
    """The columns of an adopted table that the source does not have. They stay, since anyone may have made them.

    Raises: SinkFault
    """
    if state.origin != "adopted":
        return []
    assert state.table is not None, "its read is under way"
    wanted = {column.name.casefold() for column in work.batch.columns_of(state)}
    return [name for name in work.batch.sink.columns(state.full_name) if name.casefold() not in wanted]


def next_mark(work: TimelineWork, name: TableName, base: int) -> Mark:
    """The mark of the next commit of a full read."""
    at, step = work.mark(name)
    return base, max(LOAD_STEP, step + 1 if at == base else 0)
