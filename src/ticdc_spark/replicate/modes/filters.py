"""What the job file excludes: tables by ``tables``, and rows older than the first known schema."""

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from ticdc_spark.config.shards import is_merged, shard_of
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.model import SchemaChange, TableName
from ticdc_spark.replicate.missed import EXCLUDED
from ticdc_spark.replicate.plan.ddl_actions import ENTERS, LEAVES, Alter, action
from ticdc_spark.replicate.plan.names import source_tables
from ticdc_spark.replicate.plan.parked import is_parked
from ticdc_spark.replicate.state.progress import QueuedDdl, Shard
from ticdc_spark.replicate.state.table import TableState, diverge
from ticdc_spark.spark.decode.control import ControlEvent, DdlRead, RowsRead, table_of


def leave_out(controls: Sequence[ControlEvent], patterns: Sequence[str]) -> list[ControlEvent]:
    """Drop events that only concern tables excluded by ``tables`` under [job]. A DDL may name several tables."""
    if not patterns:
        return list(controls)
    is_included = table_filter(patterns)

    def concerns(event: ControlEvent) -> bool:
        if isinstance(event, DdlRead):
            named = _named_by(event.change)
            return not named or any(is_included(*name) for name in named)
        name = _named_as(event)
        return name is None or not name[1] or is_included(*name)

    return [event for event in controls if concerns(event)]


def names_left_out(controls: Sequence[ControlEvent], patterns: Sequence[str]) -> dict[TableName, int]:
    """The names in rows and DDLs that ``tables`` under [job] excludes, each with its highest commit_ts."""
    found: dict[TableName, int] = {}
    is_included = table_filter(patterns)
    for event in controls:
        names, ts = _changed(event)
        for name in names:
            if not is_included(*name):
                found[name] = max(ts, found.get(name, 0))
    return found


def _changed(event: ControlEvent) -> tuple[Collection[TableName], int]:
    """The names of the tables that an event changes, and the commit_ts of the last change."""
    match event:
        case RowsRead(summary=summary) if summary.rows:
            return [shard_of(event.schema_key) or (event.schema, event.table)], summary.max_ts
        case DdlRead(change=change):
            return _named_by(change), change.commit_ts
        case _:
            return [], 0


def _named_by(change: SchemaChange) -> set[TableName]:
    """The tables that a DDL names, by their names at the source."""
    before, after = source_tables(change)
    return before | after


def _named_as(event: ControlEvent) -> TableName | None:
    """The table of an event, by its name at the source."""
    shard = shard_of(event.schema_key) if isinstance(event, RowsRead) else None
    return shard or table_of(event)


def judge_left_out(
    tables: Sequence[TableState], patterns: Sequence[str], shards: Iterable[Shard] = ()
) -> tuple[TableState, ...]:
    """Mark tables that ``tables`` under [job] no longer includes: their changes are not read."""
    if not patterns:
        return tuple(tables)
    is_included = table_filter(patterns)
    excluded = {one.full_name for one in shards if not is_included(one.table.schema, one.table.name)}

    def is_read(table: TableState) -> bool:
        name = table.full_name
        return name not in excluded if is_merged(name) else is_included(*_filtered_by(table))

    return tuple(
        table
        if is_read(table) or table.is_dropped or table.has_unsure_columns or _stays(table)
        else diverge(table, table.applied, EXCLUDED, columns=True)
        for table in tables
    )


def _filtered_by(table: TableState) -> TableName:
    """The name that decides whether a table is excluded. For a parked table, it is the name that a DDL may restore."""
    name = table.full_name
    return table.was[-1] if table.was and is_parked(name) else name


def _stays(table: TableState) -> bool:
    """Whether a table is kept, and cannot come back."""
    return table.is_kept and not is_parked(table.full_name)


def at_the_filter(ddls: Sequence[QueuedDdl], patterns: Sequence[str]) -> list[QueuedDdl]:
    """Set the kind of each RENAME from an excluded name to an included one, or the reverse, by ``tables``."""
    if not patterns:
        return list(ddls)
    is_included = table_filter(patterns)
    found = []
    for ddl in ddls:
        act = action(ddl.change)
        if isinstance(act, Alter):
            old, new = is_included(*act.old), is_included(act.table.schema, act.table.name)
            if old != new:
                change = msgspec.structs.replace(ddl.change, kind=ENTERS if new else LEAVES)
                ddl = msgspec.structs.replace(ddl, change=change)
        found.append(ddl)
    return found


def skip_to_known(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    """Return a function: whether ``skip-to-known`` under [schema] skips rows of a table without a schema."""
    return table_filter(patterns) if patterns else lambda _schema, _table: False
