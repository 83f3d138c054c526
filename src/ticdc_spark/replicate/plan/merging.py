"""Merge several tables of the source (shards) into one: its columns, from those of its shards. Pure.

The merged table has every column that a shard has or had, with the widest of their types. It never loses a column.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ticdc_spark.config.shards import merged_table, shard_of, with_plain_key
from ticdc_spark.ddl import statement_of
from ticdc_spark.ddl.statements import CreateTable
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, SchemaChange, Table, TableName
from ticdc_spark.mysql import NO_CONSTANT, default_value, handle_key, is_text
from ticdc_spark.mysql.kept_text import keeps_text
from ticdc_spark.names import folded
from ticdc_spark.replicate.plan.ddl_actions import DropDatabase, action
from ticdc_spark.replicate.plan.names import source_tables
from ticdc_spark.replicate.state.progress import KnownSchema, Progress, QueuedDdl, Shard
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import ControlEvent, DdlRead, RowsRead


class Misfit(Exception):
    """Why a shard cannot be in its merged table."""


def with_shard(merged: Table, origin: Sequence[str], shard: Table, before: Table | None = None) -> Table:
    """A merged table with the columns of a shard added. ``before``: the shard before a DDL; ``None``: the shard is new.

    Raises: Misfit, UsageError
    """
    alone = merged_table(merged.full_name, origin, shard)
    if (before is None or handle_key(before) != handle_key(shard)) and handle_key(alone) != handle_key(merged):
        have, has = handle_key(merged)[len(origin) :], handle_key(shard)
        raise Misfit(f"its key is {', '.join(has)}, but the key of the other tables is {', '.join(have)}")
    known = {} if before is None else {one.name: one for one in before.columns}
    columns = list(merged.columns)
    places = {one.name.casefold(): at for at, one in enumerate(columns)}
    for column in shard.columns:
        was, at = known.get(column.name), places.get(column.name.casefold())
        if was is not None and not _takes(column.type, was.type):
            raise Misfit(
                f"column `{column.name}` becomes {_shown(column.type)}, which cannot hold every {_shown(was.type)}"
            )
        if at is None:
            columns.append(column)
        elif was is None or was.type != column.type:
            columns[at] = _widened(columns[at], column)
    return merged if columns == list(merged.columns) else msgspec.structs.replace(merged, columns=tuple(columns))


def stop_if_alike(origin: Sequence[str], shard: TableName, others: Iterable[TableName]) -> None:
    """Stop if two shards of a merged table would have the same origin. Raises: Misfit"""
    if len(origin) > 1:
        return
    for other in others:
        if other[1].casefold() == shard[1].casefold() and other[0].casefold() != shard[0].casefold():
            raise Misfit(
                f"`{other[0]}`.`{other[1]}` is in it already, with the same text in column `{origin[0]}`. Let `origin` "
                "name two columns, for the database and the table"
            )


def merged_of(name: TableName, origin: Sequence[str], shards: Iterable[Table]) -> Table:
    """The merged table of one or more shards. Raises: Misfit, UsageError"""
    first, *more = shards
    table = merged_table(name, origin, first)
    for shard in more:
        table = with_shard(table, origin, shard)
    return table


def other_defaults(merged: Table, shard: Shard | None, after: Table) -> tuple[str, ...]:
    """Why older rows of a shard differ from the source in columns that its DDL adds, but that the merged table already
    has. ``shard``: the shard before the DDL."""
    if shard is None:
        return ()
    known = {one.name for one in shard.table.columns}
    there = {one.name: one for one in merged.columns}
    found = []
    for column in after.columns:
        if column.name in known or column.name not in there:
            continue
        mine, theirs = (default_value(one) for one in (column, there[column.name]))
        if column.name in shard.dropped:
            found.append(f"column `{column.name}` comes again: the rows of `{after.name}` have their old values")
        elif mine is NO_CONSTANT or mine != theirs or column.stored:
            found.append(f"column `{column.name}`: rows of `{after.name}` from before it may have another default")
    return tuple(found)


def with_change(shards: Mapping[TableName, Shard], change: SchemaChange) -> dict[TableName, Shard]:
    """The shards after a DDL, by their names at the source."""
    dropped_with = {shard for _, shard in change.shards}
    found = {name: one for name, one in shards.items() if name not in dropped_with}
    if change.merged is None:
        return found
    before, after = source_tables(change)
    for name in before - after:
        found.pop(name, None)
    table = change.table
    if table is not None and (name := table.full_name) in after:
        old = None if _is_create(change) else found.get(name)
        dropped = set[str]() if old is None else {*old.dropped, *(one.name for one in old.table.columns)}
        dropped -= {one.name for one in table.columns}
        found[name] = Shard(
            schema=change.merged[0],
            name=change.merged[1],
            table=table,
            dropped=tuple(sorted(dropped)),
            topics=() if old is None else old.topics,
        )
    return found


def with_dropped_shards(
    ddls: Sequence[QueuedDdl], before: Iterable[Shard], states: Mapping[TableName, TableState]
) -> list[QueuedDdl]:
    """DDLs in their order, where each DROP DATABASE has the shards that it drops. ``before``, ``states``: the shards
    and tables before all DDLs. A DROP DATABASE that is queued again, for a table that is read late, drops no shard
    that was created since."""
    shards, found = by_source(before), []
    for ddl in ddls:
        act = action(ddl.change)
        if isinstance(act, DropDatabase):
            ts = ddl.change.commit_ts
            passed = {name for name, state in states.items() if state.applied >= ts}
            dropped = tuple(
                (merged, name)
                for name, one in sorted(shards.items())
                if name[0] == act.name and (merged := one.full_name) not in passed
            )
            change = msgspec.structs.replace(ddl.change, shards=dropped)
            ddl = msgspec.structs.replace(ddl, change=change)
        shards = with_change(shards, ddl.change)
        found.append(ddl)
    return found


def with_shards(
    progress: Progress,
    ddls: Iterable[QueuedDdl],
    states: Mapping[TableName, TableState],
    schemas: Mapping[tuple[str, str, str], Table],
) -> Progress:
    """The progress of a batch with the shards after it. ``ddls``: DDLs that it took; ``states``: the tables after it.

    A shard whose CREATE TABLE was not read becomes known by its first rows.
    """
    shards = by_source(progress.shards)
    named = by_key(progress.shards)
    by_ddl: set[TableName] = set()
    topics: dict[TableName, set[str]] = {}
    for ddl in ddls:
        shards = with_change(shards, ddl.change)
        for name in source_tables(ddl.change)[1] if ddl.change.merged is not None else ():
            topics.setdefault(folded(name), set()).add(ddl.topic)
        named |= by_key(shards.values())
        by_ddl.update(folded(name) for both in source_tables(ddl.change) for name in both)
    for rows in progress.pending:
        key, name = shard_of(rows.schema_key), rows.full_name
        table = schemas.get((*name, rows.schema_key))
        table = table or schemas.get((*name, with_plain_key(rows.schema_key, "*")))
        if key is not None:
            topics.setdefault(key, set()).add(rows.topic)
        if key is None or key in named or key in by_ddl or table is None:
            continue
        if name not in states or rows.min_ts > states[name].applied:
            continue
        shards[table.full_name] = named[key] = Shard(schema=name[0], name=name[1], table=table)
    gone = named.keys() - by_key(shards.values()).keys()
    waiting = {(rows.schema, rows.name, rows.schema_key) for rows in progress.pending}

    def is_needed(one: KnownSchema) -> bool:
        shard, name = shard_of(one.key), one.full_name
        if shard is None or shard not in gone or (*name, one.key) in waiting or name not in states:
            return True
        # The schema of a later table of its name may be known already.
        return one.since > states[name].applied or (one.table.version or 0) > (named[shard].table.version or 0)

    kept = tuple(filter(is_needed, progress.schemas))
    return msgspec.structs.replace(progress, shards=_with_topics(shards.values(), topics), schemas=kept)


def seen_shards(shards: Sequence[Shard], controls: Iterable[ControlEvent]) -> tuple[Shard, ...]:
    """Record the topics of known shards."""
    topics: dict[TableName, set[str]] = {}
    for event in controls if shards else ():
        if isinstance(event, RowsRead) and (shard := shard_of(event.schema_key)) is not None:
            topics.setdefault(shard, set()).add(event.topic)
        elif isinstance(event, DdlRead) and event.change.merged is not None:
            for name in source_tables(event.change)[0]:
                topics.setdefault(folded(name), set()).add(event.topic)
    return _with_topics(shards, topics)


def _with_topics(shards: Iterable[Shard], topics: Mapping[TableName, set[str]]) -> tuple[Shard, ...]:
    """Add topics to shards. ``topics``: by the shards' names in schema keys."""
    found = []
    for one in shards:
        new = topics.get(folded(one.table.full_name), set()) - {*one.topics}
        found.append(msgspec.structs.replace(one, topics=tuple(sorted({*one.topics, *new}))) if new else one)
    return tuple(found)


def by_source(shards: Iterable[Shard]) -> dict[TableName, Shard]:
    """Shards by their names at the source."""
    return {one.table.full_name: one for one in shards}


def by_key(shards: Iterable[Shard]) -> dict[TableName, Shard]:
    """Shards by their names in schema keys."""
    return {folded(one.table.full_name): one for one in shards}


def first_creates(ddls: Iterable[QueuedDdl]) -> dict[TableName, int]:
    """The commit_ts of the first CREATE TABLE of each shard, by the shard's name in schema keys."""
    found: dict[TableName, int] = {}
    for change in (ddl.change for ddl in ddls):
        if change.merged is not None and _is_create(change):
            for name in source_tables(change)[1]:
                found[folded(name)] = min(change.commit_ts, found.get(folded(name), change.commit_ts))
    return found


def _is_create(change: SchemaChange) -> bool:
    try:
        return isinstance(statement_of(change), CreateTable)
    except MessageError:
        return False


def _widened(have: Column, column: Column) -> Column:
    """The column of the merged table that holds the values of both. Raises: Misfit"""
    if have.name != column.name:
        raise Misfit(f"column `{column.name}` is spelled `{have.name}` in the other tables")
    if {have.virtual, column.virtual} == {True, False} or {have.stored, column.stored} == {True, False}:
        raise Misfit(f"column `{column.name}` is generated in some of the tables, but not in all")
    if _takes(have.type, column.type):
        return have
    if _takes(column.type, have.type):
        return msgspec.structs.replace(have, type=column.type)
    raise Misfit(
        f"column `{column.name}` is {_shown(column.type)}, but {_shown(have.type)} in the other tables, and neither "
        "type has all values of the other"
    )


def _takes(wide: ColumnType, narrow: ColumnType) -> bool:
    """Whether a type has every value of another type, with the same text."""
    one, other = _plain(narrow), _plain(wide)
    if one == other:
        return True
    return keeps_text(one, other) and not (_is_flag(other) and not _is_flag(one))


def _is_flag(kind: ColumnType) -> bool:
    """Whether a type may be a boolean in the target."""
    return kind.name == "tinyint" and kind.length == 1


def _plain(kind: ColumnType) -> ColumnType:
    """A type without its collation."""
    return msgspec.structs.replace(kind, charset=None, collate=None) if is_text(kind) or kind.elements else kind


def _shown(kind: ColumnType) -> str:
    size = "" if kind.length is None else f"({kind.length})"
    return f"{kind.name.upper()}{size}{' UNSIGNED' if kind.unsigned else ''}"
