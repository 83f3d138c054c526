"""Policy: which DDLs the job file skips, and which DDLs stop the job. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import msgspec

from ticdc_spark.config.ddl import OfPartitions
from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.config.shards import is_merged, merged_table, target_of
from ticdc_spark.config.values import skip_ddl_line
from ticdc_spark.ddl import change_tables
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.replicate.plan.column_diff import ColumnDefaults, ColumnDiff, SessionZone, column_diff
from ticdc_spark.replicate.plan.ddl_actions import (
    Action,
    Alter,
    Drop,
    DropDatabase,
    Enter,
    Leave,
    Refused,
    Thin,
    Truncate,
    action,
    is_of_partitions,
    names,
)
from ticdc_spark.replicate.plan.merging import Misfit, stop_if_alike, with_shard
from ticdc_spark.replicate.plan.shard_actions import Absorb, Clear
from ticdc_spark.replicate.state.progress import QueuedDdl
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.types import LakeOptions

Tables: TypeAlias = Mapping[TableName, Table]


def is_skipped(job: Job, change: SchemaChange) -> bool:
    """Whether ``skip-ddl`` or ``partition-ddl`` skips a DDL and marks its tables."""
    return bool(left_out_by(job, change))


def left_out_by(job: Job, change: SchemaChange) -> str:
    """The key of the job file that skips a DDL; ``""``: none does."""
    if any(skip.matches(change.commit_ts, change.query) for skip in job.skip_ddl):
        return "skip-ddl"
    if is_of_partitions(change) and isinstance(action(change), Refused) and partition_ddl(job, change) != "stop":
        return "partition-ddl"
    return ""


def partition_ddl(job: Job, change: SchemaChange) -> OfPartitions:
    """What the job does with a DDL on partitions whose rows it cannot compute."""
    return job.ddl.of(_partitioned(change)).partition_ddl


def way_to_mark(job: Job, change: SchemaChange) -> str:
    """One line: how to let the job pass DDLs on partitions whose rows it cannot compute."""
    section = job.ddl.section_of(_partitioned(change), "partition-ddl")
    return f'To mark the tables of every such DDL and go on, under {section}: partition-ddl = "mark"'


def _partitioned(change: SchemaChange) -> TableName:
    """The table whose partitions a DDL changes."""
    try:
        first = change_tables(change)[0][:1]
    except MessageError:
        first = ()
    return first[0] if first else change.full_name


class Stop(msgspec.Struct, frozen=True):
    """Why a DDL stops the job, and what the user can do."""

    why: str
    ways: tuple[str, ...]
    """Options of one line each, with the key of the job file."""


def stop_of(job: Job, change: SchemaChange, tables: Tables, types: TypeMap) -> Stop | None:
    """Why the job stops before a DDL: it cannot be replayed, or ``[ddl]`` says so. ``tables``: those before the DDL.

    Returns: ``None`` when the job does not stop.
    """
    if is_skipped(job, change):
        return None
    skip = f"To skip exactly this one, under [job]: {skip_ddl_line(change.commit_ts, change.query)}"
    act = action(change)
    if isinstance(act, Absorb) and (why := _misfit(job, act, tables)):
        target = shown(target_of(act.name))
        apart = "To copy the table by itself, take it out of `tables` under [[route]]" if act.is_new else ""
        what = f"{shown(act.shard.full_name)} does not fit into {target}: {why}"
        return Stop(what, tuple(filter(None, (apart, skip))))
    if isinstance(act, Refused):
        others = (way_to_mark(job, change),) if act.rows_only else ()
        return Stop(f"a DDL cannot be replayed: {act.why}", (skip, *others))
    if any(one.matches(change.commit_ts, change.query) for one in job.ddl.allow):
        return None
    stopping = next(_stopping(job, act, change, tables, types), None)
    if stopping is None:
        return None
    table, key = stopping
    section = job.ddl.section_of(table, key)
    allow = skip_ddl_line(change.commit_ts, change.query).replace("skip-ddl", "allow", 1)
    every = f'To apply every such DDL, under {section}: {key} = "apply"'
    ways = (f"To apply exactly this one, under [ddl]: {allow}", skip, every)
    return Stop(f'a DDL stops the job, by {key} = "stop" under {section}', ways)


def first_stop(job: Job, ddls: Iterable[QueuedDdl], tables: Tables, types: TypeMap) -> tuple[QueuedDdl, Stop] | None:
    """The first of some DDLs, in order, before which the job stops. ``tables``: those before the first DDL."""
    known = dict(tables)
    for ddl in ddls:
        if (stop := stop_of(job, ddl.change, known, types)) is not None:
            return ddl, stop
        known = tables_after(job, known, ddl.change)
    return None


def _misfit(job: Job, act: Absorb, tables: Tables) -> str:
    """Why a shard does not fit into its merged table; ``""``: it does."""
    try:
        _absorbed(job, act, tables)
    except (Misfit, UsageError) as why:
        return str(why)
    return ""


def _absorbed(job: Job, act: Absorb, tables: Tables) -> Table:
    routes, shard = compiled(job.routes), act.shard
    origin = routes.origin(act.name)
    if len(origin) == 1 and act.is_new:
        alike = (name for name in tables if name[1].casefold() == shard.name.casefold() and not is_merged(name))
        stop_if_alike(origin, shard.full_name, (one for one in alike if routes.merged(one) == act.name))
    if act.name not in tables:
        return merged_table(act.name, origin, shard)
    before = None if act.is_new else act.before or tables.get(shard.full_name)
    return with_shard(tables[act.name], origin, shard, before)


def _after_shard(job: Job, tables: Tables, act: Absorb | Clear) -> dict[TableName, Table]:
    known = dict(tables)
    if isinstance(act, Clear):
        for name in act.shards if act.is_drop else ():
            known.pop(name, None)
        return known
    with suppress(Misfit, UsageError):  # The DDL is skipped, or stops the job.
        known[act.name] = _absorbed(job, act, tables)
    return known | {act.shard.full_name: act.shard}


def tables_after(job: Job, tables: Tables, change: SchemaChange) -> dict[TableName, Table]:
    """The known tables after a DDL."""
    act = action(change)
    if isinstance(act, Absorb | Clear):
        return _after_shard(job, tables, act)
    drops = isinstance(act, Drop | DropDatabase)
    gone = names(act, tables) if drops else (act.old,) if isinstance(act, Alter) else ()
    gone = tuple(name for name in gone if not is_merged(name))
    known = {name: table for name, table in tables.items() if name not in gone}
    if change.table is not None and not drops:
        known[change.table.schema, change.table.name] = change.table
    return known


def _stopping(
    job: Job, act: Action, change: SchemaChange, tables: Tables, types: TypeMap
) -> Iterator[tuple[TableName, str]]:
    """The keys of ``[ddl]`` that stop the job before a DDL, each with the table that the key applies to."""

    stops = partial(_stops, job)
    match act:
        case Drop() | DropDatabase():
            shards = [name for one in act.shards for name in one.shards] if isinstance(act, DropDatabase) else []
            for name in (*(one for one in names(act, tables) if not is_merged(one)), *shards):
                yield from stops(name, "drop-table")
        case Absorb() | Clear():
            yield from _stopping_of_shard(job, act, tables, types)
        case Truncate(table) | Thin(table):
            yield from stops(table.full_name, "truncate-table")
        case Enter(rename=rename) | Leave(rename=rename):
            yield from stops(rename.old, "rename-table")
        case Alter(old, table):
            if old != table.full_name:
                yield from stops(old, "rename-table")
            yield from _stopping_columns(job, act, change.pre_table or tables.get(old), types)


def _stopping_of_shard(
    job: Job, act: Absorb | Clear, tables: Tables, types: TypeMap
) -> Iterator[tuple[TableName, str]]:
    if isinstance(act, Clear):
        for name in act.shards:
            yield from _stops(job, name, "drop-table" if act.is_drop else "truncate-table")
        return
    name = act.shard.full_name
    before = None if act.is_new else act.before or tables.get(name)
    yield from _stopping_columns(job, Alter(name, act.shard, {}), before, types)


def _stopping_columns(job: Job, act: Alter, before: Table | None, types: TypeMap) -> Iterator[tuple[TableName, str]]:
    wanted = frozenset(key for _, key in _stops(job, act.old, "drop-column", "rename-column", "modify-column"))
    if wanted and before is not None and before.columns != act.table.columns:
        yield from ((act.old, key) for key in _of_columns(job, act, before, types) if key in wanted)


def _stops(job: Job, name: TableName, *keys: str) -> Iterator[tuple[TableName, str]]:
    """The keys among ``keys`` that stop the job before a DDL of a table, each with the table."""
    in_force = job.ddl.of(name)
    return ((name, key) for key in keys if getattr(in_force, key.replace("-", "_")) == "stop")


def _of_columns(job: Job, act: Alter, before: Table, types: TypeMap) -> Iterator[str]:
    try:
        found = _evolved(job, act, before, types)
    except (MessageError, UsageError):
        return  # It stops the job when it is applied.
    if found.changes.drop:
        yield "drop-column"
    if any(one.casefold() != other.casefold() for one, other in found.changes.rename):
        yield "rename-column"
    if found.changes.promote or found.rewrites:
        yield "modify-column"


def _evolved(job: Job, act: Alter, before: Table, types: TypeMap) -> ColumnDiff:
    """What a DDL does to the columns that the target has. New columns stop nothing."""
    lake = LakeOptions(tinyint1_as_boolean=job.tinyint1 == "boolean", zero_dates=job.zero_dates)
    old, new = (types.columns(table, handle_key(table), lake) for table in (before, act.table))
    renames = {one.casefold(): other.casefold() for one, other in act.renames.items()}
    there = {renames.get(one.source.casefold(), one.source.casefold()) for one in old}
    held = {one.source.casefold(): one.name for one in (*old, *new)}
    return column_diff(
        {one.name: one.type.name for one in old},
        tuple(one for one in new if one.source.casefold() in there),
        {held[one]: held[other] for one, other in renames.items() if one in held and other in held},
        types,
        old=old,
        defaults=ColumnDefaults(session=SessionZone(job.ddl_zone, job.ambiguous_timestamp)),
    )
