"""Apply a stretch of a table's rows: read, reduce to one net change a key, write.

A key whose first event in the stretch is an insert is new, so it may be appended without looking for it, where the
table is known to equal the source (``clean``). Everything else is merged. Two commits of one stretch carry the steps
1 (appended) and 2 (merged); a stretch that was interrupted between them is merged whole, which changes nothing that is
there already.
"""

import logging
from collections.abc import Mapping, Sequence

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from ticdc_spark import failpoints
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import Table
from ticdc_spark.replicate.apply.batch import NO_MARK, Batch
from ticdc_spark.replicate.apply.direct import MOST_ROWS, apply_directly
from ticdc_spark.replicate.apply.rejects import bad_rows, sort_out_rejects, stop
from ticdc_spark.replicate.plan.timeline import ROWS_APPENDED, ROWS_MERGED
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN, effective, is_block
from ticdc_spark.replicate.schemas.registered import held_of
from ticdc_spark.replicate.state.progress import Pending, TableState
from ticdc_spark.sinks.base import ColumnChanges, TableName
from ticdc_spark.sinks.iceberg.sink import quote
from ticdc_spark.spark.decode.combine import combine
from ticdc_spark.spark.decode.log_files import LogRows
from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, SEQ, TS, UNREADABLE, read_rows, rows_ddl
from ticdc_spark.spark.tasks import chain
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
WORTH_APPENDING = 50_000
"""Inserts in a stretch with other changes from which on they are appended by a commit of their own."""
FIRST = "_ticdc_first"
"""Op of a key's first event in the stretch."""


def apply_rows(batch: Batch, name: TableName, upto: int) -> None:
    """Bring a table from where it is to ``upto``.

    Raises: RejectedMessage, Quarantined, DecisionNeeded, SinkFault
    """
    state = batch.states.get(name) or TableState(schema=name[0], name=name[1])
    mark = batch.mark(name)
    if mark >= (upto, ROWS_MERGED) and not any(_is_of(rows, name) and rows.late for rows in batch.pending):
        batch.states[name] = msgspec.structs.replace(state, applied=max(state.applied, upto))
        return
    found = batch.found(name)
    above = max(state.applied, mark[0])
    redo = found is not None and mark[1] == ROWS_APPENDED
    if redo and found is not None:
        above = max(state.applied, found.floor) if state.applied < mark[0] else mark[0]
    waiting = [rows for rows in batch.pending if _is_of(rows, name) and (rows.late or rows.max_ts > above)]
    waiting = [rows for rows in waiting if rows.min_ts <= upto]
    if not waiting:
        batch.states[name] = msgspec.structs.replace(state, applied=upto)
        return
    late = [rows for rows in waiting if rows.late]
    if late:
        above = max(state.emptied, min(above, min(rows.min_ts for rows in late) - 1))
    versions = _versions(batch, name, state, waiting, everything=bool(late))
    state = _leave_out_unknown(name, state, waiting, versions)
    if not versions:
        batch.states[name] = msgspec.structs.replace(state, applied=upto)
        return
    state = _prepare_table(batch, name, state, versions, above)
    assert state.table is not None, "the table was created"
    columns = batch.columns(state.table)
    if not any(column.key for column in columns):
        message = (
            f"`{name[0]}`.`{name[1]}` has no primary key and no unique key that is not null: its rows cannot be told "
            f"apart; leave it out with `tables` under [job]"
        )
        raise DecisionNeeded(message)
    inserts, others = sum(rows.inserts for rows in waiting), sum(rows.rows - rows.inserts for rows in waiting)
    only_inserts = not others
    # Two commits and a cache cost more than they save where there is little to append.
    worth_it = only_inserts or inserts >= max(WORTH_APPENDING, others)
    is_new = state.clean and not redo and not late
    """Whether a key that begins with an insert has no row in the lake."""
    may_append = is_new and worth_it
    with batch.sink.session() as session:
        wanted = LogRows(
            generation=batch.log.generation,
            batches=None if late else frozenset(rows.batch for rows in waiting),
            schema=name[0],
            table=name[1],
            above=above,
            upto=upto,
            kinds=("row", "late") if late else ("row",),
            keys=tuple(versions),
        )
        plan = batch.read_plan(versions, columns)
        zeros = session.sparkContext.accumulator(0)
        read = read_rows(plan, zeros)
        try:
            few = inserts + others <= MOST_ROWS
            if not few or not apply_directly(batch, session, name, wanted, read, columns, may_append=is_new):
                keys = [column.name for column in columns if column.key]
                one_a_key = combine(keys, keep_first=may_append and not only_inserts)
                typed = batch.log.map_rows(session, wanted, chain(read, one_a_key), rows_ddl(columns))
                if not plan.strict:
                    state, typed = sort_out_rejects(batch, name, state, typed)
                    may_append = may_append and state.clean
                _write(batch, name, net_changes(typed, columns), columns, (above, upto), may_append, only_inserts)
        except SinkFault as fault:
            if UNREADABLE not in str(fault):
                raise
            loosely = read_rows(msgspec.structs.replace(plan, strict=False))
            stop(batch, name, bad_rows(batch, batch.log.map_rows(session, wanted, loosely, rows_ddl(columns))), fault)
    count = sum(rows.rows for rows in waiting if rows.max_ts <= upto)
    with batch.lock:
        batch.applied_rows += count
        batch.zero_dates += zeros.value
    batch.states[name] = msgspec.structs.replace(
        state,
        applied=upto,
        rows=state.rows + count,
        clean=state.clean and not late,
    )


def net_changes(typed: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    """One row a key: its last event, with the op of its first one in ``FIRST``.

    Events are ordered by commit_ts; at one commit_ts a delete comes before the insert that follows it.
    """
    keys = [quote(column.name) for column in columns if column.key]
    order = [sf.col(TS), sf.when(sf.col(OP) == "d", 0).otherwise(1), sf.col(ORDER), sf.col(SEQ)]
    window = Window.partitionBy(*keys).orderBy(*order)
    return (
        typed.withColumn(FIRST, sf.first(OP).over(window))
        .withColumn(BAD, sf.lead(sf.lit(1)).over(window).cast("string"))
        .where(sf.col(BAD).isNull())
        .select(OP, FIRST, *(quote(column.name) for column in columns))
    )


def _write(
    batch: Batch,
    name: TableName,
    net: DataFrame,
    columns: Sequence[LakeColumn],
    stretch: tuple[int, int],
    may_append: bool,
    only_inserts: bool,
) -> None:
    floor, upto = stretch
    merged = batch.stamp((upto, ROWS_MERGED), floor)
    if not may_append:
        batch.sink.merge(name, net, columns, merged)
    elif only_inserts:
        batch.sink.append(name, net, columns, merged)
        failpoints.point("append")
    else:
        net = net.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            new = sf.col(FIRST) == "i"
            batch.sink.append(
                name, net.where(new & (sf.col(OP) != "d")), columns, batch.stamp((upto, ROWS_APPENDED), floor)
            )
            batch.done(name, (upto, ROWS_APPENDED), floor)
            failpoints.point("append")
            batch.sink.merge(name, net.where(~new), columns, merged)
        finally:
            net.unpersist()
    failpoints.point("merge")
    batch.done(name, (upto, ROWS_MERGED), floor)


def _is_of(rows: Pending, name: TableName) -> bool:
    return (rows.schema, rows.name) == name


def _versions(
    batch: Batch, name: TableName, state: TableState, waiting: Sequence[Pending], *, everything: bool
) -> dict[str, Table]:
    """The schemas that read the waiting rows, oldest first."""
    keys = {rows.schema_key for rows in waiting}
    if everything:
        keys |= {key for schema, table, key in batch.schemas if (schema, table) == name}
    found = {}
    for key in keys:
        table = batch.schemas.get((*name, key)) or batch.schemas.get((*name, ANY_VERSION))
        if is_block(key):
            table = batch.schemas.get((*name, VALID_THEN)) or batch.schemas.get((*name, ANY_VERSION))
        if effective(key) == VALID_THEN and state.table is not None:
            table = state.table  # the stretch is cut at the table's DDLs
        if table is not None and batch.registry is not None and state.table is not None:
            table = held_of(table, state.table)
        if table is not None:
            found[key] = table
    return dict(sorted(found.items(), key=lambda item: (item[1].version or 0, len(item[1].columns))))


def _leave_out_unknown(
    name: TableName, state: TableState, waiting: Sequence[Pending], versions: Mapping[str, Table]
) -> TableState:
    """Rows without a schema that are here all the same are left out by ``skip-to-known``."""
    unknown = [rows for rows in waiting if rows.schema_key not in versions]
    if not unknown:
        return state
    count, since = sum(rows.rows for rows in unknown), min(rows.min_ts for rows in unknown)
    log.warning("`%s`.`%s`: %d rows of unknown versions are left out by skip-to-known", *name, count)
    return msgspec.structs.replace(state, diverged_since=state.diverged_since or since, clean=False)


def _prepare_table(
    batch: Batch, name: TableName, state: TableState, versions: dict[str, Table], above: int
) -> TableState:
    """Make sure that the table is there with every column that the rows have."""
    newest = list(versions.values())[-1]
    mark = batch.mark(name)
    if mark == NO_MARK:
        if state.table is not None and not state.dropped:
            message = f"`{name[0]}`.`{name[1]}` was created by this job, but it is not in the lake any more"
            raise DecisionNeeded(message)
        batch.sink.create(name, batch.columns(newest), batch.stamp((above, 0), above))
        batch.done(name, (above, 0), above)
        return TableState(
            schema=name[0],
            name=name[1],
            table=newest,
            applied=above,
            diverged_since=state.diverged_since,
            topics=state.topics,
        )
    table = state.table
    if table is None:
        origin = "adopted" if mark == (0, 0) else "bootstrap"
        state = msgspec.structs.replace(state, table=newest, origin=origin, clean=False, dropped=False)
        table = newest
        have = {key.casefold() for key in batch.sink.columns(name)}
    else:
        have = {column.name.casefold() for column in batch.columns(table)}
    missing = [column for column in batch.columns(newest) if column.name.casefold() not in have]
    if missing:
        # The source's schema changed without a DDL that TiCDC sends, or before this job's first message.
        log.warning("`%s`.`%s`: columns without a DDL: %s", *name, ", ".join(column.source for column in missing))
        found = batch.stamp(max(mark, (0, 0)), above)
        batch.sink.change_columns(name, ColumnChanges(add=tuple(missing)), found)
        batch.done(name, found.mark, above)
        extra = tuple(column.column for column in missing if column.column not in table.columns)
        merged = msgspec.structs.replace(table, columns=(*table.columns, *extra))
        state = msgspec.structs.replace(state, table=merged, clean=False)
    return state
