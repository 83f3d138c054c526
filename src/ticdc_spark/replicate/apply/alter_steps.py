"""The commits, each with its mark, by which a DDL gives a table the columns of the source."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from ticdc_spark.config.row_filters import WHERE, changed_column
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Column, Table, TableName
from ticdc_spark.mysql import fsp, time_zone, tso_physical_ms
from ticdc_spark.names import shortened
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.columns import stop_if_new_column_is_gone, stop_if_old_values_are_gone
from ticdc_spark.replicate.apply.look import OLD_VALUES, missing_columns
from ticdc_spark.replicate.plan.column_diff import ColumnDefaults, ColumnDiff, Fill, Rewrite, column_diff
from ticdc_spark.replicate.plan.column_diff import set_aside as set_column_aside
from ticdc_spark.replicate.plan.ddl_actions import Alter
from ticdc_spark.replicate.state.table import KeptColumn, TableState
from ticdc_spark.sinks import base as sink_base
from ticdc_spark.sinks.base import ColumnChanges, Stamp
from ticdc_spark.sinks.mark import Mark
from ticdc_spark.sinks.shaped_types import HASHES
from ticdc_spark.spark.types import LakeColumn, commented

_LONGEST = 36
"""Longest part of the column's own name in a name that is set aside: a name in PostgreSQL has at most 63 bytes."""


class Commits(msgspec.Struct, frozen=True):
    """The commits of one DDL, and what they leave behind."""

    commits: list["Commit"]
    inexact: str
    """What the commits cannot do exactly; ``""``: they are exact."""
    kept: tuple[KeptColumn, ...]
    """The columns that the source dropped and the target keeps."""


class Commit(msgspec.Struct, frozen=True):
    """One of the commits of a DDL."""

    mark: Mark
    point: str
    write: Callable[[Stamp], None]
    aside: str = ""
    """The column whose old values the commit sets aside."""


def commits_of(
    work: TimelineWork, state: TableState, act: Alter, mark: Mark, ts: int, pre_table: Table | None, *, inferred: bool
) -> Commits:
    """The commits that give the lake's table the columns of the source."""
    sink, batch, name = work.batch.sink, work.batch, act.table.full_name
    at, step = mark
    wanted = commented(batch.columns(act.table), act.comments.columns)
    known = state.table or pre_table
    old = () if known is None else batch.columns(known)
    live = dict(state.columns_before) or {column.name: column.type.name for column in old}
    plan = column_diff(
        live,
        wanted,
        renames_in_target(act, old, wanted),
        sink.types,
        old=old,
        defaults=ColumnDefaults(
            session=batch.session_zone,
            local=batch.local_defaults(inferred=inferred),
            literal=inferred,
            computed=act.computed,
        ),
    )
    commits = []
    changes, kept = plan.changes, state.kept_columns
    if plan.changes.drop and batch.job.ddl.of(act.old).drop_column == "keep":
        new = {column.name: column for column in old}
        kept += tuple(_kept(sink, new[column], at) for column in plan.changes.drop if column in new)
        changes = msgspec.structs.replace(changes, drop=tuple(one for one in plan.changes.drop if one not in new))
    changes, kept = _make_room(work, changes, kept, state)
    changes = msgspec.structs.replace(changes, comments=_comments(act, plan, wanted), comment=act.comments.table)
    if changes:
        if state.origin == "adopted" and work.mark(name) < mark:
            add = tuple(missing_columns(changes.add, sink.columns(name)))
            changes = msgspec.structs.replace(changes, add=add)
        if work.mark(name) < mark:
            _refuse_taken(name, changes, sink.columns(name), at)
        commits.append(Commit((at, step), "ddl", lambda stamp: sink.change_columns(name, changes, stamp)))
    for fill in plan.fills:
        step += 1
        commits.append(Commit((at, step), "fill", _filling(work, name, fill, ts)))
    for rewrite in plan.rewrites:
        commits += _rewriting(work, name, rewrite, plan, (at, step + 1))
        step += 3
    stamped = [Commit((at, step), "stamp", lambda stamp: sink.stamp(name, stamp))]
    stays = (f"column `{column}` was dropped and added by one ALTER: the old values stay" for column in act.replaced)
    moved = _rows_moved(batch.where(act.table), known, act.table)
    return Commits(commits or stamped, "; ".join((*act.inexact, *plan.inexact, *stays, *moved)), kept)


def _comments(act: Alter, plan: ColumnDiff, wanted: Iterable[LakeColumn]) -> tuple[tuple[str, str], ...]:
    """The comments of columns that stay. A new column, also of a type change, has its own with it."""
    texts = {name.casefold(): text for name, text in act.comments.columns.items()}
    new = {one.name for one in (*plan.changes.add, *(rewrite.column for rewrite in plan.rewrites))}
    stays = [(one.name, texts.get(one.source.casefold())) for one in wanted if one.name not in new]
    return tuple((name, text) for name, text in stays if text is not None)


def _rows_moved(where: str, known: Table | None, table: Table) -> Iterator[str]:
    """Why other rows of a table may match its condition after a DDL."""
    column = "" if known is None else changed_column(where, known, table)
    if column:
        yield (
            f"{WHERE} {where!r} names column `{column}`, whose type changed: other rows may meet it now, and only a "
            "full read has them"
        )


def _kept(sink: sink_base.Sink, column: LakeColumn, ts: int) -> KeptColumn:
    kind = HASHES if column.mask is not None and column.mask.how == "hash" else column.column.type
    return KeptColumn(column=Column(name=sink.names.source(column.name), type=kind), dropped=ts)


def _make_room(
    work: TimelineWork, changes: ColumnChanges, kept: Sequence[KeptColumn], state: TableState
) -> tuple[ColumnChanges, tuple[KeptColumn, ...]]:
    """Rename kept columns that the source dropped if a DDL brings columns of their names."""
    after = msgspec.structs.replace(state, kept_columns=tuple(kept))
    held = [column.name for column in work.batch.kept_columns(after)]
    brought = {new.casefold() for _, new in changes.rename} | {column.name.casefold() for column in changes.add}
    moved = tuple(
        KeptColumn(column=_aside(one), dropped=one.dropped) if column.casefold() in brought else one
        for one, column in zip(kept, held, strict=True)
    )
    names = [column.name for column in work.batch.kept_columns(msgspec.structs.replace(state, kept_columns=moved))]
    there = {column.casefold() for column in work.batch.sink.columns(state.full_name)}
    aside = [(one, other) for one, other in zip(held, names, strict=True) if one != other and one.casefold() in there]
    order = (*changes.order, *names) if changes.order else ()
    return msgspec.structs.replace(changes, rename=(*aside, *changes.rename), order=order), moved


def _aside(one: KeptColumn) -> Column:
    name = shortened(one.column.name, _LONGEST)
    return msgspec.structs.replace(one.column, name=f"{name}_dropped_{one.dropped}")


def renames_in_target(act: Alter, old: Iterable[LakeColumn], wanted: Iterable[LakeColumn]) -> dict[str, str]:
    """The columns that a DDL renames, by their names in the target. A rule may keep a name, or exclude a column."""
    before = {column.source.casefold(): column.name for column in old}
    after = {column.source.casefold(): column.name for column in wanted}
    found = {before.get(one.casefold()): after.get(other.casefold()) for one, other in act.renames.items()}
    return {one: other for one, other in found.items() if one is not None and other is not None}


def with_columns_before(work: TimelineWork, state: TableState, act: Alter) -> TableState:
    """Record the lake's columns of a table before the first commit of a DDL, if its schema does not say them.

    After a restart in the middle of the DDL, they can no longer be seen."""
    return msgspec.structs.replace(state, columns_before=tuple(_columns_before(work, state, act).items()))


def _columns_before(work: TimelineWork, state: TableState, act: Alter) -> Mapping[str, str]:
    """The lake's columns, with their types, that the table has before or after a DDL; all columns of an adopted table.
    Empty if the table's schema says them."""
    if state.table is not None and not state.has_unsure_columns:
        return {}
    have = work.batch.sink.columns(act.table.full_name)
    if state.table is None:
        return have
    kept = {column.name.casefold() for column in work.batch.kept_columns(state)}
    # A DDL may have been skipped, perhaps half done, and another writer may have made columns.
    named = (*work.batch.columns(state.table), *work.batch.columns(act.table))
    ours = {column.name.casefold() for column in named} - kept
    return {column: kind for column, kind in have.items() if column.casefold() in ours}


def _refuse_taken(name: TableName, changes: ColumnChanges, have: Mapping[str, str], ts: int) -> None:
    """Stop if columns of another writer have the names that a DDL brings. Raises: DecisionNeeded"""
    freed = {column.casefold() for column in (*changes.drop, *(old for old, _ in changes.rename))}
    brought = (*(new for _, new in changes.rename), *(column.name for column in changes.add))
    there = {column.casefold() for column in have} - freed
    taken = [column for column in brought if column.casefold() in there]
    if taken:
        raise DecisionNeeded(
            f"`{name[0]}`.`{name[1]}`: the DDL at {ts} brings a column `{taken[0]}`, but the target's table already "
            "has one that this job did not create: rename or drop it"
        )


def _filling(work: TimelineWork, name: TableName, fill: Fill, ts: int) -> Callable[[Stamp], None]:
    """Give existing rows the value of a new column."""
    value = _moment(fill.column, ts, work.batch.session_zone.name) if fill.moment else fill.value
    constant = sink_base.Fill(value, work.batch.lake)

    def write(stamp: Stamp) -> None:
        stop_if_new_column_is_gone(work, name, fill.column)
        work.batch.sink.fill_column(name, fill.column, constant, stamp)

    return write


def _moment(column: LakeColumn, commit_ts: int, zone: str | None) -> str:
    """The time of a DDL, as a canonical value of a column: local time of ``zone``, except for a TIMESTAMP."""
    at = datetime.fromtimestamp(tso_physical_ms(commit_ts) / 1000, UTC)
    if column.type.arrow != "instant" and zone is not None:
        at = at.astimezone(time_zone(zone))
    if column.type.arrow == "date":
        return at.strftime("%Y-%m-%d")
    digits = fsp(column.column.type)
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[: 20 + digits if digits else 19]


def _rewriting(work: TimelineWork, name: TableName, rewrite: Rewrite, plan: ColumnDiff, mark: Mark) -> list[Commit]:
    """Three commits: rename the old column aside and add the new one; convert; drop the old column."""
    sink, (at, step), column = work.batch.sink, mark, rewrite.column
    aside = set_column_aside(rewrite, plan, OLD_VALUES)
    drop = ColumnChanges(drop=(OLD_VALUES,))
    conversion = msgspec.structs.replace(rewrite.conversion, lake=work.batch.lake)

    def convert(stamp: Stamp) -> None:
        stop_if_old_values_are_gone(work, name, column.name)
        stop_if_new_column_is_gone(work, name, column)
        sink.convert_column(name, OLD_VALUES, column, conversion, stamp)

    return [
        Commit((at, step), "ddl", lambda stamp: sink.change_columns(name, aside, stamp), column.name),
        Commit((at, step + 1), "fill", convert),
        Commit((at, step + 2), "ddl", lambda stamp: _drop_aside(sink, name, drop, stamp)),
    ]


def _drop_aside(sink: sink_base.Sink, name: TableName, drop: ColumnChanges, stamp: Stamp) -> None:
    """The last commit of a type change. A user may have dropped the column already."""
    if OLD_VALUES in sink.columns(name):
        sink.change_columns(name, drop, stamp)
    else:
        sink.stamp(name, stamp)
