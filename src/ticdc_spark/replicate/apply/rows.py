"""Apply a table's rows up to a commit_ts: choose the rows, their schemas and their columns.

A sink may append new keys in one commit, and merge the other rows in a second one: steps 1 (appended) and 2 (merged).
After an interruption between the two, all rows are merged, which does not change rows that are already there.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.changes.ranges import RowScan
from ticdc_spark.changes.typed import Counts, TypedChanges
from ticdc_spark.config.histories import histories
from ticdc_spark.config.shards import is_merged
from ticdc_spark.errors import DecisionNeeded, SourceChanged
from ticdc_spark.model import Column, Table, TableName
from ticdc_spark.mysql import HIDDEN_NAMES, handle_key
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.apply.columns import (
    compute_columns,
    expected_columns,
    forget_kept_columns,
    merge_with_hidden_columns,
    stop_if_columns_are_gone,
)
from ticdc_spark.replicate.apply.keyless import (
    counted_again,
    doubt,
    is_counted,
    leave_out_late,
    leave_out_rows,
    tries_of,
)
from ticdc_spark.replicate.apply.look import missing_columns, rebuild_line, vanished
from ticdc_spark.replicate.apply.merged import prepare_merged, versions_of_shards
from ticdc_spark.replicate.apply.partitions import partitions_to_check
from ticdc_spark.replicate.apply.rejects import TimelineStopped, apply_readable, lacks
from ticdc_spark.replicate.plan.timeline import Rows
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN
from ticdc_spark.replicate.schemas.registered import restrict_columns
from ticdc_spark.replicate.state.progress import PendingRows
from ticdc_spark.replicate.state.table import (
    TableState,
    adopt,
    come_back,
    create_by_rows,
    diverge,
    doubt_partitions,
    unverify,
)
from ticdc_spark.sinks.base import ColumnChanges, Stamp
from ticdc_spark.sinks.mark import NO_MARK, ROWS_APPENDED, ROWS_MERGED, Mark
from ticdc_spark.spark.tasks import Misplaced

log = logging.getLogger(__name__)


def apply_rows(work: TimelineWork, step: Rows) -> None:
    """Apply a table's rows from where it is to ``step.upto``.

    Raises: RejectedMessage, TimelineStopped, DecisionNeeded, SinkFault
    """
    batch, name, upto = work.batch, step.table, step.upto
    state = work.state(name) or TableState(schema=name[0], name=name[1])
    stamp, mark = work.stamp_of(name), work.mark(name)
    taken = _late_rows_taken(work, name, upto)
    state, late = _late_rows_to_take(work, state, taken, upto)
    if mark >= (upto, ROWS_MERGED) and not late:
        work.put(msgspec.structs.replace(state, applied=max(state.applied, upto)))
        work.count(name, upto, None)
        return
    redo = stamp is not None and mark[1] == ROWS_APPENDED
    above = stamp.applied_before if redo and stamp is not None else max(state.applied, mark[0])
    waiting = [rows for rows in batch.pending if _is_of(rows, name) and not rows.late and rows.max_ts > above]
    waiting = [rows for rows in (*waiting, *late) if rows.min_ts <= upto]
    if is_counted(work, state):
        state, waiting = _without_late(work, counted_again(state), waiting, upto)
    if not waiting:
        work.put(msgspec.structs.replace(state, applied=max(state.applied, upto)))
        return
    late = [rows for rows in waiting if rows.late]
    if late:
        work.late_done[name] = upto
        # Rows that a DROP or a RENAME took away do not come back under the old name.
        gone = state.ddl_ts if mark == NO_MARK and state.is_gone else 0
        above = max(state.emptied, gone, min(above, max(taken or 0, min(rows.min_ts for rows in late) - 1)))
    scan = batch.rows_since(state, above, upto) if late else batch.waiting(name, waiting, above, upto)
    if _gets_nothing(batch, state, mark, scan):
        work.put(msgspec.structs.replace(state, applied=max(state.applied, upto)))
        return
    versions = _versions(work, name, state, waiting, everything=bool(late))
    state = _leave_out_unknown(name, state, _unknown(batch, scan, waiting, versions), above)
    if _may_be_of_two(state, versions):
        # A group of rows may be of two tables, if the second one got the name of the first.
        with_keys = {key: msgspec.structs.replace(scan, keys=(key,)) for key in versions}
        versions = {key: one for key, one in versions.items() if batch.rows.has_rows(with_keys[key])}
    if not versions:
        work.put(msgspec.structs.replace(state, applied=max(state.applied, upto)))
        return
    scan = msgspec.structs.replace(scan, keys=tuple(versions))
    if is_merged(name):
        state = prepare_merged(work, state, versions, above)
    else:
        state = _with_columns_of_rows(_prepare_table(work, name, state, versions, above), versions, above)
    assert state.table is not None, "the table was created"
    if not (handle_key(state.table) or is_counted(work, state)):
        state = leave_out_rows(work, state, max(above + 1, min(rows.min_ts for rows in waiting)))
        work.put(msgspec.structs.replace(state, applied=max(state.applied, upto)))
        return
    group = _Group(waiting=waiting, scan=scan, versions=versions, is_redo=redo)
    try:
        applied = merge_with_hidden_columns(work, state, above, lambda now: _merge(work, now, group))
    except TimelineStopped as stop:
        if not (late or redo):
            _apply_before(work, name, group, stop.since)
        raise
    failpoints.point("merge")
    work.count(name, upto, None if late or redo else applied.rows)


def _gets_nothing(batch: Batch, state: TableState, mark: Mark, scan: RowScan) -> bool:
    """Whether waiting rows change nothing of a table that is not there: they are of a later table of this name, or
    deletes of a table that has had no rows. A registry has only the schema of the key for these."""
    if state.is_gone and (mark == NO_MARK or state.is_kept) and not batch.rows.has_rows(scan):
        return True
    return batch.registry is not None and mark == NO_MARK and state.table is None and batch.are_deletes(scan)


def _with_columns_of_rows(state: TableState, versions: Mapping[str, Table], above: int) -> TableState:
    """Mark a table with columns that a newer version of it in the rows lacks (Simple): no DDL dropped them."""
    newest = list(versions.values())[-1]
    assert state.table is not None, "the table was created"
    if state.has_diverged or (newest.version or 0) <= (state.table.version or 0):
        return state
    lacking = _columns_lacking(state.table, newest)
    if not lacking:
        return state
    log.warning("`%s`.`%s`: %s", state.schema, state.name, lacks(lacking))
    return diverge(state, above + 1, lacks(lacking))


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a table that are applied together."""

    waiting: Sequence[PendingRows]
    scan: RowScan
    versions: Mapping[str, Table]
    is_redo: bool


def _apply_before(work: TimelineWork, name: TableName, group: _Group, since: int) -> None:
    """Apply the rows of a group before ``since``, at which its table is quarantined."""
    scan = msgspec.structs.replace(group.scan, upto=since - 1)
    waiting = [rows for rows in group.waiting if rows.min_ts < since]
    state = work.state(name)
    if state is None or not waiting or not work.batch.rows.has_rows(scan):
        return
    before = msgspec.structs.replace(group, scan=scan, waiting=waiting)
    applied = merge_with_hidden_columns(work, state, scan.above, lambda now: _merge(work, now, before))
    work.count(name, since - 1, applied.rows)


def _merge(work: TimelineWork, state: TableState, group: _Group) -> Counts:
    """Apply rows to a table that is prepared for them. Raises: as ``apply_readable``; DecisionNeeded, SourceChanged"""
    batch, name, scan, waiting = work.batch, state.full_name, group.scan, group.waiting
    above, upto = scan.above, scan.upto
    late = [rows for rows in waiting if rows.late]
    assert state.table is not None, "the table was created"
    columns, tries = batch.columns_of(state), None
    if not handle_key(state.table):
        # Columns that the source dropped are not part of a row that is compared as a whole.
        columns, tries = batch.columns(state.table), tries_of(batch, name, waiting)
        state = doubt(state, tries, above, upto)
    assert state.table is not None, "as before"
    # Whether a key whose first change is an insert surely has no row in the target.
    is_new = state.is_clean and not group.is_redo and not late and name not in batch.lacking
    partitioned = None if late else partitions_to_check(state, columns)
    plan = batch.read_plan(state, group.versions, columns)
    if histories(batch.job.histories).befores(name):
        plan = msgspec.structs.replace(plan, old_images="history")
    changes = TypedChanges(
        raw=batch.rows.raw(msgspec.structs.replace(scan, ids=partitioned is not None)),
        plan=plan,
        new_keys=is_new,
        inserts=sum(rows.inserts for rows in waiting),
        others=sum(rows.rows - rows.inserts for rows in waiting),
        share=sum(rows.rows for rows in waiting) / max(1, sum(rows.rows for rows in batch.pending)),
        scanned=_scanned(group),
        is_late=bool(late),
        begins=() if tries is None else tries.begins,
    )

    def commit(now: TableState, leave_out: bool) -> Counts:
        after = msgspec.structs.replace(now, applied=upto)
        if late:  # a full read that settles must not make it clean either
            after = unverify(after)
        readable = replace(
            changes,
            leave_out_unreadable=leave_out,
            plan=msgspec.structs.replace(
                changes.plan,
                expects=expected_columns(now),
                partitioned=None if late else partitions_to_check(now, columns),
                places=now.partition_ids,
            ),
            new_keys=changes.new_keys and now.is_clean,
            places=frozenset(now.partition_ids),
        )
        # A quarantined table gets one commit: after a crash, nothing would do the merge that follows an append.
        appended = None if now.is_quarantined else batch.stamp(after, (upto, ROWS_APPENDED), above)

        def write(stamp: Stamp) -> None:
            if tries is None:
                batch.sink.upsert(name, readable, stamp, appended)
            else:
                batch.sink.change_counts(name, readable, stamp)

        try:
            work.commit(after, (upto, ROWS_MERGED), above, write)
        except SourceChanged as error:
            again = f"{rebuild_line(batch.job, name)} reads the table again from the source"
            raise SourceChanged(f"`{name[0]}`.`{name[1]}`: {error}. {again}") from error
        except Misplaced as found:
            log.warning("`%s`.`%s`: %s", *name, found)
            return commit(doubt_partitions(now, str(found)), leave_out)
        work.put(msgspec.structs.replace(work.known[name] or after, partition_ids=tuple(sorted(readable.places))))
        return readable.counts

    return apply_readable(work, state, changes, above + 1, commit)


def _scanned(group: _Group) -> int:
    """A lower bound of the rows: the scan's counts of the ranges that are applied as a whole."""
    whole = (
        rows.rows
        for rows in group.waiting
        if rows.schema_key in group.versions
        and not (rows.late or rows.cut)
        and group.scan.above < rows.min_ts <= rows.max_ts <= group.scan.upto
    )
    return 0 if group.is_redo else sum(whole)


def _late_rows_taken(work: TimelineWork, name: TableName, upto: int) -> int | None:
    """The commit_ts up to which a table has its late rows; 0: none yet; ``None``: all, or all up to ``upto``.

    Late rows are at or below what the job had applied, and a late DDL may be between them."""
    promise, mark = work.promised.get(name), work.mark(name)
    if promise is not None and NO_MARK < promise.mark < mark and mark > (upto, ROWS_MERGED):
        work.late_done[name] = upto  # The batch was interrupted after the table had got them.
        return None
    taken = work.late_done.get(name, 0)
    had = max(work.batch.job_applied, 0 if promise is None else promise.applied)
    return None if taken and taken >= had else taken


def _late_rows_to_take(
    work: TimelineWork, state: TableState, taken: int | None, upto: int
) -> tuple[TableState, list[PendingRows]]:
    """The late rows that a table gets now. The table is marked if some of them are skipped."""
    if taken is None:
        return state, []
    name, above = state.full_name, max(state.emptied, taken)
    late = [rows for rows in work.batch.pending if _is_of(rows, name) and rows.late]
    behind = [rows for rows in late if max(rows.min_ts - 1, above) < min(rows.max_ts, state.ddl_ts)]
    if not behind or state.is_gone:
        return state, late
    state = _leave_out_behind_ddl(state, behind)
    work.put(state)
    work.late_done[name] = upto
    return state, [rows for rows in late if rows not in behind]


def _leave_out_behind_ddl(state: TableState, behind: Sequence[PendingRows]) -> TableState:
    """Skip late rows from before a DDL, and mark their table: these rows may have other columns than the table."""
    since = min(rows.min_ts for rows in behind)
    why = (
        f"{sum(rows.rows for rows in behind)} late rows, the first at {since}, are from before a DDL at {state.ddl_ts} "
        "and are left out"
    )
    log.warning("`%s`.`%s`: %s", state.schema, state.name, why)
    return diverge(state, since, why)


def _without_late(
    work: TimelineWork, state: TableState, waiting: Sequence[PendingRows], upto: int
) -> tuple[TableState, list[PendingRows]]:
    """Skip late rows of a table without a key, and mark the table."""
    late = [rows for rows in waiting if rows.late]
    if late:
        state = leave_out_late(state, late)
        work.late_done[state.full_name] = upto
    return state, [rows for rows in waiting if not rows.late]


def _is_of(rows: PendingRows, name: TableName) -> bool:
    return rows.full_name == name


def _versions(
    work: TimelineWork, name: TableName, state: TableState, waiting: Sequence[PendingRows], *, everything: bool
) -> dict[str, Table]:
    """The schemas of the waiting rows, the oldest first."""
    batch = work.batch
    keys = {rows.schema_key for rows in waiting}
    if everything:
        keys |= {key for schema, table, key in batch.schemas if (schema, table) == name}
    found = versions_of_shards(work, name, keys) if is_merged(name) else {}
    for key in () if is_merged(name) else keys:
        table = batch.schemas.get((*name, key)) or batch.schemas.get((*name, ANY_VERSION))
        if key == VALID_THEN and state.table is not None:
            table = state.table  # the range is split at the table's DDLs
        if table is not None and batch.registry is not None and state.table is not None:
            table = restrict_columns(table, state.table)
        if table is not None:
            found[key] = table
    return dict(sorted(found.items(), key=lambda item: (item[1].version or 0, len(item[1].columns))))


def _unknown(
    batch: Batch, scan: RowScan, waiting: Sequence[PendingRows], versions: Mapping[str, Table]
) -> list[PendingRows]:
    """Waiting rows whose schema is not known."""
    unknown = [rows for rows in waiting if rows.schema_key not in versions]
    if not is_merged(scan.table):
        return unknown
    # Rows that are counted in the same group may be of another time, when the shard existed.
    keys = {rows.schema_key for rows in unknown}
    here = {key for key in keys if batch.rows.has_rows(msgspec.structs.replace(scan, keys=(key,)))}
    return [rows for rows in unknown if rows.schema_key in here]


def _leave_out_unknown(name: TableName, state: TableState, unknown: Sequence[PendingRows], above: int) -> TableState:
    """Skip rows without a known schema. They only get here by ``skip-to-known``."""
    if not unknown:
        return state
    count, since = sum(rows.rows for rows in unknown), max(above + 1, min(rows.min_ts for rows in unknown))
    log.warning("`%s`.`%s`: skip-to-known skips %d rows of unknown schema versions", *name, count)
    return diverge(state, since, f"{count} rows of unknown schema versions were left out by skip-to-known")


def _prepare_table(
    work: TimelineWork, name: TableName, state: TableState, versions: dict[str, Table], above: int
) -> TableState:
    """Make sure that the table exists, with every column that the rows have."""
    batch, newest = work.batch, list(versions.values())[-1]
    mark = work.mark(name)
    if mark == NO_MARK:
        if state.table is not None and not state.is_gone:
            raise DecisionNeeded(vanished(batch.job, name, resolves=batch.resolves))
        # A schema file may be of another time than the rows.
        from_file = newest is batch.schemas.get((*name, ANY_VERSION))
        new = compute_columns(batch, create_by_rows(state, newest, above, certain=not from_file))
        columns = batch.columns(newest)
        work.commit(new, (above, 0), above, lambda stamp: batch.sink.create(name, columns, stamp))
        failpoints.point("create")
        return work.known[name] or new
    if state.table is None:
        taken = adopt(state, "adopted" if mark == (0, 0) else "bootstrap")
        state = msgspec.structs.replace(taken, table=newest)
    if state.is_kept and above >= state.ddl_ts:
        why = "rows came for a table that was dropped and kept: those of the dropped one are still there"
        state = diverge(come_back(state), above, why)
    table = state.table or newest
    # Compare with the target and not with the state: after a crash, columns may have been added already.
    missing = missing_columns(batch.columns(newest), stop_if_columns_are_gone(work, state))
    extra = _new_columns(table, newest)
    if extra:
        merged = msgspec.structs.replace(table, columns=(*table.columns, *extra))
        # A full read that settles must not make it clean: at the source, its rows may have a default in these columns.
        state = unverify(msgspec.structs.replace(state, table=merged))
    state = forget_kept_columns(work, state)
    if missing:
        # The source's schema changed by a DDL that TiCDC does not send, or before this job's first message.
        log.warning("`%s`.`%s`: columns without a DDL: %s", *name, ", ".join(column.source for column in missing))
        changes = ColumnChanges(add=tuple(missing))
        at = max(mark, (0, 0))
        work.commit(state, at, above, lambda stamp: batch.sink.change_columns(name, changes, stamp))
        failpoints.point("columns")
        state = work.known[name] or state
    return state


def _new_columns(table: Table, newest: Table) -> tuple[Column, ...]:
    known = {column.name.casefold() for column in table.columns}
    return tuple(column for column in newest.columns if column.name.casefold() not in known)


def _columns_lacking(table: Table, newest: Table) -> list[str]:
    there = {column.name.casefold() for column in newest.columns} | HIDDEN_NAMES
    return [column.name for column in table.columns if column.name.casefold() not in there]


def _may_be_of_two(state: TableState, versions: Mapping[str, Table]) -> bool:
    """Whether rows may be of two tables, the second of which got the name of the first."""
    if not versions or state.table is None or is_merged(state.full_name):
        return False
    return _has_other_columns(state.table, list(versions.values())[-1])


def _has_other_columns(table: Table, newest: Table) -> bool:
    return bool(_new_columns(table, newest) or _columns_lacking(table, newest))
