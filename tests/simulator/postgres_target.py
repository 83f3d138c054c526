"""A PostgreSQL as a story's target: as other clients see its tables, change them, and back the database up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

import psycopg

from tests.simulator.seams import Cells, Copy, LakeTable, TableName
from tests.simulator.target import Database
from tests.support.postgres_server import PostgresServer
from ticdc_spark.clients.postgres import quoted
from ticdc_spark.config.job import PostgresConfig
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.postgres.client import OURS
from ticdc_spark.sinks.postgres.sink import PostgresSink
from ticdc_spark.sinks.postgres.tables import sql_name
from ticdc_spark.sinks.postgres.types import PostgresTypes, definition, is_indexable
from ticdc_spark.spark.types import LakeOptions

_DATABASE = "stories"
_NUMBERS = count(1)


class PostgresTarget(Database):
    def __init__(self, server: PostgresServer) -> None:
        """``server``: of one story at a time."""
        self.server, self.lake = server, self
        self.config = PostgresConfig(uri=f"postgresql://postgres@127.0.0.1:{server.port}/{_DATABASE}")
        self._make("template1")

    def close(self, sink: Sink) -> None:
        assert isinstance(sink, PostgresSink)
        sink.tables.work.close()
        sink.client.close()

    def _open(self, database: str = _DATABASE) -> psycopg.Connection[Any]:
        address = f"host=127.0.0.1 port={self.server.port} user=postgres dbname={database}"
        return psycopg.connect(f"{address} options='-c timezone=UTC -c lock_timeout=10s'", autocommit=True)

    def _make(self, template: str) -> None:
        with self._open("postgres") as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {_DATABASE} WITH (FORCE)".encode())
            connection.execute(f"CREATE DATABASE {_DATABASE} TEMPLATE {template}".encode())

    def tables(self) -> Mapping[TableName, LakeTable]:
        with self._open() as connection:
            found = connection.execute(
                "SELECT n.nspname, c.relname, coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' "
                "AND n.nspname !~ '^(pg_|information_schema$|_ticdc_spark$)' ORDER BY 1, 2"
            ).fetchall()
            marks = self._marks(connection)
            return {
                (schema, name): self._look(connection, (schema, name), marks.get((schema, name, comment)))
                for schema, name, comment in found
            }

    def _marks(self, connection: psycopg.Connection[Any]) -> dict[tuple[str, str, str], int]:
        there = connection.execute("SELECT to_regclass(%s)", (f"{OURS}.marks",)).fetchone()
        if there is None or there[0] is None:
            return {}
        rows = connection.execute(f"SELECT db, name, token, commit_ts FROM {OURS}.marks".encode()).fetchall()
        return {(schema, name, token): ts for schema, name, token, ts in rows}

    def _look(self, connection: psycopg.Connection[Any], table: TableName, mark_ts: int | None) -> LakeTable:
        cursor = connection.execute(f"SELECT * FROM {sql_name(table)}".encode())
        columns = tuple(column.name for column in cursor.description or ())
        rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        return LakeTable(columns=columns, rows=rows, mark_ts=mark_ts)

    # ---- copies

    def save(self) -> Copy:
        """Another database, for which nobody may be connected to this one."""
        held = f"copy{next(_NUMBERS)}"
        with self._open("postgres") as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", (_DATABASE,)
            )
            connection.execute(f"CREATE DATABASE {held} TEMPLATE {_DATABASE}".encode())
        return held

    def restore(self, copy: Copy) -> None:
        self._make(copy)

    # ---- other clients

    def drop_column(self, table: TableName, column: str) -> None:
        with self._open() as connection:
            connection.execute(f"ALTER TABLE {sql_name(table)} DROP COLUMN {quoted(column)}".encode())

    def drop(self, table: TableName) -> None:
        with self._open() as connection:
            connection.execute(f"DROP TABLE {sql_name(table)}".encode())

    def create(self, table: Table, rows: Sequence[Cells], required: Collection[str] = ()) -> None:
        columns = PostgresTypes().columns(table, handle_key(table), LakeOptions())
        keys = [column for column in columns if column.key]
        parts = [
            definition(column) + (" NOT NULL" if column.source in required and not column.key else "")
            for column in columns
        ]
        parts += [f"PRIMARY KEY ({', '.join(quoted(one.name) for one in keys)})"] if keys and is_indexable(keys) else []
        name = table.schema, table.name
        with self._open() as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name[0])}".encode())
            connection.execute(f"DROP TABLE IF EXISTS {sql_name(name)}".encode())
            connection.execute(f"CREATE TABLE {sql_name(name)} ({', '.join(parts)})".encode())
            marks = ", ".join(["%s"] * len(columns))
            for row in rows:
                insert = f"INSERT INTO {sql_name(name).replace('%', '%%')} VALUES ({marks})"
                connection.execute(insert.encode(), [row[column.source] for column in columns])
