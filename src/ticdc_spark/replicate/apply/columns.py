"""Whether a table still has the columns of its stamp, and what becomes of one that has not."""

import msgspec

from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.state.progress import TableState


def diverged(state: TableState, since: int, why: str) -> TableState:
    """A table that may differ from the source from a commit_ts on."""
    first = since if state.diverged_since is None else state.diverged_since
    return msgspec.structs.replace(state, clean=False, diverged_since=first, diverged_why=state.diverged_why or why)


def stop_if_columns_are_gone(work: TimelineWork, state: TableState) -> None:
    """Stop at a table some of whose columns another writer dropped or renamed; it is marked first.

    Raises: DecisionNeeded
    """
    if state.table is None:
        return
    name = (state.schema, state.name)
    have = {column.casefold() for column in work.batch.sink.columns(name)}
    gone = [column for column in work.batch.columns(state.table) if column.name.casefold() not in have]
    if not gone:
        return
    columns = ", ".join(f"`{column.name}`" for column in gone)
    why = f"another writer dropped or renamed columns in the lake: {columns}"
    work.put(diverged(state, state.applied, why))
    work.settle()
    types = ", ".join(f"{column.name} {column.type.spark}" for column in gone)
    raise DecisionNeeded(
        f"`{name[0]}`.`{name[1]}`: {why}. Rename them back, or add them again (ALTER TABLE … ADD COLUMNS ({types})): "
        "the job goes on, with the table marked as diverged, since rows that were there have NULL in them; or restore "
        "the table from a backup"
    )


__all__ = ["diverged", "stop_if_columns_are_gone"]
