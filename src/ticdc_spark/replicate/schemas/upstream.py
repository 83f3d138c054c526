"""Schemas that no message has, read from the upstream database as of the first row that waits for them."""

import logging
from collections.abc import Sequence

import msgspec

from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.config.shards import is_merged
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table
from ticdc_spark.replicate.state.progress import KnownSchema, PendingRows, Progress

log = logging.getLogger(__name__)


def add_upstream_schemas(progress: Progress, missing: Sequence[PendingRows], uri: str) -> Progress:
    """Add the missing tables that the upstream has to the known schemas. Rows of other tables keep waiting.

    Raises: SourceFault when the database cannot be reached or refuses the login
    """
    first: dict[tuple[str, str, str], int] = {}
    for rows in missing:
        if is_merged(rows.full_name):
            continue  # The schemas of its shards come with their CREATE TABLE.
        named = (rows.schema, rows.name, rows.schema_key)
        first[named] = min(rows.min_ts, first.get(named, rows.min_ts))
    found = []
    with Upstream(uri) as upstream:
        for (schema, name, key), ts in first.items():
            try:
                table = parse_create(upstream.show_create(schema, name, ts), schema, "escape")
            except MessageError as error:
                log.warning("`%s`.`%s`: cannot read its schema%s: %s", schema, name, key and f" {key}", error)
                continue
            log.info("`%s`.`%s`: read its schema from the upstream as of %d", schema, name, ts)
            found.append(KnownSchema(schema=schema, name=name, key=key, table=_versioned(table, name, key)))
    return msgspec.structs.replace(progress, schemas=(*progress.schemas, *found)) if found else progress


def _versioned(table: Table, name: str, key: str) -> Table:
    version = int(key) if key.isdigit() else None
    return msgspec.structs.replace(table, name=name, version=version)
