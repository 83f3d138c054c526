"""Apply a stretch of a table's rows in arrival mode: what came in a batch, each key's newest change.

No watermark says that nothing older is to come, so each row of the lake keeps its commit_ts in a hidden column, and an
older change never wins over a newer one. Of a key that was deleted the change log tells when, as far back as
``log-retention``. Deletes that hide their commit_ts (Avro) follow the order of their partition. Every commit carries
the batch's position for its mark, in place of a commit_ts.
"""

import logging
from collections.abc import Sequence

import msgspec
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from ticdc_spark import failpoints
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import Table
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.apply.batch import COMMIT_TS, NO_MARK, Batch
from ticdc_spark.replicate.apply.ddl import alter
from ticdc_spark.replicate.apply.rejects import bad_rows, sort_out_rejects, stop
from ticdc_spark.replicate.plan.evolve import Alter
from ticdc_spark.replicate.plan.timeline import DDL_STEPS, Rows
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN
from ticdc_spark.replicate.schemas.inferred import follow
from ticdc_spark.replicate.schemas.registered import held_of
from ticdc_spark.replicate.state.progress import Mark, TableState
from ticdc_spark.sinks.base import ALWAYS, TIES, TableName
from ticdc_spark.sinks.iceberg.sink import quote
from ticdc_spark.spark.decode.log_files import LogRows
from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, SEQ, TS, UNREADABLE, ReadPlan, read_rows, rows_ddl
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
_LOGICAL = (1 << 18) - 1
"""Bits of a TSO below its milliseconds: 0 in what is no TSO but a time."""
_NUMBER, _GONE = "_ticdc_number", "_ticdc_gone"


def apply_arrived(batch: Batch, step: Rows, mark: Mark) -> None:
    """Apply the rows of one table with ``step.above < commit_ts <= step.upto``.

    Raises: RejectedMessage, Quarantined, DecisionNeeded, SinkFault
    """
    name = step.table
    state = batch.states.get(name) or TableState(schema=name[0], name=name[1])
    waiting = [
        rows
        for rows in batch.pending
        if (rows.schema, rows.name) == name and rows.min_ts <= step.upto and rows.max_ts > step.above
    ]
    if not waiting:
        return
    keys = tuple(sorted({rows.schema_key for rows in waiting}))
    target, followed = _target(batch, state, keys)
    if target is None:
        log.warning("`%s`.`%s`: deletes of a table that has had no row; there is nothing to delete", *name)
        return
    state = _prepared(batch, name, state, target, mark)
    columns = batch.columns(target)
    data = tuple(column for column in columns if column.name != COMMIT_TS)
    if not any(column.key for column in data):
        message = (
            f"`{name[0]}`.`{name[1]}` has no primary key and no unique key that is not null: its rows cannot be told "
            f"apart; leave it out with `tables` under [job]"
        )
        raise DecisionNeeded(message)
    newest = max(min(rows.max_ts, step.upto) for rows in waiting)
    if batch.mark(name) < mark:
        plan = batch.read_plan({key: _version(batch, name, key, target, followed) for key in keys}, data)
        wanted = LogRows(
            generation=batch.log.generation,
            batches=frozenset(rows.batch for rows in waiting),
            schema=name[0],
            table=name[1],
            above=max(step.above, min(rows.min_ts for rows in waiting) - 1),
            upto=step.upto,
            keys=keys,
        )
        hidden = PROTOCOLS[batch.protocol].traits.hidden_deletes
        every = None if hidden else batch.read_plan(_every_version(batch, name, target), data)
        state = _write(batch, state, plan, wanted, columns, every, mark)
        failpoints.point("merge")
        batch.done(name, mark, batch.position)
    count = sum(rows.rows for rows in waiting if rows.max_ts <= step.upto)
    with batch.lock:
        batch.applied_rows += count
    batch.states[name] = msgspec.structs.replace(
        state,
        applied=max(batch.commit_ts_of(state), newest),
        rows=state.rows + count,
        schema_keys=followed,
        clean=False,
    )


def _target(batch: Batch, state: TableState, keys: Sequence[str]) -> tuple[Table | None, tuple[str, ...]]:
    """The table that holds what is there and what comes; and the schemas without DDL that it has followed then."""
    name = (state.schema, state.name)
    table, followed = state.table, state.schema_keys
    if batch.registry is None:
        table = table or batch.schemas.get((*name, ANY_VERSION)) or batch.schemas.get((*name, VALID_THEN))
        if table is not None and not followed:
            return table, followed  # told by DDL, a file or the upstream: blocks have nothing to add
    new_keys = [key for key in keys if key not in followed and (*name, key) in batch.schemas]
    for key in sorted(new_keys, key=lambda key: batch.schemas[*name, key].version or int(key)):
        new = batch.schemas[*name, key]
        if table is None or batch.registry is not None or (new.version or 0) >= (table.version or 0):
            # an older block is of a partition that is behind
            table = new if table is None else follow(table, new, batch.job.schema_change)
        followed = (*followed, key)
    return table, followed


def _version(batch: Batch, name: TableName, key: str, target: Table, followed: Sequence[str] = ()) -> Table:
    """What rows with a schema key hold of the table: a column that came later has its default there."""
    known = batch.schemas.get((*name, key)) if batch.registry is not None or followed else None
    return target if known is None else held_of(known, target)


def _prepared(batch: Batch, name: TableName, state: TableState, target: Table, mark: Mark) -> TableState:
    """Create the table, or give it the columns that it lacks, with marks before that of the rows."""
    if batch.mark(name) == NO_MARK and state.table is not None and not state.dropped:
        message = f"`{name[0]}`.`{name[1]}` was created by this job, but it is not in the lake any more"
        raise DecisionNeeded(message)
    if state.table == target:
        return state
    if state.table is not None:
        log.warning("`%s`.`%s`: columns without a DDL, by a new schema", *name)
    newest = max((rows.max_ts for rows in batch.pending if (rows.schema, rows.name) == name), default=0)
    alter(batch, Alter(name, target, {}), (mark[0], mark[1] - DDL_STEPS // 2), newest)
    if COMMIT_TS not in batch.sink.columns(name):
        message = (
            f"the lake's `{name[0]}`.`{name[1]}` has no column `{COMMIT_TS}`, by which older changes are told from "
            f"newer ones where there are no watermarks; it cannot be adopted"
        )
        raise DecisionNeeded(message)
    return msgspec.structs.replace(batch.states[name], topics=state.topics, rows=state.rows)


def _every_version(batch: Batch, name: TableName, target: Table) -> dict[str, Table]:
    """By schema key, what rows of the table that the log has may hold."""
    if batch.registry is None:
        return {VALID_THEN: target}
    return {key: _version(batch, name, key, target) for *known, key in batch.schemas if tuple(known) == name}


def _write(
    batch: Batch,
    state: TableState,
    plan: ReadPlan,
    wanted: LogRows,
    columns: Sequence[LakeColumn],
    every: ReadPlan | None,
    mark: Mark,
) -> TableState:
    """``every``: how older rows of the log are read, for what they deleted and when, if they tell it."""
    name = (wanted.schema, wanted.table)
    with batch.sink.session() as session:
        zeros = session.sparkContext.accumulator(0)
        try:
            typed = batch.log.map_rows(session, wanted, read_rows(plan, zeros), rows_ddl(plan.columns))
            if not plan.strict:
                state, typed = sort_out_rejects(batch, name, state, typed)
            net = newest_changes(typed, plan.columns)
            if every is not None and wanted.above < batch.commit_ts_of(state):
                net = _not_deleted_since(net, _deletes(batch, session, wanted, every), plan.columns)
            batch.sink.merge_newest(name, net.withColumnRenamed(TS, COMMIT_TS), columns, batch.stamp(mark, mark[0]))
        except SinkFault as fault:
            if UNREADABLE not in str(fault):
                raise
            loosely = read_rows(msgspec.structs.replace(plan, strict=False))
            stop(
                batch,
                name,
                bad_rows(batch, batch.log.map_rows(session, wanted, loosely, rows_ddl(plan.columns))),
                fault,
            )
    with batch.lock:
        batch.zero_dates += zeros.value
    return state


def newest_changes(typed: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    """One row a key: its newest change, with its commit_ts in ``TS``, and whether it wins over a row of the lake with
    the same one (``TIES``), or with any (``ALWAYS``).

    At one commit_ts a delete comes before the insert that follows it, else offsets tell; they alone do within a
    millisecond, where that is all that is known. A delete without commit_ts has that of what it follows.
    """
    keys = [quote(column.name) for column in columns if column.key]
    hidden = (sf.col(OP) == "d") & (sf.col(TS) == 0)
    before = Window.partitionBy(*keys).orderBy(ORDER, SEQ).rowsBetween(Window.unboundedPreceding, 0)
    exact = sf.col(TS).bitwiseAND(_LOGICAL) != 0
    first = (sf.col(OP) == "d") & exact & ~sf.col(ALWAYS)
    order = [sf.col(TS), sf.when(first, 0).otherwise(1), sf.col(ORDER), sf.col(SEQ)]
    last = Window.partitionBy(*keys).orderBy(*(column.desc() for column in order))
    return (
        typed.withColumn(ALWAYS, hidden)
        .withColumn(TS, sf.when(hidden, sf.max(TS).over(before)).otherwise(sf.col(TS)))
        .withColumn(TIES, ~first)
        .withColumn(_NUMBER, sf.row_number().over(last))
        .where(sf.col(_NUMBER) == 1)
        .withColumn(ALWAYS, sf.col(ALWAYS) & (sf.col(TS) == 0))
        .select(OP, TS, TIES, ALWAYS, *(quote(column.name) for column in columns))
    )


def _deletes(batch: Batch, session: SparkSession, wanted: LogRows, plan: ReadPlan) -> DataFrame:
    """Of keys that were deleted, by messages that the log still has: the commit_ts of the last delete in ``_GONE``."""
    every = msgspec.structs.replace(wanted, batches=None)
    raw = batch.log.rows(session, every).where(sf.col("op").isin("delete", "update"))
    if batch.registry is None:  # keys are read by the table as it is now, whatever rows were made of
        raw = raw.withColumn("schema_key", sf.lit(VALID_THEN))
    raw = raw.where(sf.col("schema_key").isin(*plan.tables))
    loosely = read_rows(msgspec.structs.replace(plan, strict=False))
    keys = [quote(column.name) for column in plan.columns if column.key]
    typed = raw.mapInArrow(loosely, rows_ddl(plan.columns)).where((sf.col(OP) == "d") & sf.col(BAD).isNull())
    return typed.groupBy(*keys).agg(sf.max(TS).alias(_GONE))


def _not_deleted_since(net: DataFrame, deletes: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    keys = [column.name for column in columns if column.key]
    joined = net.join(deletes, keys, "left")
    return joined.where(sf.col(_GONE).isNull() | (sf.col(TS) >= sf.col(_GONE))).select(*net.columns)


__all__ = ["apply_arrived", "newest_changes"]
