"""Apply DDLs and rows of shards to their merged table (``config.shards``), which is never dropped."""

import logging
from collections.abc import Collection, Mapping, Sequence

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.config.shards import merged_table, plain_key, shard_of, with_plain_key
from ticdc_spark.ddl.partition_rows import Alternatives, ColumnTest
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Table, TableName
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.columns import stop_if_columns_are_gone
from ticdc_spark.replicate.apply.look import missing_columns, vanished
from ticdc_spark.replicate.apply.partitions import conditions
from ticdc_spark.replicate.plan.ddl_actions import Alter
from ticdc_spark.replicate.plan.merging import Misfit, by_key, merged_of, other_defaults, stop_if_alike, with_shard
from ticdc_spark.replicate.plan.shard_actions import Absorb, Clear
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN
from ticdc_spark.replicate.state.table import (
    TableState,
    create,
    create_by_rows,
    create_late,
    diverge,
    lose_first_rows,
    unverify,
)
from ticdc_spark.sinks.base import ColumnChanges
from ticdc_spark.sinks.mark import NO_MARK, Mark

log = logging.getLogger(__name__)


def absorbing(work: TimelineWork, act: Absorb, mark: Mark, ts: int) -> tuple[Alter, Mark] | None:
    """The ALTER of a merged table for a CREATE or ALTER of a shard; ``None``: the merged table was created instead.
    Rows of an older table of a new shard's name are removed first.

    Raises: DecisionNeeded, SinkFault, UsageError
    """
    name, (at, step) = act.name, mark
    state, now = work.state(name), work.mark(name)
    origin = compiled(work.batch.job.routes).origin(name)
    if now == NO_MARK:
        _make(work, state, act, mark, ts)
        return None
    if state is None or state.table is None:
        raise DecisionNeeded(not_adopted(name))
    shard = work.shards.get(act.shard.full_name)
    if act.is_new and now < mark and (shard is not None or not state.is_clean):
        # There may be rows of an older table of its name, such as one that was dropped and kept.
        where = conditions(work.batch, state.table, _rows_of(act.shard.full_name, origin))
        work.commit(state, mark, at, lambda stamp: work.batch.sink.delete_where(name, where, stamp))
        failpoints.point("ddl")
    before = act.before or (None if shard is None else shard.table)
    table = absorbed(state.table, origin, act.shard, None if act.is_new else before)
    inexact = () if act.is_new else other_defaults(table, shard, act.shard)
    alter = Alter(name, table, {}, act.replaced, computed=act.computed, inexact=inexact)
    if not act.is_new and shard is None and state.is_clean:
        work.put(lose_first_rows(state))
    return alter, (at, step + 1)


def absorbed(merged: Table, origin: tuple[str, ...], shard: Table, before: Table | None) -> Table:
    """The merged table with the columns of a shard added. Raises: DecisionNeeded, UsageError"""
    try:
        return with_shard(merged, origin, shard, before)
    except Misfit as why:
        raise DecisionNeeded(_does_not_fit(shard, merged.full_name, str(why))) from why


def _stop_if_alike(work: TimelineWork, merged: TableName, shard: Table, others: Sequence[TableName]) -> None:
    origin = compiled(work.batch.job.routes).origin(merged)
    try:
        stop_if_alike(origin, shard.full_name, others)
    except Misfit as why:
        raise DecisionNeeded(_does_not_fit(shard, merged, str(why))) from why


def _does_not_fit(shard: Table, merged: TableName, why: str) -> str:
    return (
        f"{shown(shard.full_name)} does not fit into {shown(merged)}: {why}. To copy it by itself, take it "
        "out of `tables` under [[route]]; or exclude it with `tables` under [job]"
    )


def not_adopted(name: TableName) -> str:
    """One sentence about a table in the target that the job did not create."""
    return (
        f"{shown(name)}: the target has such a table already, and `adopt` cannot take over a merged table. Rename or "
        "drop it"
    )


def _make(work: TimelineWork, state: TableState | None, act: Absorb, mark: Mark, ts: int) -> None:
    if state is not None and state.table is not None:
        raise DecisionNeeded(vanished(work.batch.job, act.name))
    table = merged_table(act.name, compiled(work.batch.job.routes).origin(act.name), act.shard)
    topics = () if state is None else state.topics
    made = (
        create(table, ts, topics, certain=True)
        if act.is_new
        else create_late(table, ts, topics, certain=act.certain, empty=False)
    )
    made = msgspec.structs.replace(made, emptied=0)  # rows of other shards may be older
    if act.name in work.batch.unread:
        made = unverify(made)  # there are other shards
    if state is not None and state.diverged_since is not None:
        made = diverge(made, state.diverged_since, state.diverged_why)
    columns = work.batch.columns(table)
    work.commit(made, mark, mark[0], lambda stamp: work.batch.sink.create(act.name, columns, stamp))
    failpoints.point("ddl")


def clear_shards(work: TimelineWork, act: Clear, mark: Mark, ts: int) -> None:
    """Remove the rows of shards that are dropped or emptied. Raises: DecisionNeeded, SinkFault"""
    name, now = act.name, work.mark(act.name)
    state = work.state(name)
    if state is None or state.table is None or now == NO_MARK or now >= mark:
        return
    stop_if_columns_are_gone(work, state)
    after = msgspec.structs.replace(state, applied=ts, ddl_ts=ts)
    origin, ddl = compiled(work.batch.job.routes).origin(name), work.batch.job.ddl
    key = "drop_table" if act.is_drop else "truncate_table"
    gone = [shard for shard in act.shards if getattr(ddl.of(shard), key) != "keep"]
    if len(gone) < len(act.shards):
        after = unverify(after)
    where = conditions(work.batch, state.table, tuple(one for shard in gone for one in _rows_of(shard, origin)))
    sink = work.batch.sink
    if where:
        work.commit(after, mark, mark[0], lambda stamp: sink.delete_where(name, where, stamp))
    else:
        work.commit(after, mark, mark[0], lambda stamp: sink.stamp(name, stamp))
    failpoints.point("ddl")


def _rows_of(shard: TableName, origin: tuple[str, ...]) -> Alternatives:
    """The rows of a shard in its merged table."""
    pairs = zip(origin, shard[-len(origin) :], strict=True)
    return (tuple(ColumnTest(column=column, any_of=(value,)) for column, value in pairs),)


def versions_of_shards(work: TimelineWork, name: TableName, keys: Collection[str]) -> dict[str, Table]:
    """The known schemas for rows of shards. ``keys``: the schema keys of the rows."""
    schemas, shards = work.batch.schemas, by_key(work.shards.values())
    found: dict[str, Table] = {}
    for key in keys:
        shard = shards.get(shard_of(key) or ("", ""))
        table = schemas.get((*name, key)) or schemas.get((*name, with_plain_key(key, ANY_VERSION)))
        if shard is not None and plain_key(key) == VALID_THEN:
            table = shard.table  # the range is split at its DDLs
        found |= {} if table is None else {key: table}
    return found


def prepare_merged(work: TimelineWork, state: TableState, versions: Mapping[str, Table], above: int) -> TableState:
    """Make sure that a merged table exists with the columns of rows. Raises: DecisionNeeded, SinkFault, UsageError"""
    name, sink = state.full_name, work.batch.sink
    origin = compiled(work.batch.job.routes).origin(name)
    if work.mark(name) == NO_MARK:
        if state.table is not None:
            raise DecisionNeeded(vanished(work.batch.job, name))
        try:
            table = merged_of(name, origin, versions.values())
        except Misfit as why:
            raise DecisionNeeded(_does_not_fit([*versions.values()][-1], name, str(why))) from why
        for one in versions.values():
            _stop_if_alike(work, name, one, [other.full_name for other in versions.values()])
        made, columns = create_by_rows(state, table, above, certain=True), work.batch.columns(table)
        work.commit(made, (above, 0), above, lambda stamp: sink.create(name, columns, stamp))
        failpoints.point("create")
        return work.known[name] or made
    if state.table is None:
        raise DecisionNeeded(not_adopted(name))
    stop_if_columns_are_gone(work, state)
    known = by_key(work.shards.values())
    strange = [table for key, table in versions.items() if (shard_of(key) or ("", "")) not in known]
    if strange:
        return _with_strange(work, state, strange, above)
    there = {column.name.casefold() for column in state.table.columns}
    brought = [column.name for version in versions.values() for column in version.columns]
    lacking = dict.fromkeys(one for one in brought if one.casefold() not in there)
    if not lacking or state.has_diverged:
        return state
    lost = f"rows have columns that no DDL has brought: {', '.join(lacking)}"
    log.warning("%s: %s", shown(name), lost)
    return diverge(state, above + 1, lost)


def _with_strange(work: TimelineWork, state: TableState, strange: Sequence[Table], above: int) -> TableState:
    """Prepare a merged table for rows of shards whose CREATE TABLE the job has not read: their older rows are missing.

    Raises: DecisionNeeded, SinkFault, UsageError
    """
    assert state.table is not None, "the table was created"
    name, sink, before = state.full_name, work.batch.sink, state.table
    table, origin = before, compiled(work.batch.job.routes).origin(name)
    others = [shard for shard, one in work.shards.items() if one.full_name == name]
    for one in strange:
        _stop_if_alike(work, name, one, [*others, *(other.full_name for other in strange)])
        table = absorbed(table, origin, one, None)
    if table.columns[: len(before.columns)] != before.columns:
        why = "one of its columns is wider, and no DDL says since when"
        raise DecisionNeeded(_does_not_fit(strange[-1], name, why))
    state = lose_first_rows(msgspec.structs.replace(state, table=table))
    missing = tuple(missing_columns(work.batch.columns(table), sink.columns(name)))
    if not missing:
        return state
    log.warning("%s: columns without a DDL: %s", shown(name), ", ".join(column.source for column in missing))
    at, changes = max(work.mark(name), (0, 0)), ColumnChanges(add=missing)
    work.commit(state, at, above, lambda stamp: sink.change_columns(name, changes, stamp))
    failpoints.point("columns")
    return work.known[name] or state
