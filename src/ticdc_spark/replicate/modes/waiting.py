"""Rows that wait for their schema, and how far tables may go before them. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from ticdc_spark.config.shards import key_of_shard, plain_key, shard_of, with_plain_key
from ticdc_spark.model import TableName
from ticdc_spark.replicate.modes.base import SchemaWaits
from ticdc_spark.replicate.plan.merging import first_creates
from ticdc_spark.replicate.plan.names import joined_to, model_of, tables_before_and_after
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN, bound_of_schemas
from ticdc_spark.replicate.schemas.sql_ddl import is_newer
from ticdc_spark.replicate.state.progress import PendingRows, Progress, Shard
from ticdc_spark.replicate.state.table import is_new

IsKnown: TypeAlias = Callable[[PendingRows, int], bool]


@dataclass(frozen=True, slots=True)
class SchemaNeeds:
    """What waits for schemas, with the events of a batch."""

    progress: Progress
    waits: SchemaWaits
    is_known: IsKnown
    ddls: tuple["_NeedingDdl", ...]
    """The waiting DDLs that need a schema which is not known, in order; none if the job reads no tables in full."""


def schema_needs(progress: Progress, waits: SchemaWaits) -> SchemaNeeds:
    """``progress``: with the events of the batch."""
    ddls = () if waits.reads is None else tuple(_ddls_without_schema(progress))
    return SchemaNeeds(progress, waits, _knows(progress, waits), ddls)


def held_by_schemas(needs: SchemaNeeds, resolved: int) -> tuple[int, tuple[PendingRows, ...]]:
    """How far tables may go before rows of unknown schema, at most ``resolved``; and those rows."""
    unread = _unread(needs, resolved)
    rows = [one for one in needs.progress.pending if one.full_name not in unread]
    return bound_of_schemas(rows, resolved, needs.is_known)


def held_by_reads(needs: SchemaNeeds, resolved: int) -> dict[TableName, int]:
    """Tables that wait for a full read, and whose rows or DDLs up to ``resolved`` need an unknown schema; each with the
    commit_ts of the first of these. They hold no other table: the read brings the schema."""
    unread, progress = _unread(needs, resolved), needs.progress
    first: dict[TableName, int] = {}
    for one in needs.ddls if unread else ():
        if one.commit_ts <= resolved:
            first |= {name: one.commit_ts for name in one.tables & unread if name not in first}
    dumps = {one.full_name: one.at for one in progress.wanted if one.at}
    for name, rows in _by_table(progress.pending, unread).items():
        # A table of a dump waits there, and DDLs behind it with the table.
        _, missing = bound_of_schemas(rows, min(resolved, dumps.get(name, resolved)), needs.is_known)
        if missing:
            first[name] = min(first.get(name, resolved), *(one.min_ts for one in missing))
    return first


def _unread(needs: SchemaNeeds, resolved: int) -> frozenset[TableName]:
    """The tables that wait for their full read, or that are unknown and get one; and other names that waiting DDLs give
    them or gave them."""
    progress, reads = needs.progress, needs.waits.reads
    if reads is None:
        return frozenset()
    found = {one.full_name for one in progress.wanted if not one.from_topic}
    states, refused = progress.states(), {one.full_name for one in progress.refused if not one.from_topic}
    for one in needs.ddls:
        if one.commit_ts <= resolved:
            new = (name for name in one.unknown - refused if is_new(states.get(name), one.commit_ts))
            found.update(name for name in new if reads(name, one.commit_ts))
    unmet = {one.full_name for one in progress.pending if is_new(states.get(one.full_name), one.min_ts)}
    for name, rows in _by_table(progress.pending, unmet - found - refused).items():
        _, missing = bound_of_schemas(rows, resolved, needs.is_known)
        if missing and reads(name, missing[0].min_ts):
            found.add(name)
    return frozenset(joined_to(found, (ddl.change for ddl in progress.ddls)) if found else ())


def _by_table(pending: Iterable[PendingRows], names: Collection[TableName]) -> dict[TableName, list[PendingRows]]:
    found: dict[TableName, list[PendingRows]] = {}
    for rows in pending:
        if rows.full_name in names:
            found.setdefault(rows.full_name, []).append(rows)
    return found


class _NeedingDdl(msgspec.Struct, frozen=True):
    commit_ts: int
    tables: set[TableName]
    unknown: set[TableName]
    """The tables whose schema it needs."""


def _ddls_without_schema(progress: Progress) -> Iterator[_NeedingDdl]:
    states = progress.states()
    known = {name for name, table in states.items() if table.table is not None and not table.is_gone}
    known |= {one.full_name for one in progress.schemas}
    for ddl in in_order(progress.ddls):
        before, after = tables_before_and_after(ddl.change)
        model = model_of(ddl.change)
        unknown = (before if model is None else {*before, model}) - known
        if model in states and is_newer(states[model], ddl.change.commit_ts):
            unknown.add(model)
        is_known = ddl.change.table is not None or not unknown
        if after and not is_known:
            yield _NeedingDdl(ddl.change.commit_ts, before | after, unknown)
        known -= before
        known |= after if is_known else set()


def _knows(progress: Progress, waits: SchemaWaits) -> IsKnown:
    """Return a function: whether the schema of rows is known, with the DDLs up to a commit_ts."""
    known = {(schema.schema, schema.name, schema.key) for schema in progress.schemas}
    known |= {(table.schema, table.name, VALID_THEN) for table in progress.tables if table.table is not None}
    known |= {(shard.schema, shard.name, _valid_then(shard)) for shard in progress.shards}
    applied = {table.full_name: table.applied for table in progress.tables}
    made = first_creates(progress.ddls)
    left_behind: dict[int, frozenset[TableName]] = {}

    def is_known(rows: PendingRows, bound: int) -> bool:
        name, key = rows.full_name, rows.schema_key
        if (*name, key) in known or (*name, with_plain_key(key, ANY_VERSION)) in known:
            return True
        if waits.skips_to_known(*name) or rows.max_ts <= applied.get(name, 0):
            return True
        if bound not in left_behind:
            left_behind[bound] = waits.named_after([ddl for ddl in progress.ddls if ddl.change.commit_ts <= bound])
        shard = shard_of(key)
        if shard is not None:
            # If rows were cut, their first one is not known. But then no older table of the name exists any more.
            first = rows.max_ts if rows.cut else rows.min_ts
            return plain_key(key) == VALID_THEN and made.get(shard, bound) < min(first, bound)
        return key == VALID_THEN and name in left_behind[bound]

    return is_known


def _valid_then(shard: Shard) -> str:
    return key_of_shard(VALID_THEN, shard.table.full_name)


def describe_missing(rows: PendingRows) -> str:
    """Name the table, version and place of rows that wait for a schema."""
    schema, name = shard_of(rows.schema_key) or rows.full_name
    return (
        f"`{schema}`.`{name}` waits for the schema of version {plain_key(rows.schema_key)}; its first row is in "
        f"topic {rows.topic}, partition {rows.partition}, commitTs {rows.min_ts}"
    )
