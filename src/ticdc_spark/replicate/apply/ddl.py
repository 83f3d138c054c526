"""Apply a DDL to the lake: each commit carries its mark, and a restart skips what its table has passed.

What a DDL changes is computed from the schema that the progress knows, not from the lake as it is, so that a restart in
the middle computes the same steps with the same marks.
"""

import logging
from typing import assert_never

import msgspec
import pyarrow as pa

from ticdc_spark import failpoints
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Table
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.names import escape
from ticdc_spark.replicate.apply.batch import NO_MARK, Batch
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
from ticdc_spark.sinks.base import ColumnChanges, TableName
from ticdc_spark.sinks.iceberg.sink import quote
from ticdc_spark.spark.types import LakeColumn, to_arrow

log = logging.getLogger(__name__)
OLD_VALUES = "_ticdc_old"
"""Column that holds the old values while a type change converts them."""


def apply_ddl(batch: Batch, ddl: Ddl) -> None:
    """Apply one DDL.

    Raises: DecisionNeeded, SinkFault
    """
    change = ddl.queued.change
    ts, act = change.commit_ts, ddl.action
    mark = ddl.mark
    if any(skip.matches(ts, change.query) for skip in batch.job.skip_ddl):
        _skip(batch, ddl)
        return
    log.info("DDL at %d: %s", ts, change.query)
    match act:
        case Create(table):
            _create(batch, table, mark)
        case Drop(names):
            for name in names:
                _drop(batch, name, mark)
        case Truncate(table):
            _truncate(batch, table, mark)
        case Alter():
            alter(batch, act, mark, ts)
        case CreateDatabase(schema):
            batch.sink.create_database(schema)
        case DropDatabase(schema):
            owned = [name for name, state in batch.states.items() if name[0] == schema and not state.dropped]
            for name in owned:
                _drop(batch, name, mark)
            batch.sink.drop_database(schema)
        case Nothing(why):
            log.info("no effect on the lake: %s", why)
        case Refused(why):
            message = f"a DDL cannot be replayed: {why}"
            raise DecisionNeeded(message)
        case _:
            assert_never(act)
    with batch.lock:
        batch.ddls += 1


def _skip(batch: Batch, ddl: Ddl) -> None:
    change = ddl.queued.change
    log.warning("skipped by skip-ddl: %s", change.query)
    for table in (change.pre_table, change.table):
        name = (table.schema, table.name) if table is not None else (change.schema, change.name)
        state = batch.states.get(name)
        if state is not None and not state.dropped:
            since = state.diverged_since or change.commit_ts
            batch.states[name] = msgspec.structs.replace(state, diverged_since=since, clean=False)


def _create(batch: Batch, table: Table, mark: Mark) -> None:
    name = (table.schema, table.name)
    now = batch.mark(name)
    before = batch.states.get(name)
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
    if now >= mark and _was_lost(batch):
        new = msgspec.structs.replace(new, clean=False)
    if now < mark:
        if now != NO_MARK and before is not None and before.kept:
            aside = (name[0], f"{name[1]}_dropped_{now[0]}")
            log.warning("`%s`.`%s` was dropped and kept; it moves to `%s`", *name, aside[1])
            batch.sink.rename(name, aside)
            batch.marks.pop(name)
        elif now != NO_MARK and not batch.job.adopt:
            message = f"CREATE TABLE `{name[0]}`.`{name[1]}` at {mark[0]}: the lake has the table already, at {now[0]}"
            raise DecisionNeeded(message)
        if batch.found(name) is None:
            batch.sink.create(name, batch.columns(table), batch.stamp(mark, mark[0]))
            batch.done(name, mark, mark[0])
            failpoints.point("ddl")
        else:
            new = msgspec.structs.replace(new, origin="adopted", clean=False)
    batch.states[name] = new


def _was_lost(batch: Batch) -> bool:
    """The state folder was lost once: what a table went through since a DDL that it has passed is not known."""
    return batch.log.generation > 1


def _drop(batch: Batch, name: TableName, mark: Mark) -> None:
    state = batch.states.get(name) or TableState(schema=name[0], name=name[1])
    if batch.job.drop_table == "keep":
        batch.states[name] = msgspec.structs.replace(state, dropped=True, kept=True, applied=mark[0])
        return
    if NO_MARK < batch.mark(name) < mark:
        batch.sink.drop(name)
        batch.marks.pop(name)
        failpoints.point("ddl")
    batch.states[name] = TableState(
        schema=name[0], name=name[1], applied=mark[0], dropped=True, topics=state.topics, rows=state.rows
    )


def _truncate(batch: Batch, table: Table, mark: Mark) -> None:
    name = (table.schema, table.name)
    state = batch.states.get(name)
    keep = batch.job.truncate_table == "keep"
    if state is None or state.table is None:
        _create_missing(batch, table, mark)
        return
    passed = batch.mark(name) >= mark
    if not passed and not keep and batch.mark(name) != NO_MARK:  # gone: see _alter
        batch.sink.truncate(name, batch.stamp(mark, mark[0]))
        batch.done(name, mark, mark[0])
        failpoints.point("ddl")
    # An empty table equals the source whatever it was before.
    batch.states[name] = msgspec.structs.replace(
        state,
        table=table,
        applied=mark[0],
        emptied=state.emptied if keep else mark[0],
        clean=not keep and not (passed and _was_lost(batch)),
        diverged_since=state.diverged_since if keep else None,
    )


def _create_missing(batch: Batch, table: Table, mark: Mark) -> None:
    """A DDL on a table that was never seen (a run from the middle, or TiCDC did not send it before)."""
    name = (table.schema, table.name)
    if batch.mark(name) == NO_MARK:
        batch.sink.create(name, batch.columns(table), batch.stamp(mark, mark[0]))
        batch.done(name, mark, mark[0])
        failpoints.point("ddl")
    state = TableState(schema=name[0], name=name[1], applied=mark[0], table=table, origin="bootstrap")
    batch.states[name] = state


def alter(batch: Batch, act: Alter, mark: Mark, commit_ts: int) -> None:
    """Bring a table to the columns of ``act.table``, and to its name. ``mark`` is that of the first commit,
    ``commit_ts`` the moment that a default like CURRENT_TIMESTAMP means.

    Raises: DecisionNeeded, SinkFault
    """
    new = (act.table.schema, act.table.name)
    ts, step = mark
    if new != act.old:
        _rename(batch, act.old, new, mark)
        step += 2
    state = batch.states.get(new)
    if state is None or state.table is None:
        _create_missing(batch, act.table, (ts, step))
        return
    if batch.mark(new) == NO_MARK:
        # A later DDL dropped it or gave it another name, before a restart: what it was is all that is left to know.
        batch.states[new] = msgspec.structs.replace(state, table=act.table, applied=ts)
        return
    old, wanted = batch.columns(state.table), batch.columns(act.table)
    renames = {escape(name): escape(other) for name, other in act.renames.items()}
    plan = evolution({column.name: column.type.spark for column in old}, wanted, renames)
    if plan.changes and batch.mark(new) < (ts, step):
        batch.sink.change_columns(new, plan.changes, batch.stamp((ts, step), ts))
        batch.done(new, (ts, step), ts)
        failpoints.point("ddl")
    for fill in plan.fills:
        step += 1
        _set(batch, new, fill.column.name, _literal(batch, fill, commit_ts), (ts, step))
    for rewrite in plan.rewrites:
        _rewrite(batch, new, rewrite, (ts, step + 1))
        step += 3
    batch.states[new] = msgspec.structs.replace(state, table=act.table, applied=ts, schema_keys=())


def _rename(batch: Batch, old: TableName, new: TableName, mark: Mark) -> None:
    """Stamp, rename, stamp: the first stamp keeps a restart from taking the renamed table for one that stood there."""
    ts, step = mark
    state = batch.states.get(old)
    done = batch.mark(new) >= mark
    if done and NO_MARK < batch.mark(old) < mark:
        # The state was lost and the old name was built again from the log; its future is under the new name already.
        batch.sink.drop(old)
        batch.marks.pop(old)
    elif not done and NO_MARK < batch.mark(old) <= mark:  # beyond it: a later table stands under the old name
        if batch.mark(old) < mark:
            batch.sink.stamp(old, batch.stamp(mark, ts))
            batch.done(old, mark, ts)
            failpoints.point("intent")
        if batch.mark(new) != NO_MARK:
            message = f"RENAME of `{old[0]}`.`{old[1]}` at {ts}: the lake has a table `{new[0]}`.`{new[1]}` already"
            raise DecisionNeeded(message)
        batch.sink.rename(old, new)
        batch.marks.pop(old)
        batch.marks.pop(new)
        failpoints.point("ddl")
    if NO_MARK < batch.mark(new) < (ts, step + 1):
        batch.sink.stamp(new, batch.stamp((ts, step + 1), ts))
        batch.done(new, (ts, step + 1), ts)
        failpoints.point("stamp")
    if state is not None and state.table is not None:
        batch.states[new] = msgspec.structs.replace(state, schema=new[0], name=new[1], applied=ts)
        batch.states[old] = TableState(schema=old[0], name=old[1], applied=ts, dropped=True, topics=state.topics)


def _set(batch: Batch, name: TableName, column: str, expression: str, mark: Mark) -> None:
    if batch.mark(name) < mark:
        batch.sink.set_column(name, column, expression, batch.stamp(mark, mark[0]))
        batch.done(name, mark, mark[0])
        failpoints.point("fill")


def _rewrite(batch: Batch, name: TableName, rewrite: Rewrite, mark: Mark) -> None:
    """Three commits: set the old column aside and add the new one, convert, drop the old one."""
    ts, step = mark
    column = rewrite.column
    aside = ColumnChanges(rename=((column.name, OLD_VALUES),), add=(column,))
    if batch.mark(name) < mark:
        batch.sink.change_columns(name, aside, batch.stamp(mark, ts))
        batch.done(name, mark, ts)
        failpoints.point("ddl")
    _set(batch, name, column.name, rewrite.expression.format(old=quote(OLD_VALUES)), (ts, step + 1))
    if batch.mark(name) < (ts, step + 2):
        batch.sink.change_columns(name, ColumnChanges(drop=(OLD_VALUES,)), batch.stamp((ts, step + 2), ts))
        batch.done(name, (ts, step + 2), ts)
        failpoints.point("ddl")


def _literal(batch: Batch, fill: Fill, ts: int) -> str:
    """SQL of the value that a new column has in rows that were there before it."""
    if fill.moment:
        return f"CAST(timestamp_millis({tso_physical_ms(ts)}) AS {fill.column.type.spark})"
    array, bad, _ = to_arrow(fill.column, batch.lake)([fill.value])
    if bad:
        message = f"the default of the new column `{fill.column.source}` cannot be read: {bad[0]}"
        raise DecisionNeeded(message)
    return _sql(array, fill.column)


def _sql(array: pa.Array, column: LakeColumn) -> str:
    value = array[0].as_py()
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if column.type.arrow in {"local", "instant"}:
        value = value.replace(tzinfo=None)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{text}' AS {column.type.spark})"
