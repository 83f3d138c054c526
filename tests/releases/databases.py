"""A database target as text: what a job leaves in a MariaDB or PostgreSQL, to restore it in another server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support import mariadb_server, postgres_server
from tests.support.mariadb_server import Server, mariadb_folder
from tests.support.postgres_server import PostgresServer
from ticdc_spark.clients.postgres import quoted

Target = Server | PostgresServer
_OF_MARIADB = {"information_schema", "performance_schema", "mysql", "sys", "test"}


@contextmanager
def running(kind: str, folder: Path) -> Iterator[Target]:
    """An empty server for a sink of a kind, ended with the context."""
    with mariadb_server.running(folder) if kind == "mysql" else postgres_server.running_postgres() as server:
        yield server


def dump(target: Target) -> str:
    """Everything that a job has made there."""
    return _of_mariadb(target) if isinstance(target, Server) else _of_postgres(target)


def restore(target: Target, text: str) -> None:
    """The inverse of ``dump``, into an empty server."""
    if isinstance(target, Server):
        _client(target, "mariadb", given=text)
    else:
        target.execute(text)


def _client(server: Server, program: str, *options: str, given: str = "") -> str:
    folder = mariadb_folder()
    return subprocess.run(
        [
            folder / "bin" / program,
            "--no-defaults",
            f"--port={server.port}",
            "--host=127.0.0.1",
            "--user=root",
            *options,
        ],
        input=given.encode(),
        capture_output=True,
        check=True,
        env={"LD_LIBRARY_PATH": str(folder / "libs")},
    ).stdout.decode()


def _of_mariadb(server: Server) -> str:
    databases = [name for (name,) in server.execute("SHOW DATABASES") if name not in _OF_MARIADB]
    options = ("--hex-blob", "--skip-comments", "--skip-lock-tables", "--databases")
    return _client(server, "mariadb-dump", *options, *databases)


def _of_postgres(server: PostgresServer) -> str:
    """Tables with their comments, keys, indexes and rows: what pg_dump, which the package lacks, would write."""
    lines = ["SET session_replication_role = replica"]
    own = "n.nspname !~ '^(pg_|information_schema$|public$)'"
    lines += [
        f"CREATE SCHEMA {quoted(name)}" for (name,) in server.execute(f"SELECT nspname FROM pg_namespace n WHERE {own}")
    ]
    tables = (
        "SELECT n.nspname, c.relname, c.oid, obj_description(c.oid, 'pg_class') FROM pg_class c "
        f"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND {own} ORDER BY 1, 2"
    )
    for schema, name, number, comment in server.execute(tables):
        place = f"{quoted(schema)}.{quoted(name)}"
        columns = server.execute(
            "SELECT quote_ident(attname) || ' ' || format_type(atttypid, atttypmod) || "
            "CASE WHEN attcollation IN (0, 100) THEN '' ELSE (SELECT ' COLLATE ' || quote_ident(collname) "
            "FROM pg_collation WHERE oid = attcollation) END || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END || "
            "coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') FROM pg_attribute LEFT JOIN pg_attrdef d "
            f"ON adrelid = attrelid AND adnum = attnum WHERE attrelid = {number} AND attnum > 0 AND NOT attisdropped "
            "ORDER BY attnum"
        )
        lines.append(f"CREATE TABLE {place} ({', '.join(text for (text,) in columns)})")
        keys = (
            f"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {number} AND contype IN ('p', 'u')"
        )
        lines += [f"ALTER TABLE {place} ADD {text}" for (text,) in server.execute(keys)]
        indexes = (
            f"SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = {number} AND indexrelid NOT IN "
            f"(SELECT conindid FROM pg_constraint WHERE conrelid = {number})"
        )
        lines += [text for (text,) in server.execute(indexes)]
        if comment is not None:
            lines.append(f"COMMENT ON TABLE {place} IS {_literal(comment)}")
        ((rows,),) = server.execute(f"SELECT json_agg(t)::text FROM {place} t")
        if rows is not None:
            lines.append(f"INSERT INTO {place} SELECT * FROM json_populate_recordset(NULL::{place}, {_literal(rows)})")
    return ";\n".join(lines)


def _literal(text: str) -> str:
    return psycopg.sql.Literal(text).as_string()
