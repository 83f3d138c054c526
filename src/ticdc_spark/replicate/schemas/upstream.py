"""What no message has, read from the upstream database: schemas as of the first row that waits for them, and default
character sets of databases.
"""

import logging
from collections.abc import Sequence

import msgspec

from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.config.shards import is_merged
from ticdc_spark.ddl import change_tables, charsets_after, parse_create, statement_of
from ticdc_spark.ddl.charsets import DEFAULT_CHARSET
from ticdc_spark.ddl.statements import DEFAULT, CreateTable, DatabaseDdl
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, Table
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


def add_upstream_charsets(progress: Progress, uri: str) -> Progress:
    """Add the default character sets of databases in which queued DDLs make tables, if no DDL has made them.

    The upstream is asked once for each database, as of the first of its tables. One that it does not show has utf8mb4.
    Raises: SourceFault when the database cannot be reached or refuses the login
    """
    asked = _without_charset(progress)
    if not asked:
        return progress
    found = dict(progress.charsets)
    with Upstream(uri) as upstream:
        for name, ts in asked.items():
            try:
                sql = upstream.show_create_database(name, ts)
                shown = charsets_after({}, [SchemaChange(commit_ts=ts, query=sql, kind="", schema=name)])
                # The server may spell the name differently.
                found[name] = next(iter(shown.values()), DEFAULT_CHARSET)
            except MessageError as error:
                log.warning("`%s`: utf8mb4 is taken: %s", name, error)
                found[name] = DEFAULT_CHARSET
    return msgspec.structs.replace(progress, charsets=found)


def _without_charset(progress: Progress) -> dict[str, int]:
    """Databases whose default is needed and not known, each with the commit_ts of the first DDL that needs it."""
    asked, queued = dict[str, int](), set[str]()
    for ddl in sorted(progress.ddls, key=lambda ddl: ddl.change.commit_ts):
        change = ddl.change
        try:
            statement = statement_of(change)
        except MessageError:
            continue
        if isinstance(statement, DatabaseDdl):
            # An answer holds before the queue, so a CREATE DATABASE in it would remove the answer.
            queued.add(statement.name or change.schema)
        elif isinstance(statement, CreateTable) and change.table is None and _takes_default(statement):
            database = change_tables(change)[1][0][0]
            if database not in progress.charsets and database not in queued:
                asked.setdefault(database, change.commit_ts)
    return asked


def _takes_default(statement: CreateTable) -> bool:
    """Whether a new table has the default of its database."""
    written = statement.charset
    is_default = written is None or DEFAULT in (written.charset, None if written.charset else written.collate)
    return statement.like is None and is_default


def _versioned(table: Table, name: str, key: str) -> Table:
    version = int(key) if key.isdigit() else None
    return msgspec.structs.replace(table, name=name, version=version)
