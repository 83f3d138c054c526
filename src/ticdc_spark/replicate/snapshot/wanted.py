"""Which tables need a full read, and when a table that was read equals the source. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.config.job import Job, SnapshotKeys
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.shards import is_merged
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.ddl.renaming import quoted
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.replicate.plan.catch_up import database_of
from ticdc_spark.replicate.plan.holds import Bounds
from ticdc_spark.replicate.plan.names import joined_to, source_tables, tables_before_and_after, tables_of
from ticdc_spark.replicate.schemas.history import VALID_THEN
from ticdc_spark.replicate.state.progress import KnownSchema, Progress, QueuedDdl, RefusedLoad, WantedLoad
from ticdc_spark.replicate.state.table import TableState, diverge, is_new, lift, settle_load
from ticdc_spark.sinks.mark import NO_MARK

Wants = Callable[[str, str], bool]


def wanted_tables(keys: SnapshotKeys, job: Job) -> Wants:
    """Return a function: whether a table may be read in full. Both ``tables`` under ``[snapshot]`` and ``tables`` under
    ``[job]`` must include it."""
    some, every = table_filter(keys.tables or ["*.*"]), table_filter(job.tables or ["*.*"])
    return lambda schema, name: some(schema, name) and every(schema, name)


def reads_unknown(keys: SnapshotKeys, job: Job, dumped: int | None) -> Callable[[TableName, int], bool]:
    """Return a function: whether a table that the job does not know is read in full, if its messages need a schema from
    a commit_ts on. ``dumped``: the commit_ts of the dump to read from; ``None``: it is a database."""
    wants, routes = wanted_tables(keys, job), compiled(job.routes)

    def reads(name: TableName, commit_ts: int) -> bool:
        # The message of a DDL may lack the database: then no table has the name.
        is_plain = bool(name[0]) and not is_merged(name) and not routes.merged(name)
        return is_plain and wants(*name) and (dumped is None or commit_ts <= dumped)

    return reads


def nothing_to_read(keys: SnapshotKeys) -> str:
    """The text for a source without a table to read."""
    text = "the source has no table that `tables` under [snapshot] and [job] include"
    return text if keys.upstream is None else f"{text}, or its user lacks the grant SELECT"


def with_new_tables(progress: Progress, there: Iterable[TableName], at: int) -> Progress:
    """Request full reads of the source's tables that the job has never seen."""
    known = {table.full_name for table in progress.tables}
    return _with(progress, [name for name in there if name not in known], at)


def with_new_shards(
    progress: Progress, merged: Iterable[TableName], shards_of: Callable[[TableName], Collection[TableName]]
) -> Progress:
    """Request full reads of merged tables that may lack a shard. The shard's CREATE TABLE may still be on its way,
    which is not known before it is read."""
    known = {one.table.full_name for one in progress.shards}
    return _with(progress, [name for name in merged if not known >= {*shards_of(name)}], 0)


def with_unknown_tables(progress: Progress, reads: Callable[[TableName, int], bool], at: int) -> Progress:
    """Request full reads of tables that the job does not know, and whose messages wait for a schema."""
    states, refused = progress.states(), {one.full_name for one in progress.refused if not one.from_topic}
    waiting = [(one.full_name, one.until + 1) for one in progress.catching_up if one.until is not None]
    waiting = [one for one in waiting if one[0] not in refused]
    return _with(progress, [name for name, ts in waiting if is_new(states.get(name), ts) and reads(name, ts)], at)


def with_known_schemas(progress: Progress, tables: Mapping[TableName, Table], since: int) -> Progress:
    """The progress with the schemas of tables that the source has, and that cannot be read in full."""
    schemas = [
        KnownSchema(schema=schema, name=name, key=VALID_THEN, table=table, since=since)
        for (schema, name), table in tables.items()
    ]
    return msgspec.structs.replace(progress, schemas=(*progress.schemas, *schemas)) if schemas else progress


def with_partial_tables(progress: Progress, gone: Collection[tuple[TableName, int]], wants: Wants) -> Progress:
    """Request full reads of tables that began with a message other than their CREATE TABLE. ``gone``: tables that the
    source did not have, each with the commit_ts of its last DDL."""
    found = [
        table.full_name
        for table in progress.tables
        if _is_partial(table) and wants(table.schema, table.name) and (table.full_name, table.ddl_ts) not in gone
    ]
    return _with(progress, found, 0)


def _is_partial(table: TableState) -> bool:
    begun = table.load is not None or table.settles or table.origin != "bootstrap"
    return not (begun or table.is_clean or table.is_gone or table.mark == NO_MARK)


def _with(progress: Progress, names: Iterable[TableName], at: int) -> Progress:
    have = {one.full_name for one in progress.wanted}
    new = [WantedLoad(schema=schema, name=name, at=at) for schema, name in names if (schema, name) not in have]
    return msgspec.structs.replace(progress, wanted=(*progress.wanted, *new)) if new else progress


def without(progress: Progress, names: Collection[TableName]) -> Progress:
    """Remove the requests for some tables."""
    left = tuple(one for one in progress.wanted if one.full_name not in names)
    return progress if len(left) == len(progress.wanted) else msgspec.structs.replace(progress, wanted=left)


def with_refused(progress: Progress, name: TableName, why: str, *, from_topic: bool = True) -> Progress:
    """The progress without a request, and with the reason for refusing it."""
    others = tuple(one for one in progress.refused if one.full_name != name)
    refused = (*others, RefusedLoad(schema=name[0], name=name[1], why=why, from_topic=from_topic))
    return msgspec.structs.replace(without(progress, {name}), refused=refused)


def joined(progress: Progress, name: TableName, base: int) -> set[TableName]:
    """A table, and those that a waiting DDL up to ``base`` joins with it: once a RENAME is applied, one is another."""
    return joined_to({name}, (ddl.change for ddl in progress.ddls if ddl.change.commit_ts <= base))


def without_passed(progress: Progress, bases: Mapping[TableName, int]) -> Progress:
    """The progress without waiting DDLs that a full read already includes, since it has the columns of its base.
    ``bases``: the bases of the reads that begin, by table."""
    left = tuple(
        ddl
        for ddl in progress.ddls
        if not (names := tables_of(ddl.change)) or any(bases.get(name, 0) < ddl.change.commit_ts for name in names)
    )
    return progress if len(left) == len(progress.ddls) else msgspec.structs.replace(progress, ddls=left)


def waits_for_read(progress: Progress, name: TableName, base: int) -> bool:
    """Whether rows or DDLs up to ``base`` wait, of a table that the job has never met."""
    state = progress.states().get(name)
    times = [one.min_ts for one in progress.pending if one.full_name == name]
    times += [ddl.change.commit_ts for ddl in progress.ddls if name in tables_of(ddl.change)]
    return any(ts <= base and is_new(state, ts) for ts in times)


def needs_schema(progress: Progress, name: TableName, base: int) -> bool:
    """Whether what waits of such a table needs a schema that is not known."""
    return waits_for_read(progress, name, base) and not any(one.full_name == name for one in progress.schemas)


def is_unexplained(progress: Progress, name: TableName, base: int) -> bool:
    """Whether by its messages a table that the job has never met is there at ``base``: no DDL took it away since."""
    if not waits_for_read(progress, name, base):
        return False
    # A shard has its own name here: a RENAME may make one of a table.
    tables = tables_before_and_after if is_merged(name) else source_tables
    gone, there = 0, [one.max_ts for one in progress.pending if one.full_name == name and one.max_ts <= base]
    for change in (ddl.change for ddl in progress.ddls if ddl.change.commit_ts <= base):
        before, after = tables(change)
        if name in before - after or database_of(change) == name[0]:
            gone = max(gone, change.commit_ts)
        elif name in after:
            there.append(change.commit_ts)
    return not gone or max(there, default=0) > gone


Fate: TypeAlias = Literal["read", "gone", "excluded"]
"""What becomes of a table: it is read in full, the source does not have it, or the job does not replicate it."""


def with_joined(progress: Progress, base: int, fates: Mapping[TableName, Fate]) -> Progress:
    """The progress before tables are read in full together, as they are at ``base``. Nothing needs the waiting DDLs up
    to ``base`` any more that name only them. Tables to read wait at ``base``. The job drops those that are gone. What
    is not read loses its waiting rows."""
    states = progress.states()
    due = [
        (ddl, of)
        for ddl in progress.ddls
        if ddl.change.commit_ts <= base and (of := tables_of(ddl.change)) & fates.keys()
    ]
    loads = any(fate != "read" and name in states and states[name].load is not None for name, fate in fates.items())
    if loads or not all(of <= fates.keys() for _, of in due):
        return progress
    drops: list[QueuedDdl] = []
    left: set[TableName] = set()
    for name, fate in sorted(fates.items()):
        passed, state = [ddl for ddl, of in due if name in of], states.get(name)
        if not passed and state is not None and not state.is_dropped:
            continue
        if state is not None:
            states[name] = _without_ddls(state, fate)
        if fate != "read":
            left.add(name)
        if passed and fate == "gone" and (state is None or not state.is_gone):
            change = _drop_of(name, base, None if state is None else state.table)
            drops.append(msgspec.structs.replace(passed[-1], change=change, waits=()))
    over = [ddl for ddl, _ in due]
    read = [name for name, fate in fates.items() if fate == "read"]
    wanted = tuple(one for one in progress.wanted if one.full_name not in read)
    return msgspec.structs.replace(
        progress,
        tables=tuple(states.values()),
        ddls=(*(ddl for ddl in progress.ddls if ddl not in over), *drops),
        pending=tuple(one for one in progress.pending if one.full_name not in left or one.max_ts > base),
        wanted=(*wanted, *(WantedLoad(schema=one[0], name=one[1], at=base, asked=True) for one in sorted(read))),
    )


def _without_ddls(state: TableState, fate: Fate) -> TableState:
    """A table whose waiting DDLs are left to a full read of the tables that they name."""
    if state.is_dropped and fate == "read":
        # Another table has its name. Until that one is read, `status` shows that it waits.
        return TableState(
            schema=state.schema, name=state.name, applied=state.applied, ddl_ts=state.ddl_ts, topics=state.topics
        )
    if state.is_gone:
        return state
    if fate == "read":
        return diverge(state, state.applied, "a DDL was left to a full read of it")
    why = state.quarantined or "the source dropped or renamed it, and its waiting rows are not applied"
    return diverge(lift(state), state.applied, why)


def _drop_of(full_name: TableName, ts: int, table: Table | None) -> SchemaChange:
    schema, name = full_name
    query = f"DROP TABLE {quoted(full_name)}"
    return SchemaChange(commit_ts=ts, query=query, kind="DROP", schema=schema, name=name, pre_table=table)


def with_settled(states: Mapping[TableName, TableState], resolved: int, bounds: Bounds) -> dict[TableName, TableState]:
    """Tables after a batch. A table whose full read has rows of several moments equals the source after the last."""
    found = dict(states)
    for name, state in states.items():
        if 0 < state.settles <= min(resolved, bounds.get(name, resolved)) and not state.is_quarantined:
            found[name] = settle_load(state)
    return found
