"""The known schemas, by the keys that rows have."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ticdc_spark.config.routes import Routes, compiled
from ticdc_spark.config.shards import key_of_shard, plain_key, shard_of, with_plain_key
from ticdc_spark.model import Table, TableName
from ticdc_spark.protocols.base import BLOCK_MARK
from ticdc_spark.replicate.state.progress import KnownSchema, PendingRows, Progress
from ticdc_spark.spark.decode.control import BootstrapRead, ControlEvent, DdlRead, RowsRead, SchemaBlockRead

ANY_VERSION = "*"
"""Schema key of a schema from ``[schema] file``: it reads rows whose own version no message has."""
VALID_THEN = ""
"""Schema key of protocols whose rows name no schema: the schema valid at their commit_ts reads them."""
KEPT_VERSIONS = 8
"""Schema versions kept per table, in addition to those that waiting rows or DDLs need."""
KEPT_OF_PARTITIONED = 64
"""The same for a partitioned table. TiCDC 8.5.4 to 8.5.7 sends rows of a partition with the version that the table had
when the partition was made or TiCDC began to read it."""


def is_block(key: str) -> bool:
    """Whether a schema key names a schema block (Debezium), which describes a table without DDL."""
    return key.startswith(BLOCK_MARK)


def without_blocks(progress: Progress, controls: Sequence[ControlEvent]) -> tuple[Progress, tuple[ControlEvent, ...]]:
    """Remove schema blocks from the progress and the events of a batch: with watermarks, DDL determines the schema.

    Rows from before the mode was known have the keys of their schema blocks. Later messages are opened without them.
    """
    pending = tuple(
        msgspec.structs.replace(rows, schema_key=with_plain_key(rows.schema_key, VALID_THEN))
        if is_block(rows.schema_key)
        else rows
        for rows in progress.pending
    )
    schemas = tuple(schema for schema in progress.schemas if not is_block(schema.key))
    events = tuple(
        msgspec.structs.replace(event, schema_key=with_plain_key(event.schema_key, VALID_THEN))
        if isinstance(event, RowsRead) and is_block(event.schema_key)
        else event
        for event in controls
        if not isinstance(event, SchemaBlockRead)
    )
    return msgspec.structs.replace(progress, pending=pending, schemas=schemas), events


def known_schemas(progress: Progress, controls: Sequence[ControlEvent]) -> tuple[KnownSchema, ...]:
    """The known schemas, with those in the batch's messages."""
    known = {(schema.schema, schema.name, schema.key): schema for schema in progress.schemas}
    routes = compiled(progress.routes)
    for event in controls:
        if isinstance(event, SchemaBlockRead):
            key = event.schema_key
            block = KnownSchema(schema=event.schema, name=event.table, key=key, table=event.held, since=event.commit_ts)
            before = known.get((event.schema, event.table, key), block)
            known[event.schema, event.table, key] = min(before, block, key=lambda schema: schema.since)
        elif isinstance(event, BootstrapRead):
            _remember(known, routes, event.table, event.commit_ts)
        elif isinstance(event, DdlRead):
            change = event.change
            for table in (change.pre_table, change.table):
                if table is not None:
                    _remember(known, routes, table, change.commit_ts)
    return tuple(known.values())


def _remember(known: dict[tuple[str, str, str], KnownSchema], routes: Routes, table: Table, since: int) -> None:
    schema, name, key = named = named_by_rows(routes, table)
    known.setdefault(named, KnownSchema(schema=schema, name=name, key=key, table=table, since=since))


def named_by_rows(routes: Routes, table: Table) -> tuple[str, str, str]:
    """The table and the schema key in rows of a version of a table. Raises: UsageError"""
    key, source = "" if table.version is None else str(table.version), table.full_name
    merged = routes.merged(source)
    return (*source, key) if merged is None else (*merged, key_of_shard(key, source))


def bound_of_schemas(
    pending: Iterable[PendingRows], bound: int, is_known: Callable[[PendingRows, int], bool]
) -> tuple[int, tuple[PendingRows, ...]]:
    """The commit_ts just before the first rows of unknown schema, at most ``bound``; and the rows of unknown schema.
    The first of these must get a schema. Later ones may only need one because that one keeps a DROP from being reached.

    ``is_known``: whether the schema of rows is known with the DDLs up to a commit_ts. With fewer DDLs it may not be.
    """
    missing: list[PendingRows] = []
    while found := [rows for rows in pending if rows.min_ts <= bound and not is_known(rows, bound)]:
        found.sort(key=lambda rows: rows.min_ts)
        missing += found
        bound = found[0].min_ts - 1
    return bound, tuple(missing)


def forget_schemas(progress: Progress) -> tuple[KnownSchema, ...]:
    """Drop versions that are no longer needed, so that the history does not grow with time."""
    waiting = {(rows.schema, rows.name, rows.schema_key) for rows in progress.pending}
    current = {
        _key_of(state.table): KnownSchema(
            schema=state.schema, name=state.name, key=_key_of(state.table)[2], table=state.table, since=state.ddl_ts
        )
        for state in progress.tables
        if state.table is not None and not state.is_gone and state.table.full_name == state.full_name
    }
    waiting |= current.keys()
    known = {(schema.schema, schema.name, schema.key): schema for schema in progress.schemas}
    by_table: dict[tuple[TableName, TableName | None], list[KnownSchema]] = {}
    # A table's current schema may have been forgotten while another table had its name.
    for schema in {**{at: one for at, one in current.items() if one.key}, **known}.values():
        by_table.setdefault((schema.full_name, shard_of(schema.key)), []).append(schema)
    gone = {table.full_name for table in progress.tables if table.is_dropped}
    partitioned = {
        state.full_name for state in progress.tables if state.table is not None and state.table.partitioning is not None
    }
    kept: list[KnownSchema] = []
    for (name, _), versions in by_table.items():
        versions.sort(key=lambda schema: (schema.table.version or 0, schema.since))
        count = 1 if name in gone else KEPT_OF_PARTITIONED if name in partitioned else KEPT_VERSIONS
        newest = versions[-count:]
        needed = {key for schema, table, key in waiting if (schema, table) == name}
        needed |= {version.key for version in versions if plain_key(version.key) == ANY_VERSION}
        kept += [version for version in versions if version in newest or version.key in needed]
    return tuple(kept)


def _key_of(table: Table) -> tuple[str, str, str]:
    return table.schema, table.name, "" if table.version is None else str(table.version)
