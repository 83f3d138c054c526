"""A MariaDB as a story's target: as other clients see its tables, change them, and dump them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pymysql

from tests.simulator.seams import Cells, Copy, LakeTable, TableName
from tests.simulator.target import Database
from tests.support.mariadb_server import Server
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.config.job import MysqlConfig
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.mysql.client import OURS
from ticdc_spark.sinks.mysql.sink import MysqlSink
from ticdc_spark.sinks.mysql.tables import sql_name
from ticdc_spark.sinks.mysql.types import definition, is_indexable
from ticdc_spark.spark.types import LakeOptions

OPTIONS = ("--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=3", "--max-connections=500")
"""Of the server: a process that sleeps in a transaction keeps its locks, and the next one waits on the same stack."""
_OF_SERVER = "('mysql', 'information_schema', 'performance_schema', 'sys')"


class MysqlTarget(Database):
    def __init__(self, server: Server) -> None:
        """``server``: with ``OPTIONS``, of one story at a time."""
        self.server, self.lake = server, self
        self.config = MysqlConfig(uri=server.uri)
        with self._cursor() as cursor:
            self._clear(cursor)

    def close(self, sink: Sink) -> None:
        assert isinstance(sink, MysqlSink)
        sink.client.close()

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Of a client whose times are in UTC, and that takes any value for any type."""
        settings = "SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO', lock_wait_timeout = 10"
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.server.port,
            user="root",
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled=True,
            init_command=settings,
        )
        with closing(connection), connection.cursor() as cursor:
            yield cursor

    def tables(self) -> Mapping[TableName, LakeTable]:
        with self._cursor() as cursor:
            marks = self._marks(cursor)
            return {
                name: self._look(cursor, name, marks.get((*name, comment)))
                for name, comment in self._listed(cursor).items()
                if name[0] != OURS
            }

    def _listed(self, cursor: Any) -> dict[TableName, str]:
        """The comments of all tables."""
        cursor.execute(
            "SELECT table_schema, table_name, table_comment FROM information_schema.tables "
            f"WHERE table_type = 'BASE TABLE' AND table_schema NOT IN {_OF_SERVER} ORDER BY 1, 2"
        )
        return {(schema, name): comment for schema, name, comment in cursor.fetchall()}

    def _marks(self, cursor: Any) -> dict[tuple[str, str, str], int]:
        cursor.execute(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'marks'", (OURS,)
        )
        if cursor.fetchone() is None:
            return {}
        cursor.execute(f"SELECT db, name, token, commit_ts FROM {OURS}.marks")
        return {(schema, name, token): ts for schema, name, token, ts in cursor.fetchall()}

    def _look(self, cursor: Any, table: TableName, mark_ts: int | None) -> LakeTable:
        cursor.execute(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            table,
        )
        kinds = dict(cursor.fetchall())
        listed = (f"CAST({quoted(one)} AS CHAR)" if kind == "time" else quoted(one) for one, kind in kinds.items())
        cursor.execute(f"SELECT {', '.join(listed)} FROM {sql_name(table)}")
        rows = [dict(zip(kinds, row, strict=True)) for row in cursor.fetchall()]
        return LakeTable(columns=tuple(kinds), rows=rows, mark_ts=mark_ts)

    # ---- copies

    def save(self) -> Copy:
        """A dump."""
        held = {}
        with self._cursor() as cursor:
            for table in self._listed(cursor):
                cursor.execute(f"SHOW CREATE TABLE {sql_name(table)}")
                made = cursor.fetchone()[1]
                cursor.execute(f"SELECT * FROM {sql_name(table)}")
                held[table] = made, cursor.fetchall()
        return held

    def restore(self, copy: Copy) -> None:
        with self._cursor() as cursor:
            self._clear(cursor)
            for table, (made, rows) in copy.items():
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quoted(table[0])} DEFAULT CHARACTER SET utf8mb4")
                cursor.execute(f"USE {quoted(table[0])}")
                cursor.execute(made)
                for row in rows:
                    cursor.execute(f"INSERT INTO {_in_format(table)} VALUES ({', '.join(['%s'] * len(row))})", row)

    def _clear(self, cursor: Any) -> None:
        cursor.execute(f"SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN {_OF_SERVER}")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP DATABASE {quoted(name)}")

    # ---- other clients

    def drop_column(self, table: TableName, column: str) -> None:
        with self._cursor() as cursor:
            cursor.execute(f"ALTER TABLE {sql_name(table)} DROP COLUMN {quoted(column)}")

    def drop(self, table: TableName) -> None:
        with self._cursor() as cursor:
            cursor.execute(f"DROP TABLE {sql_name(table)}")

    def create(self, table: Table, rows: Sequence[Cells], required: Collection[str] = ()) -> None:
        sink = MysqlSink(self.config)
        columns = sink.types.columns(table, handle_key(table), LakeOptions())
        keys = [column for column in columns if column.key]
        parts = [
            definition(column, sink.types).removesuffix(" NULL") + " NOT NULL"
            if column.source in required and not column.key
            else definition(column, sink.types)
            for column in columns
        ]
        parts += [f"PRIMARY KEY ({', '.join(quoted(one.name) for one in keys)})"] if keys and is_indexable(keys) else []
        sink.client.close()
        name = table.schema, table.name
        with self._cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quoted(name[0])} DEFAULT CHARACTER SET utf8mb4")
            cursor.execute(f"CREATE OR REPLACE TABLE {sql_name(name)} ({', '.join(parts)})")
            for row in rows:
                marks = ", ".join(["%s"] * len(columns))
                cursor.execute(
                    f"INSERT INTO {_in_format(name)} VALUES ({marks})", [row[column.source] for column in columns]
                )


def _in_format(table: TableName) -> str:
    """A name in SQL that has values."""
    return sql_name(table).replace("%", "%%")
