"""Apply a DDL that removes the rows of partitions, in one commit."""

from collections.abc import Sequence

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.ddl.partition_rows import Alternatives
from ticdc_spark.model import Table
from ticdc_spark.mysql import keep_hidden_columns
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.apply.columns import stop_if_columns_are_gone
from ticdc_spark.replicate.plan.ddl_actions import Exchange, Thin
from ticdc_spark.replicate.state.table import TableState, unverify
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.spark.types import LakeColumn

_MOST_CHECKED = 1024
"""Most partitions of a table whose rows are checked against partition ids: each new id is looked up in all of them."""


def thin(work: TimelineWork, act: Thin, mark: Mark, ts: int) -> None:
    """Remove the rows of partitions. Raises: DecisionNeeded, SinkFault"""
    name = act.table.full_name
    state, now = work.state(name), work.mark(name)
    if state is None or state.table is None or now >= mark:
        return
    after = msgspec.structs.replace(
        state,
        table=keep_hidden_columns(act.table, state.table),
        applied=ts,
        ddl_ts=ts,
        partition_ids=(),
    )
    if now == NO_MARK:  # A later DDL dropped or renamed it before a restart: only its former state is known.
        work.put(after)
        return
    stop_if_columns_are_gone(work, state)
    sink, where = work.batch.sink, conditions(work.batch, state.table, act.where)
    if work.batch.job.ddl.of(name).truncate_table == "keep" or not where:
        after = unverify(after) if where else after
        work.commit(after, mark, mark[0], lambda stamp: sink.stamp(name, stamp))
    else:
        work.commit(after, mark, mark[0], lambda stamp: sink.delete_where(name, where, stamp))
    failpoints.point("ddl")


def partitions_to_check(state: TableState, columns: Sequence[LakeColumn]) -> Table | None:
    """The table, if the partitions of its rows can be recorded; ``None``: its partitions are not known, or doubtful.

    ``columns``: of the target, which may lack the columns that define the partitions."""
    known = None if state.table is None else state.table.partitioning
    if known is None or known.doubt or not known.columns or len(known.partitions) > _MOST_CHECKED:
        return None
    there = {column.source.casefold() for column in columns if column.mask is None}
    return state.table if all(name.casefold() in there for name in known.columns) else None


def doubt_of(work: TimelineWork, act: Thin | Exchange, mark: Mark) -> str:
    """Why rows may be in other partitions than the DDL was planned with, as rows before it have shown since; ``""``:
    they are not."""
    name = act.table.full_name
    state = work.state(name)
    if state is None or state.table is None or work.mark(name) >= mark:
        return ""
    if state.table.partitioning == act.by:
        return ""
    known = state.table.partitioning
    return (known and known.doubt) or "what came before it has changed what is known of the partitions of the table"


def conditions(batch: Batch, table: Table, where: Alternatives) -> tuple[tuple[Condition, ...], ...]:
    """Conditions on the target's columns that match the same rows."""
    columns = {column.source.casefold(): column for column in batch.columns(table)}
    return tuple(
        tuple(
            Condition(
                column=columns[test.column.casefold()],
                at_least=test.at_least,
                below=test.below,
                any_of=test.any_of,
                none_of=test.none_of,
                remainder=test.remainder,
                rtrim=test.rtrim,
                or_null=test.or_null,
                lake=batch.lake,
            )
            for test in tests
        )
        for tests in where
    )


def with_partitions_of(table: Table, other: Table | None) -> Table:
    """A table with the partitions of another version of it, if there is one."""
    return table if other is None else msgspec.structs.replace(table, partitioning=other.partitioning)
