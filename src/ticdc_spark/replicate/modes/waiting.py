"""Rows that wait for their schema, and how far tables may go before them. Pure."""

from collections.abc import Callable, Sequence

from ticdc_spark.config.shards import key_of_shard, plain_key, shard_of, with_plain_key
from ticdc_spark.model import TableName
from ticdc_spark.replicate.plan.merging import first_creates
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN, bound_of_schemas
from ticdc_spark.replicate.state.progress import PendingRows, Progress, QueuedDdl, Shard


def held_by_schemas(
    progress: Progress,
    resolved: int,
    left_out: Callable[[str, str], bool],
    named_after: Callable[[Sequence[QueuedDdl]], frozenset[TableName]],
) -> tuple[int, tuple[PendingRows, ...]]:
    """How far tables may go before rows of unknown schema, at most ``resolved``; and those rows.

    ``progress``: with the events of the batch. The other arguments are those of ``advance``.
    """
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
        if left_out(*name) or rows.max_ts <= applied.get(name, 0):
            return True
        if bound not in left_behind:
            left_behind[bound] = named_after([ddl for ddl in progress.ddls if ddl.change.commit_ts <= bound])
        shard = shard_of(key)
        if shard is not None:
            # If rows were cut, their first one is not known. But then no older table of the name exists any more.
            first = rows.max_ts if rows.cut else rows.min_ts
            return plain_key(key) == VALID_THEN and made.get(shard, bound) < min(first, bound)
        return key == VALID_THEN and name in left_behind[bound]

    return bound_of_schemas(progress.pending, resolved, is_known)


def _valid_then(shard: Shard) -> str:
    return key_of_shard(VALID_THEN, shard.table.full_name)


def describe_missing(rows: PendingRows) -> str:
    """Name the table, version and place of rows that wait for a schema."""
    schema, name = shard_of(rows.schema_key) or rows.full_name
    return (
        f"`{schema}`.`{name}` waits for the schema of version {plain_key(rows.schema_key)}; its first row is in "
        f"topic {rows.topic}, partition {rows.partition}, commitTs {rows.min_ts}"
    )
