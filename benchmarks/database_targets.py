"""The databases that a job is measured in, and what one would write by hand for each."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.support.mariadb_server import Server, running
from tests.support.postgres_server import PostgresServer, running_postgres

from ticdc_spark.clients.postgres import connect, connection_options, quoted
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.sinks.mysql.types import MysqlTypes
from ticdc_spark.sinks.mysql.types import definition as mysql_definition
from ticdc_spark.sinks.postgres.types import PostgresTypes
from ticdc_spark.sinks.postgres.types import definition as postgres_definition
from ticdc_spark.spark.types import LakeOptions


class Database(Protocol):
    """A server, and what is written by hand for it."""

    kind: str
    driver: str
    """Maven's coordinates of its JDBC driver."""
    uri: str

    def clear(self, schemas: Iterable[str]) -> None:
        """Remove what is there."""

    def create(self, table: Table) -> None:
        """Make a table as the job does."""

    def options(self, table: Table) -> dict[str, str]:
        """Of Spark's JDBC writer, for the staging table of a table."""

    def merge(self, tables: Iterable[Table]) -> None:
        """Take the staged rows over, in one transaction."""

    def counts(self, table: Table) -> tuple[int, int]:
        """The rows of a table, and the sum of ``visits``."""


class Postgres:
    """See ``Database``."""

    kind = "postgres"
    driver = "org.postgresql:postgresql:42.7.14"

    def __init__(self, server: PostgresServer) -> None:
        self._server, self.uri = server, server.uri

    def clear(self, schemas: Iterable[str]) -> None:
        for name in schemas:
            self._server.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")
        staged = self._server.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'stage%'")
        self._server.execute(*(f"DROP TABLE public.{quoted(name)}" for (name,) in staged))

    def create(self, table: Table) -> None:
        columns = PostgresTypes().columns(table, handle_key(table), LakeOptions())
        made = ", ".join(postgres_definition(column) for column in columns)
        keys = ", ".join(quoted(column.name) for column in columns if column.key)
        self._server.execute(
            f"CREATE SCHEMA IF NOT EXISTS {quoted(table.schema)}",
            f"CREATE TABLE {quoted(table.schema)}.{quoted(table.name)} ({made}, PRIMARY KEY ({keys}))",
        )

    def options(self, table: Table) -> dict[str, str]:
        return {
            "url": f"jdbc:postgresql://127.0.0.1:{self._server.port}/copies",
            "driver": "org.postgresql.Driver",
            "user": "postgres",
            "dbtable": f"stage_{table.name}",
            "reWriteBatchedInserts": "true",
        }

    def merge(self, tables: Iterable[Table]) -> None:
        connection = connect(connection_options(self.uri))
        with connection, connection.transaction():
            for table in tables:
                columns = PostgresTypes().columns(table, handle_key(table), LakeOptions())
                target, place = f"{quoted(table.schema)}.{quoted(table.name)}", f"public.stage_{table.name}"
                names = [quoted(column.name) for column in columns]
                keys = [quoted(column.name) for column in columns if column.key]
                on = " AND ".join(f"t.{name} = s.{name}" for name in keys)
                cast = ", ".join(f"{quoted(column.name)}::{column.type.name}" for column in columns)
                update = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name not in keys)
                connection.execute(f"DELETE FROM {target} t USING {place} s WHERE {on} AND s.type = 'DELETE'")
                connection.execute(
                    f"INSERT INTO {target} ({', '.join(names)}) SELECT {cast} FROM {place} WHERE type <> 'DELETE' "
                    f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {update}"
                )

    def counts(self, table: Table) -> tuple[int, int]:
        ((rows, visits),) = self._server.execute(
            f"SELECT count(*), coalesce(sum(visits), 0) FROM {quoted(table.schema)}.{quoted(table.name)}"
        )
        return int(rows), int(visits)


class Mysql:
    """See ``Database``."""

    kind = "mysql"
    driver = "com.mysql:mysql-connector-j:9.7.0"

    def __init__(self, server: Server) -> None:
        self._server, self.uri = server, server.uri

    def clear(self, schemas: Iterable[str]) -> None:
        for name in (*schemas, "stage"):
            self._server.execute(f"DROP DATABASE IF EXISTS `{name}`")
        self._server.execute("CREATE DATABASE stage")

    def create(self, table: Table) -> None:
        types = MysqlTypes()
        columns = types.columns(table, handle_key(table), LakeOptions())
        made = ", ".join(mysql_definition(column, types) for column in columns)
        keys = ", ".join(f"`{column.name}`" for column in columns if column.key)
        self._server.execute(
            f"CREATE DATABASE IF NOT EXISTS `{table.schema}` DEFAULT CHARACTER SET utf8mb4",
            f"CREATE TABLE `{table.schema}`.`{table.name}` ({made}, PRIMARY KEY ({keys}))",
        )

    def options(self, table: Table) -> dict[str, str]:
        return {
            "url": f"jdbc:mysql://127.0.0.1:{self._server.port}/stage?rewriteBatchedStatements=true",
            "driver": "com.mysql.cj.jdbc.Driver",
            "user": "root",
            "dbtable": table.name,
        }

    def merge(self, tables: Iterable[Table]) -> None:
        statements = ["USE stage", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "BEGIN"]
        for table in tables:
            columns = MysqlTypes().columns(table, handle_key(table), LakeOptions())
            target, place = f"`{table.schema}`.`{table.name}`", f"stage.`{table.name}`"
            names = [f"`{column.name}`" for column in columns]
            keys = [f"`{column.name}`" for column in columns if column.key]
            on = " AND ".join(f"t.{name} = s.{name}" for name in keys)
            update = ", ".join(f"{name} = VALUES({name})" for name in names if name not in keys)
            statements += [
                f"DELETE t FROM {target} t JOIN {place} s ON {on} WHERE s.type = 'DELETE'",
                (
                    f"INSERT INTO {target} ({', '.join(names)}) SELECT {', '.join(names)} FROM {place} "
                    f"WHERE type <> 'DELETE' ON DUPLICATE KEY UPDATE {update}"
                ),
            ]
        self._server.execute(*statements, "COMMIT")

    def counts(self, table: Table) -> tuple[int, int]:
        ((rows, visits),) = self._server.execute(
            f"SELECT count(*), coalesce(sum(visits), 0) FROM `{table.schema}`.`{table.name}`"
        )
        return int(rows), int(visits)


@contextmanager
def started(kind: str) -> Iterator[Database]:
    """A server of a kind, until the end of the context."""
    if kind == "postgres":
        with running_postgres() as server:
            yield Postgres(server)
        return
    options = ("--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=1", "--max-allowed-packet=256M")
    with tempfile.TemporaryDirectory(prefix="ticdc-bench-") as folder, running(Path(folder, "m"), *options) as mariadb:
        yield Mysql(mariadb)
