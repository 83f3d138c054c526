"""Apply a DDL to the lake. Each commit has its own mark, so a restart skips the commits that a table already has.

The commits are computed from the state in the table's stamp, which only the last commit of the DDL changes. So a
restart in the middle computes the same commits with the same marks.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import assert_never

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.config.layout import Layout
from ticdc_spark.config.shards import is_merged
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.values import skip_ddl_line
from ticdc_spark.errors import DecisionNeeded, UnsupportedDdl
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.mysql import keep_hidden_columns
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.apply.alter_steps import commits_of, with_columns_before
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.apply.columns import (
    compute_columns,
    log_left_null,
    lose_hidden_values,
    stop_at_another_key,
    stop_if_columns_are_gone,
    with_computed,
)
from ticdc_spark.replicate.apply.exchange import doubt_of_exchange, exchange
from ticdc_spark.replicate.apply.exchange import is_begun as is_begun_exchange
from ticdc_spark.replicate.apply.first_rows import there_already
from ticdc_spark.replicate.apply.look import OLD_VALUES
from ticdc_spark.replicate.apply.merged import absorbing, clear_shards
from ticdc_spark.replicate.apply.newer_rows import (
    diverge_behind,
    doubt_shape,
    has_newer_rows,
    rows_until,
    with_lost_rows,
)
from ticdc_spark.replicate.apply.park import park_dropped, park_emptied
from ticdc_spark.replicate.apply.partitions import doubt_of, thin, with_partitions_of
from ticdc_spark.replicate.apply.rename import is_begun, passed_by, rename, set_aside
from ticdc_spark.replicate.plan.ddl_actions import (
    Action,
    Alter,
    Create,
    CreateDatabase,
    Drop,
    DropDatabase,
    Enter,
    Exchange,
    Leave,
    Nothing,
    Refused,
    Restore,
    Thin,
    Truncate,
    names,
)
from ticdc_spark.replicate.plan.merging import with_change
from ticdc_spark.replicate.plan.names import is_guessed, source_tables, tables_before_and_after, tables_of
from ticdc_spark.replicate.plan.parked import parked_of
from ticdc_spark.replicate.plan.policy import is_skipped, left_out_by, partition_ddl, way_to_mark
from ticdc_spark.replicate.plan.shard_actions import Absorb, Clear
from ticdc_spark.replicate.plan.timeline import DDL_STEPS, Ddl
from ticdc_spark.replicate.state.table import (
    TableState,
    adopt,
    come_back,
    create,
    create_late,
    diverge,
    doubt_load,
    drop,
    keep,
    truncate,
    truncate_older,
    unverify,
    want_load,
)
from ticdc_spark.sinks.base import ColumnChanges, Stamp
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.spark.types import commented

log = logging.getLogger(__name__)


def apply_ddl(work: TimelineWork, ddl: Ddl) -> None:
    """Apply one DDL.

    Raises: DecisionNeeded, SinkFault
    """
    change = ddl.queued.change
    _apply_ddl(work, ddl)
    if change.table is not None and is_guessed(change) and _may_be_another(work.batch, change):
        _doubt_guess(work, _name_of(change.table), change)
    work.shards = with_change(work.shards, change)


def _apply_ddl(work: TimelineWork, ddl: Ddl) -> None:
    change = ddl.queued.change
    ts, act = change.commit_ts, ddl.action
    mark = ddl.mark
    skipped = is_skipped(work.batch.job, change)
    if (skipped or isinstance(act, Enter | Leave)) and _finish_rename(work, ddl):
        return
    skipped = skipped and not (isinstance(act, Exchange) and is_begun_exchange(work, act, mark))
    doubt = _doubt_of(work, act, mark)
    if skipped or (doubt and partition_ddl(work.batch.job, change) != "stop"):
        _skip(work, ddl)
        return
    if doubt:
        skip = skip_ddl_line(ts, change.query)
        message = (
            f"a DDL cannot be replayed: {doubt}\n  SQL: {change.query}\n  at commitTs {ts}\n"
            f"  To skip exactly this one, under [job]: {skip}\n  {way_to_mark(work.batch.job, change)}"
        )
        raise UnsupportedDdl(message)
    log.info("DDL at %d: %s", ts, change.query)
    match act:
        case Refused(why):
            message = f"a DDL cannot be replayed: {why}; it is at commitTs {ts}: {change.query}"
            raise DecisionNeeded(message)
        case Nothing(why):
            log.info("no effect on the target: %s", why)
        case CreateDatabase(schema):
            work.batch.sink.create_database(schema)
        case DropDatabase(schema, shards):
            for one in shards:
                clear_shards(work, one, mark, ts)
            _drop_database(work, schema, mark, ts)
        case Absorb():
            if (alters := absorbing(work, act, mark, ts)) is not None:
                alter(work, *alters, ts)
        case Clear():
            clear_shards(work, act, mark, ts)
        case _:
            _apply_to_tables(work, act, mark, ts, change.pre_table)
    work.ddls += 1


def _may_be_another(batch: Batch, change: SchemaChange) -> bool:
    """Whether a RENAME may be of a table that the job does not know. The job knows all tables of a database if it has
    applied its CREATE DATABASE, or if it reads tables in full. It does not know tables that `tables` excludes."""
    if PROTOCOLS[batch.protocol].traits.versioned_tables:
        return False
    olds = source_tables(change)[0]
    if all(schema == change.schema for schema, _ in olds):
        return bool(batch.job.tables)
    knows_all = change.schema in batch.databases or batch.job.snapshot is not None
    wants = table_filter(batch.job.tables)
    return not (knows_all and all(wants(change.schema, table) for _, table in olds))


def _doubt_guess(work: TimelineWork, name: TableName, change: SchemaChange) -> None:
    """Mark a renamed table that may be another table than the source's."""
    state = work.state(name)
    if state is not None and not state.is_gone:
        why = f"{change.query}: it does not say in which database the table was, and the job knows one of that name"
        log.warning("`%s`.`%s`: %s", *name, why)
        work.put(diverge(state, change.commit_ts, why))


def _doubt_of(work: TimelineWork, act: Action, mark: Mark) -> str:
    """Why a DDL on partitions is not exact, which only shows when it is applied; ``""``: it is exact."""
    if isinstance(act, Exchange):
        return doubt_of_exchange(work, act, mark)
    return doubt_of(work, act, mark) if isinstance(act, Thin) else ""


def _finish_rename(work: TimelineWork, ddl: Ddl) -> bool:
    """Finish a RENAME that an interrupted batch began, whatever the job file now says about it. Returns: whether the
    DDL is such a RENAME"""
    act = ddl.action.rename if isinstance(ddl.action, Enter | Leave | Restore) else ddl.action
    if not isinstance(act, Alter) or not is_begun(work, act.old, act.table.full_name, ddl.mark):
        return False
    change = ddl.queued.change
    log.warning("finishing a RENAME that an interrupted batch began: %s", change.query)
    alter(work, act, ddl.mark, change.commit_ts, change.pre_table)
    work.ddls += 1
    return True


def _apply_to_tables(
    work: TimelineWork,
    act: Create | Drop | Truncate | Thin | Exchange | Alter | Enter | Leave | Restore,
    mark: Mark,
    ts: int,
    pre_table: Table | None,
) -> None:
    match act:
        case Create():
            _create(work, act, mark, ts)
        case Drop(gone):
            for name in gone:
                _drop(work, name, mark, ts)
        case Truncate(table, certain):
            _truncate(work, table, mark, ts, certain=certain)
        case Thin():
            thin(work, act, mark, ts)
        case Exchange():
            exchange(work, act, mark, ts)
        case Alter():
            alter(work, act, mark, ts, pre_table)
        case Restore(rename, _):
            _restore(work, rename, mark, ts, pre_table)
        case Enter(table, _):
            _enter(work, table, mark, ts)
        case Leave(name, _):
            _keep(work, name, mark, ts)
        case _:
            assert_never(act)


def _restore(work: TimelineWork, act: Alter, mark: Mark, ts: int, pre_table: Table | None) -> None:
    name = act.table.full_name
    was = work.state(act.old)
    is_lost = (was is None or was.is_gone) and work.mark(act.old) == NO_MARK and work.mark(name) < mark
    alter(work, act, mark, ts, pre_table)
    state = work.state(name)
    if is_lost and state is not None:
        why = f"it came back at {ts}, and the rows that it had before are not there"
        log.warning("`%s`.`%s`: %s", *name, why)
        work.put(diverge(state, ts, why))


def _drop_database(work: TimelineWork, schema: str, mark: Mark, ts: int) -> None:
    every = {**work.promised, **work.known}
    for name in [name for name, state in every.items() if name[0] == schema and state and not state.is_gone]:
        state = work.state(name)
        # In a mode without a resolved ts, a later table of the name may be there: its DDL was read first.
        if state is not None and state.ddl_ts <= ts and (state.applied <= ts or work.mark(name) != NO_MARK):
            _drop(work, name, mark, ts, comes_back=False)
    # Rows of a table that is new to the job were not written, since they are dropped here.
    for name in {rows.full_name for rows in work.batch.pending if rows.schema == schema and rows.min_ts <= ts}:
        if work.state(name) is None and not is_merged(name):
            _drop(work, name, mark, ts, comes_back=False)
    work.batch.sink.drop_database(schema)


def _skip(work: TimelineWork, ddl: Ddl) -> None:
    change = ddl.queued.change
    key = left_out_by(work.batch.job, change) or "partition-ddl"
    log.warning("%s skips the DDL at %d: %s", key, change.commit_ts, change.query)
    _doubt_parked(work, ddl)
    if isinstance(ddl.action, Drop | DropDatabase):
        for name in names(ddl.action, {**work.promised, **work.known}):
            if is_merged(name):
                state = work.state(name) or TableState(schema=name[0], name=name[1])
                work.put(diverge(state, change.commit_ts, f"{key} left out: {change.query}"))
            else:
                _keep(work, name, ddl.mark, change.commit_ts)
        return
    before, after = tables_before_and_after(change)
    freed = before - after  # by a RENAME: the next table of such a name is another one
    for name in sorted(tables_of(change) | set(names(ddl.action, work.promised))):
        if name in freed and work.mark(name) > ddl.mark:
            continue  # It is already the next table of this name.
        state = work.state(name) or TableState(schema=name[0], name=name[1])
        if name in after:
            state = _there_again(state)
        if OLD_VALUES in (work.batch.sink.columns(name) if work.mark(name) != NO_MARK else ()):
            _undo(work, state, ddl)
        if not state.is_dropped:
            # A later table of this name lacks what the DDL would have brought.
            why, columns = f"{key} left out: {change.query}", not _keeps_columns(ddl.action)
            if state.table is not None and change.table is not None and name == _name_of(change.table):
                known = with_partitions_of(state.table, change.table)
                state = msgspec.structs.replace(state, table=known, partition_ids=())
            if key == "partition-ddl" and partition_ddl(work.batch.job, change) == "rebuild":
                state = want_load(state)
            work.put(diverge(state, change.commit_ts, why, columns=columns))
        if name in freed:
            _keep(work, name, ddl.mark, change.commit_ts)


def _there_again(state: TableState) -> TableState:
    """The state of a name under which the source has a table again. A kept table takes its rows."""
    if state.is_dropped:
        return TableState(schema=state.schema, name=state.name, applied=state.applied, topics=state.topics)
    return come_back(state)


def _doubt_parked(work: TimelineWork, ddl: Ddl) -> None:
    """Mark the parked table if a DROP, TRUNCATE or return of its name is skipped: it is no longer the last one."""
    every = {**work.promised, **{name: state for name, state in work.known.items() if state is not None}}
    parked = parked_of(every.values())
    gone = {ddl.action.original} if isinstance(ddl.action, Restore) else tables_before_and_after(ddl.queued.change)[0]
    for name in gone if isinstance(ddl.action, Drop | Truncate | Restore) else ():
        state = parked.get(name)
        state = None if state is None else work.state(state.full_name)
        if state is not None:
            work.put(diverge(state, ddl.queued.change.commit_ts, f"left out: {ddl.queued.change.query}"))


def _name_of(table: Table) -> TableName:
    return table.schema, table.name


def _keeps_columns(act: Action) -> bool:
    return isinstance(act, Truncate | Thin | Exchange | Clear | Nothing) or (isinstance(act, Refused) and act.rows_only)


def _undo(work: TimelineWork, state: TableState, ddl: Ddl) -> None:
    """Give a column its old values back after a type change that was begun and not finished."""
    name, (at, last) = state.full_name, work.mark(state.full_name)
    if not isinstance(ddl.action, Alter) or state.table is None or at != ddl.mark[0]:
        return
    commits = commits_of(work, state, ddl.action, ddl.mark, at, None, inferred=False)
    begun = [one for one in commits.commits if one.aside and one.mark[1] <= last]
    if begun:
        column = begun[-1].aside
        back = ColumnChanges(rename=((OLD_VALUES, column),), drop=(column,))
        end = (at, ddl.mark[1] + DDL_STEPS - 1)
        work.commit(state, end, at, lambda stamp: work.batch.sink.change_columns(name, back, stamp))


def _create(work: TimelineWork, act: Create, mark: Mark, ts: int) -> None:
    table, name = act.table, act.table.full_name
    before = work.state(name)
    now = work.mark(name)
    if now >= mark:
        return  # It was created before a restart; its stamp has what happened to it since.
    if now != NO_MARK and before is not None and before.is_kept:
        set_aside(work, name)
        now = NO_MARK
    new = create(table, ts, before.topics if before else (), certain=act.certain)
    new = with_lost_rows(work, new, before)
    if now == NO_MARK:
        columns = commented(work.batch.columns(table), act.comments.columns)
        layout = Layout(comment=act.comments.table or "")
        new = compute_columns(work.batch, new)
        work.commit(new, mark, mark[0], lambda stamp: work.batch.sink.create(name, columns, stamp, layout))
        failpoints.point("ddl")
    elif work.batch.job.adopt and before is not None and before.table is None:
        adopted = msgspec.structs.replace(adopt(new, "adopted"), emptied=0)
        work.commit(adopted, mark, mark[0], lambda stamp: work.batch.sink.stamp(name, stamp))
        failpoints.point("stamp")
    else:
        raise DecisionNeeded(there_already(work.batch, before or new, ts))


def _drop(work: TimelineWork, name: TableName, mark: Mark, ts: int, *, comes_back: bool = True) -> None:
    """``comes_back``: whether the table may come back. A table of a dropped database does not."""
    if comes_back and park_dropped(work, name, mark, ts):
        return
    state = work.state(name) or TableState(schema=name[0], name=name[1])
    now = work.mark(name)
    if now >= mark:
        return  # A later table of this name.
    if work.batch.job.ddl.of(name).drop_table == "keep":
        _keep(work, name, mark, ts)
        return
    if now != NO_MARK:
        work.batch.sink.drop(name, work.batch.stamp(state, mark, mark[0]))
        work.gone(name)
        failpoints.point("ddl")
    gone = drop(name, ts, state.topics, state.rows)
    work.put(diverge_behind(gone, ts) if has_newer_rows(work, state, ts) else gone)


def _keep(work: TimelineWork, name: TableName, mark: Mark, ts: int) -> None:
    """Keep a table that the source dropped, or renamed to a name that the job does not replicate."""
    state = work.state(name) or TableState(schema=name[0], name=name[1])
    now = work.mark(name)
    if now >= mark:
        return
    if now == NO_MARK:
        work.put(drop(name, ts, state.topics, state.rows))  # An interrupted batch may have dropped it.
        return
    kept = msgspec.structs.replace(keep(doubt_load(state, ts)), applied=ts, ddl_ts=ts)
    kept = diverge_behind(kept, ts) if has_newer_rows(work, state, ts) else kept
    work.commit(kept, mark, mark[0], lambda stamp: work.batch.sink.stamp(name, stamp))
    failpoints.point("stamp")


def _enter(work: TimelineWork, table: Table, mark: Mark, ts: int) -> None:
    """Apply a RENAME from a name that the job excludes: the rows from before it were never read."""
    name = table.full_name
    before, now = work.state(name), work.mark(name)
    if now >= mark:
        return
    if now != NO_MARK and before is not None and before.is_kept:
        set_aside(work, name)
        now = NO_MARK
    if now != NO_MARK:
        there = f"the target already has a table of this name, at {now[0]}; rename or drop it"
        message = f"cannot rename a table to `{name[0]}`.`{name[1]}` at {ts}: {there}"
        raise DecisionNeeded(message)
    why = f"it came under this name by a RENAME at {ts} from one that `tables` leaves out: its older rows are missing"
    log.warning("`%s`.`%s`: %s", *name, why)
    _create_missing(work, create_late(table, ts, (), certain=True, empty=False), mark, why)


def _truncate(work: TimelineWork, table: Table, mark: Mark, ts: int, *, certain: bool) -> None:
    name = table.full_name
    keeps_rows = work.batch.job.ddl.of(name).truncate_table == "keep"
    park_emptied(work, name, mark, ts)
    state = work.state(name)
    now = work.mark(name)
    if now >= mark:
        return
    if now == NO_MARK:
        if state is None or state.table is None or state.is_gone:
            _create_missing(work, create_late(table, ts, (), certain=certain, empty=True), mark)
        else:  # gone: see alter
            work.put(msgspec.structs.replace(state, applied=ts, ddl_ts=ts))
        return
    held = state or TableState(schema=name[0], name=name[1])
    in_shape = _is_in_shape(work, held, table, certain=certain)
    # A table that lacks a column keeps its known columns: the missing one would count as dropped by another writer.
    known = table if held.table is None or (held.has_unsure_columns and in_shape) else held.table
    sink = work.batch.sink
    write: Callable[[Stamp], None]
    if keeps_rows:
        after, write = unverify(held), partial(sink.stamp, name)
    elif held.table is not None and has_newer_rows(work, held, ts):
        after = truncate_older(held, ts, in_shape=in_shape)
        write = partial(sink.delete_where, name, rows_until(work.batch, held, ts))
    else:
        after, write = truncate(held, ts, in_shape=in_shape), partial(sink.truncate, name)
    work.commit(msgspec.structs.replace(after, table=known, applied=ts, ddl_ts=ts), mark, mark[0], write)
    failpoints.point("ddl")


def _is_in_shape(work: TimelineWork, state: TableState, table: Table, *, certain: bool) -> bool:
    """Whether a table has the columns of the source. A table from before the job, or that lacks a DDL, may have others.
    ``certain``: whether ``table`` is surely the source's schema."""
    if state.origin != "adopted" and not state.has_unsure_columns:
        return True
    have = {name.casefold(): kind for name, kind in work.batch.sink.columns(state.full_name).items()}
    wanted = {column.name.casefold(): column.type.name for column in work.batch.columns(table)}
    if state.has_unsure_columns:
        return certain and have == wanted
    return have.keys() == wanted.keys()


def _create_missing(work: TimelineWork, late: TableState, mark: Mark, why: str = "") -> None:
    """Create a table at a DDL other than its CREATE, which the job never saw: it began in the middle, or TiCDC did not
    send it. ``late``: its state, from ``create_late``. ``why``: why it may differ from the source."""
    name, table, ts = late.full_name, late.table, late.applied
    assert table is not None, "it is created"
    before = work.state(name)
    state = msgspec.structs.replace(late, topics=before.topics if before else ())
    state = diverge(state, ts, why, columns=True) if why else state
    if given_up := passed_by(before, ts):
        log.warning("`%s`.`%s`: %s", *name, given_up)
        state = diverge(state, ts, given_up)
    is_emptied = late.emptied == ts
    if before is not None and before.table is None and before.diverged_since is not None and not is_emptied:
        state = diverge(state, before.diverged_since, before.diverged_why)
    columns = work.batch.columns(table)
    state = compute_columns(work.batch, state)
    work.commit(state, mark, mark[0], lambda stamp: work.batch.sink.create(name, columns, stamp))
    failpoints.point("ddl")


def alter(
    work: TimelineWork,
    act: Alter,
    mark: Mark,
    ts: int,
    pre_table: Table | None = None,
    *,
    followed: tuple[str, ...] = (),
) -> None:
    """Give a table the columns and the name of ``act.table``.

    ``mark``: of the first commit. ``ts``: the commit_ts, which is the value of a default like CURRENT_TIMESTAMP.
    ``pre_table``: the source's schema before, if known. ``followed``: if schemas of rows brought the columns, the keys
    of all that the table has then followed; else it is a DDL.

    Raises: DecisionNeeded, SinkFault, TimelineStopped
    """
    new = act.table.full_name
    at, step = mark
    stop_at_another_key(work, act.old, new, mark, pre_table)
    if new != act.old:
        rename(work, act.old, new, mark, ts)
        step += 2
    state = work.state(new)
    if work.mark(new) == NO_MARK:
        if state is None or state.table is None or state.is_dropped:
            late = create_late(act.table, ts, (), certain=act.certain, empty=False)
            _create_missing(work, msgspec.structs.replace(late, schema_keys=followed), (at, step))
        else:
            # A later DDL dropped or renamed it before a restart: only its former state is known.
            work.put(msgspec.structs.replace(state, table=act.table, applied=ts, ddl_ts=ts))
        return
    assert state is not None, "a table of the lake has a state"
    wanted = keep_hidden_columns(act.table, state.table)
    # Schemas of rows have no partitions.
    act = msgspec.structs.replace(act, table=with_partitions_of(wanted, state.table) if followed else wanted)
    if work.mark(new) >= (at, mark[1] + DDL_STEPS):
        return  # It already has this DDL and more.
    if state.ddl_ts == at and state.ddl_step >= step and state.table == act.table:
        return  # Its last commit is made: what others did to the columns since is not part of the DDL.
    if work.mark(new) < (at, step):
        stop_if_columns_are_gone(work, state)
        state = with_columns_before(work, state, act)
    found = commits_of(work, state, act, (at, step), ts, pre_table, inferred=bool(followed))
    commits, inexact = found.commits, found.inexact
    after = msgspec.structs.replace(state, table=act.table, applied=ts, ddl_ts=ts, columns_before=())
    after = msgspec.structs.replace(after, schema_keys=followed, kept_columns=found.kept)
    after, stale = with_computed(after, state, act)
    log_left_null(work.batch, state, act)
    inexact = "; ".join(filter(None, (inexact, stale)))
    if state.table is None:  # adopted
        after = unverify(after)
    if inexact:
        log.warning("`%s`.`%s`: %s", *new, inexact)
        after = diverge(after, ts, inexact)
    if (again := doubt_load(after, ts)) != after:
        log.warning("`%s`.`%s`: %s", *new, again.diverged_why)
        after = again
    after = doubt_shape(work, state, lose_hidden_values(after, state.table), ts)
    last = commits[-1].mark
    after = msgspec.structs.replace(after, ddl_step=last[1])
    for one in commits:
        if work.mark(new) < one.mark:
            # Only the last commit changes the table's state, so that a restart in the middle finds the same commits.
            work.commit(after if one.mark == last else state, one.mark, at, one.write)
            failpoints.point(one.point)
    work.put(msgspec.structs.replace(after, mark=work.mark(new)))
