"""Apply a table's rows up to a commit_ts: which of them, by which schemas, into which columns.

A sink may append keys that are new by a commit of their own, before the others are merged: the steps 1 (appended) and
2 (merged). Rows that were interrupted between the two are merged whole, which changes nothing that is there already.
"""

import logging
from collections.abc import Mapping, Sequence

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Table
from ticdc_spark.replicate.apply.batch import NO_MARK, Batch, TimelineWork
from ticdc_spark.replicate.apply.rejects import apply_readable
from ticdc_spark.replicate.plan.timeline import ROWS_APPENDED, ROWS_MERGED, Rows
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN, effective, is_block
from ticdc_spark.replicate.schemas.registered import held_of
from ticdc_spark.replicate.state.progress import Pending, TableState
from ticdc_spark.sinks.base import Applied, ColumnChanges, NetChanges, TableName
from ticdc_spark.spark.decode.log_files import LogScan

log = logging.getLogger(__name__)


def apply_rows(work: TimelineWork, step: Rows) -> None:
    """Bring a table from where it is to ``step.upto``.

    Raises: RejectedMessage, Quarantined, DecisionNeeded, SinkFault
    """
    batch, name, upto = work.batch, step.table, step.upto
    state = work.states.get(name) or TableState(schema=name[0], name=name[1])
    mark = work.mark(name)
    if mark >= (upto, ROWS_MERGED) and not any(_is_of(rows, name) and rows.late for rows in batch.pending):
        work.states[name] = msgspec.structs.replace(state, applied=max(state.applied, upto))
        return
    found = work.found(name)
    above = max(state.applied, mark[0])
    redo = found is not None and mark[1] == ROWS_APPENDED
    if redo and found is not None:
        above = max(state.applied, found.floor) if state.applied < mark[0] else mark[0]
    waiting = [rows for rows in batch.pending if _is_of(rows, name) and (rows.late or rows.max_ts > above)]
    waiting = [rows for rows in waiting if rows.min_ts <= upto]
    if not waiting:
        work.states[name] = msgspec.structs.replace(state, applied=upto)
        return
    late = [rows for rows in waiting if rows.late]
    if late:
        above = max(state.emptied, min(above, min(rows.min_ts for rows in late) - 1))
    versions = _versions(batch, name, state, waiting, everything=bool(late))
    state = _leave_out_unknown(name, state, waiting, versions)
    if not versions:
        work.states[name] = msgspec.structs.replace(state, applied=upto)
        return
    state = _prepare_table(work, name, state, versions, above)
    assert state.table is not None, "the table was created"
    columns = batch.columns(state.table)
    if not any(column.key for column in columns):
        message = (
            f"`{name[0]}`.`{name[1]}` has no primary key and no unique key that is not null: its rows cannot be told "
            f"apart; leave it out with `tables` under [job]"
        )
        raise DecisionNeeded(message)
    is_new = state.clean and not redo and not late
    """Whether a key that begins with an insert has no row in the lake."""
    scan = LogScan(
        generation=batch.generation,
        batches=None if late else frozenset(rows.batch for rows in waiting),
        schema=name[0],
        table=name[1],
        above=above,
        upto=upto,
        kinds=("row", "late") if late else ("row",),
        keys=tuple(versions),
    )
    changes = NetChanges(
        table=name,
        scan=scan,
        plan=batch.read_plan(versions, columns),
        stamp=batch.stamp((upto, ROWS_MERGED), above),
        appended=batch.stamp((upto, ROWS_APPENDED), above),
        new_keys=is_new,
        inserts=sum(rows.inserts for rows in waiting),
        others=sum(rows.rows - rows.inserts for rows in waiting),
    )

    def commit(now: TableState, leave_out: bool) -> Applied:
        readable = msgspec.structs.replace(
            changes, leave_out_unreadable=leave_out, new_keys=changes.new_keys and now.clean
        )
        return batch.sink.apply_net_changes(readable)

    state = apply_readable(work, name, state, scan, changes.plan, commit)
    failpoints.point("merge")
    work.done(name, (upto, ROWS_MERGED), above)
    count = sum(rows.rows for rows in waiting if rows.max_ts <= upto)
    work.applied_rows += count
    work.states[name] = msgspec.structs.replace(
        state,
        applied=upto,
        rows=state.rows + count,
        clean=state.clean and not late,
    )


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
    work: TimelineWork, name: TableName, state: TableState, versions: dict[str, Table], above: int
) -> TableState:
    """Make sure that the table is there with every column that the rows have."""
    batch, newest = work.batch, list(versions.values())[-1]
    mark = work.mark(name)
    if mark == NO_MARK:
        if state.table is not None and not state.dropped:
            message = f"`{name[0]}`.`{name[1]}` was created by this job, but it is not in the lake any more"
            raise DecisionNeeded(message)
        batch.sink.create(name, batch.columns(newest), batch.stamp((above, 0), above))
        work.done(name, (above, 0), above)
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
        work.done(name, found.mark, above)
        extra = tuple(column.column for column in missing if column.column not in table.columns)
        merged = msgspec.structs.replace(table, columns=(*table.columns, *extra))
        state = msgspec.structs.replace(state, table=merged, clean=False)
    return state
