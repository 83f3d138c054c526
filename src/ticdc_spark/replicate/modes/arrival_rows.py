"""Apply a range of a table's rows in arrival mode: of the rows in a batch, the newest change of each key.

Without watermarks, older changes may still come. So each row of the lake keeps its commit_ts in a hidden column, and an
older change never overwrites a newer one. The topics show when a deleted key was deleted, as far back as they keep
messages. Deletes that hide their commit_ts (Avro) follow the order of their partition. Each commit has the number of
the batch in its mark, in place of a commit_ts.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.changes.ranges import RowScan
from ticdc_spark.changes.typed import Counts, Deletes, TypedChanges
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Table, TableName
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.apply.batch import COMMIT_TS, Batch, TimelineWork
from ticdc_spark.replicate.apply.columns import expected_columns, forget_kept_columns, merge_with_hidden_columns
from ticdc_spark.replicate.apply.ddl import alter
from ticdc_spark.replicate.apply.keyless import leave_out_rows
from ticdc_spark.replicate.apply.look import vanished
from ticdc_spark.replicate.apply.rejects import apply_readable
from ticdc_spark.replicate.plan.ddl_actions import Alter
from ticdc_spark.replicate.plan.timeline import DDL_STEPS, Rows
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN
from ticdc_spark.replicate.schemas.inferred import follow, is_continued
from ticdc_spark.replicate.schemas.registered import restrict_columns
from ticdc_spark.replicate.state.progress import PendingRows
from ticdc_spark.replicate.state.table import TableState, diverge, unverify
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.spark.decode.versions import ReadPlan

log = logging.getLogger(__name__)
_ANY_TIME = 2**63 - 1


def apply_arrived(work: TimelineWork, step: Rows) -> None:
    """Apply the rows of one table with ``step.above < commit_ts <= step.upto``.

    Raises: RejectedMessage, TimelineStopped, DecisionNeeded, SinkFault
    """
    batch, name, mark = work.batch, step.table, step.mark
    assert mark is not None, "steps of arrival mode have marks"
    state = work.state(name) or TableState(schema=name[0], name=name[1])
    waiting = [
        rows
        for rows in batch.pending
        if rows.full_name == name and rows.min_ts <= step.upto and rows.max_ts > step.above
    ]
    if not waiting:
        return
    above = max(step.above, min(rows.min_ts for rows in waiting) - 1)
    above = max(above, state.ddl_ts) if state.is_dropped else above
    scan = batch.waiting(name, waiting, above, step.upto)
    if (work.mark(name) == NO_MARK or state.is_gone) and not batch.rows.has_rows(scan):
        return  # The waiting rows are of another table of this name, which was there before or comes later.
    target, followed = _target(batch, state, waiting)
    if target is None:
        _leave_out(work, state, scan, max(min(rows.max_ts, step.upto) for rows in waiting))
        return
    state = _prepared(work, state, target, step, followed)
    if not any(column.key for column in batch.columns(target)):
        work.put(leave_out_rows(work, state, max(step.above + 1, min(rows.min_ts for rows in waiting))))
        return
    if work.mark(name) < mark:
        group = _Group(step=step, mark=mark, waiting=waiting, followed=followed)
        merge_with_hidden_columns(work, state, batch.batch, lambda now: _merge(work, now, group))
        failpoints.point("merge")
        state = work.state(name) or state
    newest = max(min(rows.max_ts, step.upto) for rows in waiting)
    applied = max(state.applied, newest)
    work.put(msgspec.structs.replace(unverify(state), applied=applied, schema_keys=followed))
    work.count(name, step.upto, None)


def _leave_out(work: TimelineWork, state: TableState, scan: RowScan, newest: int) -> None:
    """Skip the rows of a table that is not there and has no schema. It is marked, unless they are all deletes.
    ``newest``: the commit_ts of the last of them."""
    name = state.full_name
    if work.batch.are_deletes(scan):
        log.warning("`%s`.`%s`: ignoring deletes of a table that has had no rows", *name)
        return
    why = "rows were left out, since no schema of the table was known"
    log.warning("`%s`.`%s`: %s", *name, why)
    work.put(msgspec.structs.replace(diverge(state, scan.above + 1, why), applied=max(state.applied, newest)))


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a table that are applied together."""

    step: Rows
    mark: Mark
    waiting: Sequence[PendingRows]
    followed: tuple[str, ...]
    """The schemas without DDL that the table has followed after these rows."""


def _merge(work: TimelineWork, state: TableState, group: _Group) -> None:
    """Apply rows to a table that is prepared for them. Raises: as ``apply_readable``; DecisionNeeded"""
    batch, name, step, target = work.batch, group.step.table, group.step, state.table
    assert target is not None, "it was prepared"
    inferred, waiting = bool(group.followed), group.waiting
    keys = tuple(sorted({rows.schema_key for rows in waiting}))
    columns = batch.columns_of(state)
    data = tuple(column for column in columns if column.name != COMMIT_TS)
    versions = {key: _version(batch, name, key, target, group.followed) for key in keys}
    plan = batch.read_plan(state, versions, data, inferred=inferred)
    above = max(step.above, min(rows.min_ts for rows in waiting) - 1)
    scan = msgspec.structs.replace(batch.waiting(name, waiting, above, step.upto), keys=keys)
    hidden = PROTOCOLS[batch.protocol].traits.hidden_deletes
    every = None
    if not hidden and scan.above < state.applied:
        every = batch.read_plan(state, _every_version(batch, name, target), data, inferred=inferred)
    changes = TypedChanges(
        raw=batch.rows.raw(scan),
        plan=plan,
        ordered_by=columns[-1],
        scanned=sum(
            rows.rows for rows in waiting if not rows.cut and scan.above < rows.min_ts and rows.max_ts <= scan.upto
        ),
        deletes=None if every is None else _deletes(batch, state, scan, every),
    )

    def commit(now: TableState, leave_out: bool) -> Counts:
        expecting = msgspec.structs.replace(plan, expects=expected_columns(now))
        readable = replace(changes, plan=expecting, leave_out_unreadable=leave_out)
        after = msgspec.structs.replace(unverify(now), schema_keys=group.followed)
        work.commit(after, group.mark, batch.batch, lambda stamp: batch.sink.upsert(name, readable, stamp))
        return readable.counts

    apply_readable(work, state, changes, scan.above + 1, commit)


def _deletes(batch: Batch, state: TableState, scan: RowScan, plan: ReadPlan) -> Deletes:
    """The changes in the range of a scan that may have deleted keys, including changes of a key.

    If a condition decides which rows are kept, every change may have.
    """
    keys = None if plan.schemas is None else tuple(plan.tables)
    ops = None if plan.where else ("delete", "update")
    every = msgspec.structs.replace(batch.rows_since(state, scan.above, scan.upto), keys=keys, ops=ops)
    return Deletes(batch.rows.raw(every), plan)


def _target(batch: Batch, state: TableState, waiting: Sequence[PendingRows]) -> tuple[Table | None, tuple[str, ...]]:
    """The table that holds both existing and new rows; and the schemas without DDL that it has then followed."""
    name = state.full_name
    table, followed = state.table, state.schema_keys
    if batch.registry is None:
        table = table or batch.schemas.get((*name, ANY_VERSION)) or batch.schemas.get((*name, VALID_THEN))
        if table is not None and not followed:
            return table, followed  # from DDL, a file or the upstream: schema blocks add nothing
    new_keys = {rows.schema_key for rows in waiting if (*name, rows.schema_key) in batch.schemas} - {*followed}
    for key in sorted(new_keys, key=lambda key: (_comes_back(waiting, key), _number(batch, name, key))):
        new = batch.schemas[*name, key]
        if table is None:
            table = new
        elif not _is_behind(batch, key, new, table, followed) or _returns(batch, state, key, followed, waiting):
            table = follow(table, new, batch.job.schema_change)
        followed = (*followed, key)
    return table, followed


def _is_behind(batch: Batch, key: str, new: Table, table: Table, followed: Sequence[str]) -> bool:
    """Whether a schema is an older one, of a partition that is behind. A block is, if it is older than the table's. A
    registered schema is, if a later one was followed and the table has all its columns."""
    if batch.registry is None:
        return (new.version or 0) < (table.version or 0)
    return any(int(one) > int(key) for one in followed) and is_continued(new, table)


def _returns(
    batch: Batch, state: TableState, key: str, followed: Sequence[str], waiting: Sequence[PendingRows]
) -> bool:
    """Whether a table returned to a registered schema that the job reads for the first time: in a partition, rows of a
    later schema come before the first rows of it. Raises: RegistryFault, SourceFault"""
    if batch.registry is None:
        return False
    first = _first_rows(waiting, key)
    every = batch.rows_since(state, 0, _ANY_TIME)
    before = tuple(
        msgspec.structs.replace(one, end=min(one.end, first[one.topic, one.partition]))
        for one in every.ranges
        if one.first < first.get((one.topic, one.partition), 0)
    )
    if not before:
        return False
    later = tuple(one for one in followed if int(one) > int(key))
    if batch.registry.fetch(map(int, later)):
        # The process has not met them yet.
        batch.rows.opening = msgspec.structs.replace(batch.rows.opening, schemas=dict(batch.registry.known))
    return batch.rows.has_rows(msgspec.structs.replace(every, ranges=before, keys=later, above=-1))


def _comes_back(waiting: Sequence[PendingRows], key: str) -> bool:
    """Whether waiting rows of a later registered schema come before the first rows of a schema in their partition."""
    first = _first_rows(waiting, key)
    return any(
        rows.schema_key.isdigit() and int(rows.schema_key) > int(key)
        for rows in waiting
        if key.isdigit() and rows.first < first.get((rows.topic, rows.partition), 0)
    )


def _first_rows(waiting: Sequence[PendingRows], key: str) -> dict[tuple[str, int], int]:
    """The offset of the first waiting rows of a schema, by partition."""
    first: dict[tuple[str, int], int] = {}
    for rows in waiting:
        if rows.schema_key == key:
            place = (rows.topic, rows.partition)
            first[place] = min(rows.first, first.get(place, rows.first))
    return first


def _number(batch: Batch, name: TableName, key: str) -> int:
    """What orders the schemas of a table."""
    return batch.schemas[*name, key].version or int(key)


def _version(batch: Batch, name: TableName, key: str, target: Table, followed: Sequence[str] = ()) -> Table:
    """The part of the table that rows with a schema key have. Columns that were added later get their default."""
    known = batch.schemas.get((*name, key)) if batch.registry is not None or followed else None
    return target if known is None else restrict_columns(known, target)


def _prepared(
    work: TimelineWork, state: TableState, target: Table, step: Rows, followed: tuple[str, ...]
) -> TableState:
    """Create the table, or add the columns that it lacks, with marks before that of the rows. A restart before the rows
    finds in it what it has followed."""
    name, mark = state.full_name, step.mark
    assert mark is not None, "steps of this mode have one"
    if work.mark(name) == NO_MARK and state.table is not None and not state.is_gone:
        raise DecisionNeeded(vanished(work.batch.job, name, resolves=False))
    if state.table == target:
        return forget_kept_columns(work, state)
    if state.table is not None:
        log.warning("`%s`.`%s`: a new schema changes its columns without a DDL", *name)
    mine = [rows for rows in work.batch.pending if rows.full_name == name and rows.min_ts <= step.upto]
    newest = max((min(rows.max_ts, step.upto) for rows in mine), default=0)
    alter(work, Alter(name, target, {}), (mark[0], mark[1] - DDL_STEPS // 2), newest, followed=followed)
    if COMMIT_TS not in work.batch.sink.columns(name):
        message = (
            f"cannot adopt `{name[0]}`.`{name[1]}`: it has no column `{COMMIT_TS}`, which orders changes in a job "
            f"without watermarks"
        )
        raise DecisionNeeded(message)
    after = work.state(name)
    assert after is not None, "it was altered"
    return msgspec.structs.replace(after, topics=state.topics, rows=state.rows)


def _every_version(batch: Batch, name: TableName, target: Table) -> dict[str, Table]:
    """By schema key, the part of the table that rows in the topics may have."""
    if batch.registry is None:
        return {VALID_THEN: target}
    return {key: _version(batch, name, key, target) for *known, key in batch.schemas if tuple(known) == name}
