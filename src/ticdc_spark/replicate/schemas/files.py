"""Schemas that no message has: CREATE statements from the files of ``[schema] file``."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ticdc_spark.config.routes import Routes, compiled
from ticdc_spark.config.shards import key_of_shard, plain_key
from ticdc_spark.ddl import parse_create, statements
from ticdc_spark.ddl.known_names import KnownNames
from ticdc_spark.ddl.lex import Cursor
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import (
    AlterTable,
    CreateTable,
    DatabaseDdl,
    NoEffect,
    OtherDdl,
    RenameTables,
    Statement,
    Unsupported,
)
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.names import folded
from ticdc_spark.replicate.plan.spelling import scan_names
from ticdc_spark.replicate.schemas.history import ANY_VERSION
from ticdc_spark.replicate.state.progress import KnownSchema, Progress


def with_schema_files(progress: Progress, files: Sequence[Path]) -> Progress:
    """Add the tables of the files to the known schemas. They read rows whose own version no message has.

    A file has CREATE TABLE statements, each ended by ``;``. ``CREATE DATABASE`` and ``USE`` set the database of the
    statements after them. A file named ``<schema>.<table>-schema.sql``, as Dumpling writes it, needs neither. ALTER and
    RENAME TABLE are refused; other statements, like those of mysqldump, are skipped.

    Raises: UsageError, which names the file and the statement that cannot be read, or two tables of one name
    """
    found: dict[TableName, KnownSchema] = {}
    for file in files:
        for known in _tables(file):
            other = found.setdefault(folded(known.full_name), known)
            if other.full_name != known.full_name:
                raise UsageError(
                    f"[schema] file {file}: `{known.schema}`.`{known.name}` and `{other.schema}`.`{other.name}` differ "
                    "only in upper and lower case, so they are one table. Remove one of them"
                )
            found[folded(known.full_name)] = known
    if not found:
        return progress
    kept = tuple(known for known in progress.schemas if plain_key(known.key) != ANY_VERSION)
    without = msgspec.structs.replace(progress, schemas=kept)
    names = KnownNames(scan_names(without))
    for one in found.values():
        names.add(one.full_name)
    spelled = (_as_known(one, names.table(one.full_name)) for one in found.values())
    routes = compiled(progress.routes)
    return msgspec.structs.replace(without, schemas=(*kept, *(_of_shard(routes, one) for one in spelled)))


def _of_shard(routes: Routes, one: KnownSchema) -> KnownSchema:
    """A table of the files, by the name and key in rows."""
    shard = one.full_name
    merged = routes.merged(shard)
    if merged is None:
        return one
    return msgspec.structs.replace(one, schema=merged[0], name=merged[1], key=key_of_shard(ANY_VERSION, shard))


def _as_known(one: KnownSchema, name: TableName) -> KnownSchema:
    """A table with the name that the job uses."""
    table = msgspec.structs.replace(one.table, schema=name[0], name=name[1])
    return msgspec.structs.replace(one, schema=name[0], name=name[1], table=table)


def _tables(file: Path) -> list[KnownSchema]:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        message = f"[schema] file {file}: {error}"
        raise UsageError(message) from error
    schema = file.name.split(".")[0] if file.name.endswith("-schema.sql") else ""
    tables = []
    for statement in statements(text):
        try:
            found = parse(statement, "escape")
            table = parse_create(statement, schema, "escape") if isinstance(found, CreateTable) else None
        except MessageError as error:
            message = f"[schema] file {file}: {error}: {statement[:80]}"
            raise UsageError(message) from error
        if table is not None:
            if not table.schema:
                message = (
                    f"[schema] file {file}: no database for {statement[:80]!r}; write `db`.`table`, or USE db before it"
                )
                raise UsageError(message)
            tables.append(KnownSchema(schema=table.schema, name=table.name, key=ANY_VERSION, table=table))
        elif isinstance(found, DatabaseDdl) and found.what == "create":
            schema = found.name or ""
        elif isinstance(found, OtherDdl) and found.what == "use":
            schema = _used(statement)
        elif _changes_a_table(found):
            raise UsageError(
                f"[schema] file {file}: {statement[:80]!r} would be ignored: only CREATE TABLE counts. Write each "
                "CREATE TABLE as the table is after it, and remove it"
            )
    return tables


def _changes_a_table(statement: Statement) -> bool:
    """Whether a statement changes tables that a file creates. What mysqldump writes around its rows does not."""
    if isinstance(statement, AlterTable):
        return any(not isinstance(part, NoEffect) for part in statement.parts)
    return isinstance(statement, RenameTables | Unsupported)


def _used(statement: str) -> str:
    cur = Cursor(statement)
    cur.next()
    return cur.name()
