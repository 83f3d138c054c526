"""Apply a DDL to the lake: each commit carries its mark, and a restart skips what its table has passed.

What a DDL changes is computed from the schema that the progress knows, not from the lake as it is, so that a restart in
the middle computes the same steps with the same marks.
"""

import logging
from datetime import UTC, datetime
from typing import assert_never

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Table
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.names import escape
from ticdc_spark.replicate.apply.batch import NO_MARK, TimelineWork
from ticdc_spark.replicate.plan.evolve import (
    Alter,
    Create,
    CreateDatabase,
    Drop,
    DropDatabase,
    Fill,
    Nothing,
    Refused,
    Rewrite,
    Truncate,
    evolution,
)
from ticdc_spark.replicate.plan.timeline import Ddl
from ticdc_spark.replicate.state.progress import Mark, TableState
from ticdc_spark.sinks import base as sink_base
from ticdc_spark.sinks.base import ColumnChanges, ColumnConversion, TableName
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
OLD_VALUES = "_ticdc_old"
"""Column that holds the old values while a type change converts them."""


def apply_ddl(work: TimelineWork, ddl: Ddl) -> None:
    """Apply one DDL.

    Raises: DecisionNeeded, SinkFault
    """
    change = ddl.queued.change
    ts, act = change.commit_ts, ddl.action
    mark = ddl.mark
    if any(skip.matches(ts, change.query) for skip in work.batch.job.skip_ddl):
        _skip(work, ddl)
        return
    log.info("DDL at %d: %s", ts, change.query)
    match act:
        case Create(table):
            _create(work, table, mark)
        case Drop(names):
            for name in names:
                _drop(work, name, mark)
        case Truncate(table):
            _truncate(work, table, mark)
        case Alter():
            alter(work, act, mark, ts)
        case CreateDatabase(schema):
            work.batch.sink.create_database(schema)
        case DropDatabase(schema):
            owned = [name for name, state in work.states.items() if name[0] == schema and not state.dropped]
            for name in owned:
                _drop(work, name, mark)
            work.batch.sink.drop_database(schema)
        case Nothing(why):
            log.info("no effect on the lake: %s", why)
        case Refused(why):
            message = f"a DDL cannot be replayed: {why}"
            raise DecisionNeeded(message)
        case _:
            assert_never(act)
    work.ddls += 1


def _skip(work: TimelineWork, ddl: Ddl) -> None:
    change = ddl.queued.change
    log.warning("skipped by skip-ddl: %s", change.query)
    for table in (change.pre_table, change.table):
        name = (table.schema, table.name) if table is not None else (change.schema, change.name)
        state = work.states.get(name)
        if state is not None and not state.dropped:
            since = state.diverged_since or change.commit_ts
            work.states[name] = msgspec.structs.replace(state, diverged_since=since, clean=False)


def _create(work: TimelineWork, table: Table, mark: Mark) -> None:
    name = (table.schema, table.name)
    now = work.mark(name)
    before = work.states.get(name)
    topics = before.topics if before else ()
    new = TableState(
        schema=name[0],
        name=name[1],
        applied=mark[0],
        emptied=mark[0],
        table=table,
        origin="create",
        clean=True,
        topics=topics,
    )
    if now >= mark and _was_lost(work):
        new = msgspec.structs.replace(new, clean=False)
    if now < mark:
        if now != NO_MARK and before is not None and before.kept:
            aside = (name[0], f"{name[1]}_dropped_{now[0]}")
            log.warning("`%s`.`%s` was dropped and kept; it moves to `%s`", *name, aside[1])
            work.batch.sink.rename(name, aside)
            work.marks.pop(name)
        elif now != NO_MARK and not work.batch.job.adopt:
            message = f"CREATE TABLE `{name[0]}`.`{name[1]}` at {mark[0]}: the lake has the table already, at {now[0]}"
            raise DecisionNeeded(message)
        if work.found(name) is None:
            work.batch.sink.create(name, work.batch.columns(table), work.batch.stamp(mark, mark[0]))
            work.done(name, mark, mark[0])
            failpoints.point("ddl")
        else:
            new = msgspec.structs.replace(new, origin="adopted", clean=False)
    work.states[name] = new


def _was_lost(work: TimelineWork) -> bool:
    """The state folder was lost once: what a table went through since a DDL that it has passed is not known."""
    return work.batch.generation > 1


def _drop(work: TimelineWork, name: TableName, mark: Mark) -> None:
    state = work.states.get(name) or TableState(schema=name[0], name=name[1])
    if work.batch.job.drop_table == "keep":
        work.states[name] = msgspec.structs.replace(state, dropped=True, kept=True, applied=mark[0])
        return
    if NO_MARK < work.mark(name) < mark:
        work.batch.sink.drop(name)
        work.marks.pop(name)
        failpoints.point("ddl")
    work.states[name] = TableState(
        schema=name[0], name=name[1], applied=mark[0], dropped=True, topics=state.topics, rows=state.rows
    )


def _truncate(work: TimelineWork, table: Table, mark: Mark) -> None:
    name = (table.schema, table.name)
    state = work.states.get(name)
    keep = work.batch.job.truncate_table == "keep"
    if state is None or state.table is None:
        _create_missing(work, table, mark)
        return
    passed = work.mark(name) >= mark
    if not passed and not keep and work.mark(name) != NO_MARK:  # gone: see _alter
        work.batch.sink.truncate(name, work.batch.stamp(mark, mark[0]))
        work.done(name, mark, mark[0])
        failpoints.point("ddl")
    # An empty table equals the source whatever it was before.
    work.states[name] = msgspec.structs.replace(
        state,
        table=table,
        applied=mark[0],
        emptied=state.emptied if keep else mark[0],
        clean=not keep and not (passed and _was_lost(work)),
        diverged_since=state.diverged_since if keep else None,
    )


def _create_missing(work: TimelineWork, table: Table, mark: Mark) -> None:
    """A DDL on a table that was never seen (a run from the middle, or TiCDC did not send it before)."""
    name = (table.schema, table.name)
    if work.mark(name) == NO_MARK:
        work.batch.sink.create(name, work.batch.columns(table), work.batch.stamp(mark, mark[0]))
        work.done(name, mark, mark[0])
        failpoints.point("ddl")
    state = TableState(schema=name[0], name=name[1], applied=mark[0], table=table, origin="bootstrap")
    work.states[name] = state


def alter(work: TimelineWork, act: Alter, mark: Mark, commit_ts: int) -> None:
    """Bring a table to the columns of ``act.table``, and to its name. ``mark`` is that of the first commit,
    ``commit_ts`` the moment that a default like CURRENT_TIMESTAMP means.

    Raises: DecisionNeeded, SinkFault
    """
    new = (act.table.schema, act.table.name)
    ts, step = mark
    if new != act.old:
        _rename(work, act.old, new, mark)
        step += 2
    state = work.states.get(new)
    if state is None or state.table is None:
        _create_missing(work, act.table, (ts, step))
        return
    if work.mark(new) == NO_MARK:
        # A later DDL dropped it or gave it another name, before a restart: what it was is all that is left to know.
        work.states[new] = msgspec.structs.replace(state, table=act.table, applied=ts)
        return
    old, wanted = work.batch.columns(state.table), work.batch.columns(act.table)
    renames = {escape(name): escape(other) for name, other in act.renames.items()}
    plan = evolution({column.name: column.type.spark for column in old}, wanted, renames)
    if plan.changes and work.mark(new) < (ts, step):
        work.batch.sink.change_columns(new, plan.changes, work.batch.stamp((ts, step), ts))
        work.done(new, (ts, step), ts)
        failpoints.point("ddl")
    for fill in plan.fills:
        step += 1
        _fill(work, new, fill, commit_ts, (ts, step))
    for rewrite in plan.rewrites:
        _rewrite(work, new, rewrite, (ts, step + 1))
        step += 3
    work.states[new] = msgspec.structs.replace(state, table=act.table, applied=ts, schema_keys=())


def _rename(work: TimelineWork, old: TableName, new: TableName, mark: Mark) -> None:
    """Stamp, rename, stamp: the first stamp keeps a restart from taking the renamed table for one that stood there."""
    ts, step = mark
    state = work.states.get(old)
    done = work.mark(new) >= mark
    if done and NO_MARK < work.mark(old) < mark:
        # The state was lost and the old name was built again from the log; its future is under the new name already.
        work.batch.sink.drop(old)
        work.marks.pop(old)
    elif not done and NO_MARK < work.mark(old) <= mark:  # beyond it: a later table stands under the old name
        if work.mark(old) < mark:
            work.batch.sink.stamp(old, work.batch.stamp(mark, ts))
            work.done(old, mark, ts)
            failpoints.point("intent")
        if work.mark(new) != NO_MARK:
            message = f"RENAME of `{old[0]}`.`{old[1]}` at {ts}: the lake has a table `{new[0]}`.`{new[1]}` already"
            raise DecisionNeeded(message)
        work.batch.sink.rename(old, new)
        work.marks.pop(old)
        work.marks.pop(new)
        failpoints.point("ddl")
    if NO_MARK < work.mark(new) < (ts, step + 1):
        work.batch.sink.stamp(new, work.batch.stamp((ts, step + 1), ts))
        work.done(new, (ts, step + 1), ts)
        failpoints.point("stamp")
    if state is not None and state.table is not None:
        work.states[new] = msgspec.structs.replace(state, schema=new[0], name=new[1], applied=ts)
        work.states[old] = TableState(schema=old[0], name=old[1], applied=ts, dropped=True, topics=state.topics)


def _fill(work: TimelineWork, name: TableName, fill: Fill, commit_ts: int, mark: Mark) -> None:
    """Give the rows that are there the value of a new column."""
    if work.mark(name) < mark:
        value = _moment(fill.column, commit_ts) if fill.moment else fill.value
        constant = sink_base.Fill(value, work.batch.lake)
        work.batch.sink.fill_column(name, fill.column, constant, work.batch.stamp(mark, mark[0]))
        work.done(name, mark, mark[0])
        failpoints.point("fill")


def _moment(column: LakeColumn, commit_ts: int) -> str:
    """The moment of a DDL, as a canonical value of a column."""
    at = datetime.fromtimestamp(tso_physical_ms(commit_ts) / 1000, UTC)
    return at.strftime("%Y-%m-%d" if column.type.arrow == "date" else "%Y-%m-%d %H:%M:%S.%f")


def _rewrite(work: TimelineWork, name: TableName, rewrite: Rewrite, mark: Mark) -> None:
    """Three commits: set the old column aside and add the new one, convert, drop the old one."""
    ts, step = mark
    column = rewrite.column
    aside = ColumnChanges(rename=((column.name, OLD_VALUES),), add=(column,))
    if work.mark(name) < mark:
        work.batch.sink.change_columns(name, aside, work.batch.stamp(mark, ts))
        work.done(name, mark, ts)
        failpoints.point("ddl")
    if work.mark(name) < (ts, step + 1):
        conversion = ColumnConversion(rewrite.expression)
        work.batch.sink.convert_column(name, OLD_VALUES, column, conversion, work.batch.stamp((ts, step + 1), ts))
        work.done(name, (ts, step + 1), ts)
        failpoints.point("fill")
    if work.mark(name) < (ts, step + 2):
        work.batch.sink.change_columns(name, ColumnChanges(drop=(OLD_VALUES,)), work.batch.stamp((ts, step + 2), ts))
        work.done(name, (ts, step + 2), ts)
        failpoints.point("ddl")
