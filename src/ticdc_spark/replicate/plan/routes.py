"""Check the rules of ``[[route]]`` against the tables that a job has already, and against new DDL. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from ticdc_spark.config.histories import stop_if_shared
from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import Routes, compiled, shown
from ticdc_spark.config.row_filters import WHERE, named_columns
from ticdc_spark.config.shapes import Shape, shape_of
from ticdc_spark.config.shards import is_merged, target_of
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.replicate.plan.ddl_actions import Alter, Create, Enter, Truncate, action
from ticdc_spark.replicate.plan.names import source_tables
from ticdc_spark.replicate.plan.shard_actions import Absorb
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.mark import NO_MARK
from ticdc_spark.spark.masks import salt_mark

NEEDS_WATERMARKS = (
    "[[route]] origin needs watermarks, and this job has none (mode arrival). Remove the key, or let the changefeed "
    "send them (enable-tidb-extension=true)"
)
"""Why a job merges no tables."""
_PUT_BACK = "put back the rule that it was created by, above the new rules"


def with_routes(job: Job, progress: Progress) -> Progress:
    """The progress with the rules of the job file. Raises: UsageError when they would change an existing table"""
    salt = salt_mark(job.mask_salt)
    if (progress.routes, progress.mask_salt) == (job.routes, salt):
        return progress
    if progress.mode == "arrival" and compiled(job.routes).merges:
        raise UsageError(f"{job.file}: {NEEDS_WATERMARKS}")
    _stop_if_merged_otherwise(job, progress)
    for state in progress.tables:
        if is_in_target(state):
            stop_if_changed(job, progress, state.full_name, state.table)
    return msgspec.structs.replace(progress, routes=job.routes, mask_salt=salt)


def _stop_if_merged_otherwise(job: Job, progress: Progress) -> None:
    """Stop if a known table would be merged with other tables than before, or no longer merged. Raises: UsageError"""
    before, now = compiled(progress.routes), compiled(job.routes)
    if not (before.merges or now.merges):
        return
    names = {one.full_name for one in progress.tables}
    names |= {one.full_name for one in progress.pending}
    names |= {one.full_name for one in progress.wanted}
    tables = (*(one.table for one in progress.schemas), *(one.table for one in progress.shards))
    names |= {one.full_name for one in tables}
    names |= {name for ddl in progress.ddls for both in source_tables(ddl.change) for name in both}
    for name in sorted(names):
        if is_merged(name):
            if before.origin(name) != now.origin(name):
                columns = ", ".join(before.origin(name))
                raise UsageError(
                    f"{job.file}: [[route]] origin: {shown(target_of(name))} was created with the origin columns "
                    f"{columns}: {_PUT_BACK}; or let another job copy its tables"
                )
        elif before.merged(name) != now.merged(name):
            raise UsageError(
                f"{job.file}: [[route]] origin: the job has {shown(name)} already, and would now merge it with "
                f"other tables than before: {_PUT_BACK}; or let another job copy it"
            )


def stop_if_changed(job: Job, progress: Progress, name: TableName, table: Table | None) -> None:
    """Stop if the current rules would give a table of the target another name or other columns.

    ``table``: its schema in the target. Raises: UsageError
    """
    before, now = compiled(progress.routes), compiled(job.routes)
    if before.target(name) != now.target(name):
        raise UsageError(
            f"{job.file}: [[route]]: {shown(name)} is {shown(before.target(name))} in the target, and would be "
            f"{shown(now.target(name))} by the current rules. An existing table keeps its name: {_PUT_BACK}"
        )
    if table is None:
        return
    was, becomes = shape_of(before.rule(name), table), shape_of(now.rule(name), table)
    if was != becomes:
        raise UsageError(
            f"{job.file}: [[route]]: the current rules do something else to {_difference(was, becomes)} of "
            f"{shown(name)}, which is in the target already: {_PUT_BACK}; or let another job copy it"
        )
    if was.is_hashed and progress.mask_salt != salt_mark(job.mask_salt):
        raise UsageError(
            f"{job.file}: [job] mask-salt: columns of {shown(name)} were hashed with another one, so equal values "
            "would have two hashes: put the old one back"
        )


def stop_at_rules(job: Job, progress: Progress, ddls: Iterable[QueuedDdl] = (), more: Sequence[TableName] = ()) -> None:
    """Stop before two tables get one name in the target, and before a DDL that the rules for columns do not allow.

    ``ddls``: the due ones. ``more``: new tables. Raises: UsageError
    """
    if not (job.routes or job.histories):
        return
    is_included, routes = table_filter(job.tables), compiled(job.routes)
    states = progress.states()
    names = [name for name, one in states.items() if is_included(*name) or is_in_target(one)]
    names += [one.full_name for one in progress.pending]
    names += [one.full_name for one in progress.wanted]
    for ddl in ddls:
        match action(ddl.change):
            case Create(table) | Truncate(table) | Enter(table) as act:
                routes.stop_if_wrong(table, is_new=not isinstance(act, Truncate))
                names.append(table.full_name)
            case Absorb(merged, table) as act:
                routes.stop_if_wrong(table, is_new=act.is_new and merged not in states)
                names.append(merged)
            case Alter(old, table) as act:
                state = states.get(old)
                before = ddl.change.pre_table or (None if state is None else state.table)
                _stop_at_alter(routes, act, before, ddl)
                names.append(table.full_name)
    stop_if_shared(job, [*names, *more])


def with_hidden_partitions(job: Job, ddls: Sequence[QueuedDdl]) -> list[QueuedDdl]:
    """Mark partitions in DDLs as unusable if the target does not have the columns that define them."""
    routes = compiled(job.routes)
    found = []
    for ddl in ddls:
        change = ddl.change
        table, before = (None if one is None else _doubted(routes, one) for one in (change.table, change.pre_table))
        if (table, before) != (change.table, change.pre_table):
            change = msgspec.structs.replace(change, table=table, pre_table=before)
            ddl = msgspec.structs.replace(ddl, change=change)
        found.append(ddl)
    return found


def is_in_target(state: TableState) -> bool:
    """Whether the target has the table, written by this job."""
    return state.mark != NO_MARK and not state.is_dropped


def _doubted(routes: Routes, table: Table) -> Table:
    known = table.partitioning
    if known is None or known.doubt:
        return table
    hidden = shape_of(routes.rule(table.full_name), table).hidden
    if not any(name.casefold() in hidden for name in known.columns):
        return table
    why = "a rule of [[route]] drops or masks the column by which its partitions are made"
    return msgspec.structs.replace(table, partitioning=msgspec.structs.replace(known, doubt=why))


def _stop_at_alter(routes: Routes, act: Alter, before: Table | None, ddl: QueuedDdl) -> None:
    """Stop at a RENAME of a table or a column to a name that the rules treat differently. Raises: UsageError"""
    name = act.table.full_name
    now = shape_of(routes.rule(name), act.table)
    if now.where:
        _stop_if_not_judged(now.where, act, before, ddl)
    routes.stop_if_wrong(act.table)
    if name != act.old and (was := shape_of(routes.rule(act.old), act.table)) != now:
        raise UsageError(
            f"[[route]]: {shown(act.old)} becomes {shown(name)} at {ddl.change.commit_ts}, and the rules do something "
            f"else to {_difference(was, now)} there. Give both names the same drop-columns, mask-columns, "
            "rename-columns and where"
        )
    old = _said(shape_of(routes.rule(act.old), before)) if before is not None else {}
    new = _said(now)
    for one, other in act.renames.items() if before is not None else ():
        said = old.get(one.casefold(), ""), new.get(other.casefold(), "")
        if said[0] != said[1]:
            raise UsageError(
                f"[[route]]: column `{one}` of {shown(act.old)} becomes `{other}` at {ddl.change.commit_ts}. The rules "
                f"say {said[0] or 'nothing'} of `{one}`, and {said[1] or 'nothing'} of `{other}`: let them say the "
                f"same of both: {ddl.change.query}"
            )


def _stop_if_not_judged(where: str, act: Alter, before: Table | None, ddl: QueuedDdl) -> None:
    """Stop at a DDL that drops or renames a column that ``where`` names, even if another column gets its name.

    Raises: UsageError
    """
    renamed = [(old.casefold(), new.casefold()) for old, new in act.renames.items()]
    others = {name for old, new in renamed if old != new for name in (old, new)}
    stay = {column.name.casefold() for column in act.table.columns} - others
    for column in () if before is None else before.columns:
        if column.name.casefold() in named_columns(where) - stay:
            to = act.renames.get(column.name)
            becomes = "is dropped" if to is None else f"becomes `{to}`"
            raise UsageError(
                f"{WHERE} {where!r} names column `{column.name}` of {shown(act.old)}, which {becomes} at "
                f"{ddl.change.commit_ts}. Exclude the table with `tables` under [job], and let another job load it "
                f"with another condition: {ddl.change.query}"
            )


def _said(shape: Shape) -> dict[str, str]:
    """The rule of each column that the target lacks or has masked, by its name in lower case."""
    masked = {name.casefold(): f'mask-columns = "{how}"' for name, how in shape.masked}
    return {name.casefold(): "drop-columns" for name in shape.dropped} | masked


def _difference(one: Shape, other: Shape) -> str:
    """The differences between two shapes."""
    pairs = ((one.dropped, other.dropped), (one.masked, other.masked), (one.renamed, other.renamed))
    found = {each if isinstance(each, str) else each[0] for a, b in pairs for each in set(a) ^ set(b)}
    columns = [f"column `{name}`" for name in sorted(found)]
    return ", ".join([*columns, "the rows (where)"] if one.where != other.where else columns)
