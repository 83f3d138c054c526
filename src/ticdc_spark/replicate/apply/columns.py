"""Check that a table still has the columns of its stamp and their values, and mark the table or stop if not."""

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.config.computed import Expressions, computable, still_computed, why_null
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import ColumnType, Table, TableName
from ticdc_spark.mysql import HIDDEN_NAMES, format_type, handle_key, may_merge, with_hidden_columns
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.apply.look import OLD_VALUES, missing_columns, rebuild_line, why_gone
from ticdc_spark.replicate.apply.rejects import HiddenColumns, TimelineStopped
from ticdc_spark.replicate.plan.ddl_actions import Alter
from ticdc_spark.replicate.state.table import TableState, diverge
from ticdc_spark.sinks.base import ColumnChanges
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.spark.decode.versions import ExpectedColumns
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
T = TypeVar("T")


def lose_hidden_values(state: TableState, before: Table | None) -> TableState:
    """Mark a table that has hidden columns of TiDB which ``before`` lacked. A full read has no values of these, so its
    rows may lack some. A table that began with its CREATE TABLE got each value with its row."""
    columns = () if state.table is None else state.table.columns
    known = () if before is None else before.columns
    new = HIDDEN_NAMES & {column.name for column in columns} - {column.name for column in known}
    if not new or state.origin != "snapshot":
        return state
    why = f"a full read gives no values of TiDB's columns {', '.join(sorted(new))}: they are NULL"
    return diverge(state, state.emptied, why)


def computed_of(batch: Batch, table: Table) -> Expressions:
    """The virtual columns that the job computes if a table is new, or if all its rows are read again."""
    return computable(table, _shown(batch, table))


def compute_columns(batch: Batch, state: TableState) -> TableState:
    """Give a new table its computed columns, and log why others stay NULL."""
    table = state.table
    assert table is not None, "it is new"
    shown = _shown(batch, table)
    for column in table.columns:
        if column.virtual and column.name in shown and (why := why_null(column, table, shown)):
            log.info("`%s`.`%s`: generated column `%s` is NULL: %s", *table.full_name, column.name, why)
    return msgspec.structs.replace(state, computed=computed_of(batch, table))


def log_left_null(batch: Batch, before: TableState, act: Alter) -> None:
    """Log the virtual columns that an ALTER adds, and that only a full read would give values."""
    known = {name.casefold() for name, _ in before.computed} | {name.casefold() for name in act.renames.values()}
    known |= {column.name.casefold() for column in before.table.columns} if before.table is not None else set()
    for name, _ in computed_of(batch, act.table):
        if name.casefold() not in known:
            log.info("`%s`.`%s`: generated column `%s` is NULL until `rebuild`", *act.table.full_name, name)


def _shown(batch: Batch, table: Table) -> frozenset[str]:
    return frozenset(column.source for column in batch.columns(table) if column.mask is None)


def with_computed(after: TableState, before: TableState, act: Alter) -> tuple[TableState, str]:
    """Stop computing the virtual columns whose values a DDL may have changed in older rows.

    Returns: the table after the DDL, and why it is diverged if it still has such columns; ``""``: it is not
    """
    if not before.computed:
        return after, ""
    assert before.table is not None, "it has columns"
    kept = still_computed(
        before.computed, (before.table, act.table), act.renames | {name: name for name in act.replaced}
    )
    renamed = {one.casefold(): other.casefold() for one, other in act.renames.items()}
    there = {column.name.casefold() for column in act.table.columns} - {name.casefold() for name, _ in kept}
    stale = [name for name, _ in before.computed if renamed.get(name.casefold(), name.casefold()) in there]
    after = msgspec.structs.replace(after, computed=kept)
    if not stale:
        return after, ""
    names = ", ".join(f"`{name}`" for name in stale)
    return after, f"older rows have the values of generated column {names} from before the DDL, and newer rows NULL"


def expected_columns(state: TableState) -> ExpectedColumns:
    """Which columns the rows of a table must have.

    A missing column that may be generated marks the table only if it is clean, or if it is settling after a full read.
    """
    if state.has_diverged:
        return "nothing"
    return "all" if state.is_clean or state.settles else "stored"


def stop_at_another_key(work: TimelineWork, name: TableName, new: TableName, mark: Mark, before: Table | None) -> None:
    """Stop a timeline at a table that lacks DDLs and whose key is not the source's ``before`` a DDL. The same holds if
    different values of its key may become equal. It may be an older table of this name: several of its rows would be
    one row.

    ``new``: its name after the DDL. ``mark``: of the DDL.

    Raises: TimelineStopped
    """
    state, has_begun = work.state(name), work.mark(name) >= mark
    if before is None or has_begun or work.mark(name) == NO_MARK or not work.batch.resolves:
        return
    if state is None or state.table is None or not state.has_unsure_columns:
        return
    held, wanted = _key_types(state.table), _key_types(before)
    if held.keys() == wanted.keys() and not any(may_merge(held[one], kind) for one, kind in wanted.items()):
        return
    keys = [", ".join(f"{one} {format_type(kind)}" for one, kind in key.items()) for key in (held, wanted)]
    keys = [f"({key})" if key else "none" for key in keys]
    raise TimelineStopped(
        f"its key is {keys[0]}, and the source's is {keys[1]}: it lacks a DDL, or is an older table of this name. "
        f"{rebuild_line(work.batch.job, new)} reads it again",
        mark[0],
    )


def _key_types(table: Table) -> dict[str, ColumnType]:
    """The types of a table's key, by the columns' names in small letters."""
    kinds = {column.name.casefold(): column.type for column in table.columns}
    return {name.casefold(): kinds[name.casefold()] for name in handle_key(table)}


class ColumnsGone(DecisionNeeded):
    """Another writer dropped or renamed columns of a table."""

    def __init__(self, message: str, marked: TableState | None = None) -> None:
        """``marked``: the table, marked as diverged: once the columns are there again, older rows have NULL in them."""
        super().__init__(message)
        self.marked = marked


def stop_if_columns_are_gone(work: TimelineWork, state: TableState) -> Collection[str]:
    """Stop at a table that lost columns because another writer dropped or renamed them. The table is marked first.

    Returns: the names of the columns that the target's table has; none if its schema is not known.
    Raises: ColumnsGone, DecisionNeeded, SinkFault
    """
    if state.table is None:
        return ()
    name = state.full_name
    there = work.columns(name)
    if OLD_VALUES in there:
        raise DecisionNeeded(
            f"`{name[0]}`.`{name[1]}` has a column `{OLD_VALUES}`, with the old values of a type change, but its "
            "metadata has no type change: the table was rolled back. Roll it forward again, or restore it from a backup"
        )
    gone = missing_columns(work.batch.columns(state.table), there)
    if not gone:
        return there
    why = why_gone(state, gone)
    marked = diverge(state, state.applied, why, columns=True)
    work.put(marked)
    work.write_decisions()
    again = f". Then {rebuild_line(work.batch.job, name)} clears the mark" if work.batch.resolves else ""
    is_adopted = state.origin == "adopted"
    ways = "Add them" if is_adopted else "Rename them back, or add them again"
    restore = "" if is_adopted else ". Or restore the table from a backup"
    raise ColumnsGone(
        f"`{name[0]}`.`{name[1]}`: {why}. {ways} ({_adding(work, name, gone)}): the job resumes, with the table marked "
        f"as diverged, since older rows have NULL in them{again}{restore}",
        marked,
    )


def merge_with_hidden_columns(
    work: TimelineWork, state: TableState, applied_before: int, merge: Callable[[TableState], T]
) -> T:
    """Merge rows into a table. Merge again whenever the rows turn out to have another hidden column of TiDB: each
    version of the table may bring one. ``state``: the table, prepared for the rows.

    Raises: as ``merge``; UsageError, SinkFault
    """
    while True:
        try:
            return merge(state)
        except HiddenColumns as found:
            state = _add_hidden_columns(work, state, found.names, applied_before)


def _add_hidden_columns(
    work: TimelineWork, state: TableState, hidden: Collection[str], applied_before: int
) -> TableState:
    """Add columns to a table that its rows have but that no DDL named. Raises: UsageError, SinkFault"""
    assert state.table is not None, "its rows were read"
    name, table = state.full_name, with_hidden_columns(state.table, hidden)
    assert table != state.table, "the columns are new"
    state = lose_hidden_values(msgspec.structs.replace(state, table=table), state.table)
    missing = missing_columns(work.batch.columns(table), work.batch.sink.columns(name))
    log.warning("`%s`.`%s`: adding columns that no DDL named: %s", *name, ", ".join(sorted(hidden)))
    changes, sink = ColumnChanges(add=tuple(missing)), work.batch.sink
    write = partial(sink.change_columns, name, changes) if missing else partial(sink.stamp, name)
    work.commit(state, max(work.mark(name), (0, 0)), applied_before, write)
    failpoints.point("columns")
    return work.known[name] or state


def forget_kept_columns(work: TimelineWork, state: TableState) -> TableState:
    """Forget dropped columns that a user removed from the table, or whose names the source uses again."""
    if not state.kept_columns or state.table is None:
        return state
    have = {column.casefold() for column in work.batch.sink.columns(state.full_name)}
    have -= {column.name.casefold() for column in work.batch.columns(state.table)}
    pairs = zip(state.kept_columns, work.batch.kept_columns(state), strict=True)
    still = tuple(one for one, column in pairs if column.name.casefold() in have)
    return msgspec.structs.replace(state, kept_columns=still)


def stop_if_old_values_are_gone(work: TimelineWork, name: TableName, column: str) -> None:
    """Stop if another writer dropped the old values during a type change of ``column``. Raises: DecisionNeeded"""
    if OLD_VALUES not in work.batch.sink.columns(name):
        raise DecisionNeeded(
            f"`{name[0]}`.`{name[1]}` is in a type change of column `{column}`, but another writer dropped "
            f"`{OLD_VALUES}`, with its old values: roll the table back to the snapshot before that, or restore it from "
            "a backup"
        )


def stop_if_new_column_is_gone(work: TimelineWork, name: TableName, column: LakeColumn) -> None:
    """Stop if another writer dropped a DDL's new column before it had its values. Raises: DecisionNeeded"""
    if missing_columns([column], work.batch.sink.columns(name)):
        raise DecisionNeeded(
            f"`{name[0]}`.`{name[1]}` is in a DDL that gives values to column `{column.name}`, but another writer "
            f"dropped or renamed it. Rename it back, or add it again ({_adding(work, name, [column])}): the job "
            "then fills it"
        )


def _adding(work: TimelineWork, name: TableName, columns: Sequence[LakeColumn]) -> str:
    """The target's statement to add columns."""
    sink = work.batch.sink
    return f"ALTER TABLE {sink.sql_name(name)} {sink.types.add_columns(columns)}"
