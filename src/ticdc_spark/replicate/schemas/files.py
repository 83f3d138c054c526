"""Schemas that no message has: CREATE statements from the files of ``[schema] file``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import msgspec

from ticdc_spark.config.routes import Routes, compiled
from ticdc_spark.config.shards import key_of_shard, plain_key
from ticdc_spark.ddl.known_names import KnownNames
from ticdc_spark.ddl.script import tables_of_script
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.replicate.plan.spelling import scan_names
from ticdc_spark.replicate.schemas.history import ANY_VERSION
from ticdc_spark.replicate.state.progress import KnownSchema, Progress


def with_schema_files(progress: Progress, files: Sequence[Path]) -> Progress:
    """Add the tables of the files to the known schemas. They read rows whose own version no message has.

    Files are read in their order, each as ``ddl.script`` reads it. In a file named ``<schema>.<table>-schema.sql``, as
    Dumpling writes it, the database needs no ``USE``.

    Raises: UsageError, which names the file and the statement that cannot be read, or two tables of one name
    """
    tables: dict[TableName, Table] = {}
    for file in files:
        tables = _with_file(tables, file)
    found = [KnownSchema(schema=one.schema, name=one.name, key=ANY_VERSION, table=one) for one in tables.values()]
    if not found:
        return progress
    kept = tuple(known for known in progress.schemas if plain_key(known.key) != ANY_VERSION)
    without = msgspec.structs.replace(progress, schemas=kept)
    names = KnownNames(scan_names(without))
    for one in found:
        names.add(one.full_name)
    spelled = (_as_known(one, names.table(one.full_name)) for one in found)
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


def _with_file(tables: Mapping[TableName, Table], file: Path) -> dict[TableName, Table]:
    """The tables of a file and of those before it."""
    name = file.name.removesuffix("-schema.sql")
    schema = "" if name == file.name else unquote(name.split(".")[0])
    try:
        return tables_of_script(file.read_text("utf-8"), schema, tables)
    except (OSError, UnicodeDecodeError, MessageError) as error:
        message = f"[schema] file {file}: {error}"
        raise UsageError(message) from error
