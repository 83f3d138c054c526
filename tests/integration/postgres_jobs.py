"""Jobs that write to a PostgreSQL sink, for tests, and what is in their tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.spark.simple_topic import topic
from tests.support.postgres_server import PostgresServer
from tests.workload import Truth
from tests.workload.compare import expected
from ticdc_spark.clients.postgres import quoted
from ticdc_spark.model import Change, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_columns


def write_job(folder: Path, postgres: PostgresServer, job: str = "", sink: str = "", more: str = "") -> Path:
    """A job that reads the topic of a folder. ``job``, ``sink``: lines of these sections; ``more``: other sections."""
    file = folder / "job.toml"
    file.write_text(
        f'[job]\nname = "{folder.name}"\n{job}\n[source]\nkind = "files"\npath = "{folder / "topic"}"\n'
        f'protocol = "simple"\n[sink]\nkind = "postgres"\nuri = "{postgres.uri}"\n{sink}\n{more}\n'
    )
    return file


def clear(postgres: PostgresServer) -> None:
    """Remove every schema that tests have made, whatever they have left open."""
    sql = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name LIKE 'ticdc-spark%'"
    postgres.execute(sql)
    for name in [*schemas(postgres), "_ticdc_spark"]:
        postgres.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")


def job_of(folder: Path, postgres: PostgresServer, events: Iterable[Change], job: str = "", sink: str = "") -> Path:
    """A job with a topic, in a database without copies."""
    clear(postgres)
    topic(folder, events)
    return write_job(folder, postgres, job, sink)


def schemas(postgres: PostgresServer) -> list[str]:
    """Those that are neither the server's own nor the job's."""
    found = postgres.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|_ticdc_)'")
    return [name for (name,) in found if name != "public"]


def compare_with(postgres: PostgresServer, truth: Truth) -> dict[TableName, str]:
    """By table, what is not as in the truth; nothing if all is."""
    found = {
        (schema, name)
        for schema, name in postgres.execute("SELECT schemaname, tablename FROM pg_tables")
        if schema in schemas(postgres)
    }
    wrong = dict.fromkeys(found - truth.keys(), "should not be there")
    for name, (table, rows) in truth.items():
        if name not in found:
            wrong[name] = "is not there"
            continue
        held, every = [*rows.values()], lake_columns(table, handle_key(table), LakeOptions())
        columns = [column for column in every if not held or column.source in held[0]]
        wanted = [tuple(_plain(row[one.name], one) for one in columns) for row in expected(table, held).to_pylist()]
        there = [tuple(map(_plain, row, columns)) for row in _read(postgres, name, columns)]
        if sorted(wanted, key=repr) != sorted(there, key=repr):
            more, less = ([row for row in one if row not in other] for one, other in ((there, wanted), (wanted, there)))
            wrong[name] = f"has {more[:3]} and lacks {less[:3]}"
        there_too = f"(table_schema, table_name) = ('{name[0]}', '{name[1]}')"
        sql = f"SELECT column_name FROM information_schema.columns WHERE {there_too}"
        if {row[0] for row in postgres.execute(sql)} != {column.source for column in every}:
            wrong[name] = f"has columns {postgres.execute(sql)}"
    return wrong


def _read(postgres: PostgresServer, name: TableName, columns: list[LakeColumn]) -> list[tuple[Any, ...]]:
    listed = ", ".join(
        f"{quoted(one.source)}::text" if one.column.type.name == "json" else quoted(one.source) for one in columns
    )
    return postgres.execute(f"SELECT {listed} FROM {quoted(name[0])}.{quoted(name[1])}")


def _plain(value: Any, column: LakeColumn) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if value is not None and column.column.type.name == "decimal":
        return Decimal(value)
    if isinstance(value, Decimal):
        return int(value)
    return tuple(value) if isinstance(value, list) else value
