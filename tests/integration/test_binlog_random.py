"""Random work on a real MariaDB, DDL of every kind in it: the captured stream, folded, is what the server has."""

from __future__ import annotations

from pathlib import Path
from random import Random
from threading import Thread

import pymysql
import pytest
from msgspec.structs import replace

from tests.integration.binlog_stream import OPTIONS, Rows, captured, fold_rows
from tests.support.mariadb_server import Server, running
from ticdc_spark.capture.base import CaptureState, Resolved, Transaction, follow
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key

TYPES = (
    "INT",
    "BIGINT UNSIGNED",
    "VARCHAR(30)",
    "DECIMAL(9,2)",
    "DATETIME(3)",
    "DOUBLE",
    "TEXT",
    "TIME(1)",
    "SMALLINT",
)
VALUES = ("7", "'12'", "NULL", "1.5", "'2024-02-29 12:00:00.5'", "0", "'é中'")


class Worker:
    """Statements on the tables of one database; some fail, as they do in life."""

    def __init__(self, server: Server, seed: int, schema: str) -> None:
        self._random = Random(seed)
        self._schema = schema
        self._connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="root", charset="utf8mb4", autocommit=True, database=schema
        )
        self._execute("SET sql_mode = '', time_zone = '+00:00'")

    def run(self, steps: int) -> None:
        with self._connection:
            for _ in range(steps):
                self._step()

    def _step(self) -> None:
        draw, table = self._random.random(), self._table()
        if draw < 0.22:
            self._execute(self._ddl(table))
        elif draw < 0.85:
            self._execute(self._dml(table))
        else:
            self._execute("BEGIN")
            for _ in range(self._random.randrange(1, 6)):
                self._execute(self._dml(self._table()))
                if self._random.random() < 0.2:
                    self._execute("SAVEPOINT s")
            if self._random.random() < 0.2:
                self._execute("ROLLBACK TO s")
            self._execute(self._random.choice(("COMMIT", "COMMIT", "ROLLBACK")))

    def _execute(self, sql: str) -> None:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
        except pymysql.err.MySQLError:
            pass

    def _table(self) -> str:
        return f"t{self._random.randrange(4)}"

    def _column(self) -> str:
        return f"c{self._random.randrange(5)}"

    def _dml(self, table: str) -> str:
        key, value = self._random.randrange(60), self._random.choice(VALUES)
        return self._random.choice(
            (
                f"INSERT INTO {table} (id) VALUES ({key}), ({key + 100})",
                f"INSERT INTO {table} (id, {self._column()}) VALUES ({key}, {value})",
                f"REPLACE INTO {table} (id, {self._column()}) VALUES ({key}, {value})",
                f"INSERT INTO {table} (id) VALUES ({key}) ON DUPLICATE KEY UPDATE {self._column()} = {value}",
                f"UPDATE {table} SET {self._column()} = {value} WHERE id < {key}",
                f"UPDATE {table} SET id = id + 1000 WHERE id = {key}",
                f"DELETE FROM {table} WHERE id BETWEEN {key} AND {key + 5}",
            )
        )

    def _ddl(self, table: str) -> str:
        kind, other, name = self._random.choice(TYPES), self._table(), self._column()
        created = f"TABLE {table} (id INT PRIMARY KEY, {name} {kind}) CHARSET utf8mb4"
        return self._random.choice(
            (
                f"CREATE {created}",
                f"CREATE OR REPLACE {created}",
                f"CREATE TABLE IF NOT EXISTS {table} LIKE {other}",
                f"CREATE TABLE {table} (PRIMARY KEY (id)) SELECT * FROM {other}",
                f"DROP TABLE {table}",
                f"DROP TABLE IF EXISTS {table}, {other}",
                f"TRUNCATE TABLE {table}",
                f"RENAME TABLE {table} TO {other}",
                f"RENAME TABLE {table} TO swap, {other} TO {table}, swap TO {other}",
                f"ALTER TABLE {table} ADD COLUMN {name} {kind} {self._random.choice(('', 'FIRST', 'AFTER id'))}",
                f"ALTER TABLE {table} ADD COLUMN {name} {kind} NOT NULL DEFAULT 3",
                f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {name} {kind}",
                f"ALTER TABLE {table} ADD COLUMN {name} INT AS (id * 2) {self._random.choice(('VIRTUAL', 'STORED'))}",
                f"ALTER TABLE {table} DROP COLUMN {name}",
                f"ALTER TABLE {table} MODIFY {name} {kind}",
                f"ALTER TABLE {table} CHANGE {name} {self._column()} {kind}",
                f"ALTER TABLE {table} RENAME COLUMN {name} TO {self._column()}",
                f"ALTER TABLE {table} ADD INDEX i_{name} ({name})",
                f"CREATE INDEX i_{name} ON {table} (id, {name})",
                f"ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT 5, COMMENT 'x'",
                f"ALTER TABLE {table} ADD x{name} INT, DROP COLUMN x{name}, ENGINE=InnoDB",
                f"ALTER TABLE {table} RENAME TO {other}",
            )
        )


def work(server: Server, seed: int, steps: int, threads: int = 2) -> CaptureState:
    """Random work on one database a thread; gives the state before it."""
    schemas = [f"w{at}" for at in range(threads)]
    for schema in schemas:
        server.execute(f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
        server.execute(*(f"CREATE TABLE {schema}.t{at} (id INT PRIMARY KEY, c0 INT)" for at in range(2)))
    state = BinlogCapture(server.uri).begin()
    workers = [
        Thread(target=Worker(server, seed * 10 + at, schema).run, args=(steps,)) for at, schema in enumerate(schemas)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return state


def plain(table: Table) -> Table:
    """Without ids, and what a DDL leaves to the server: collations, names and order of keys, printed defaults."""
    columns = tuple(replace(column, default=None, type=replace(column.type, collate=None)) for column in table.columns)
    primary = tuple(index for index in table.indexes if index.primary)
    return replace(table, columns=columns, indexes=primary, table_id=None, version=None, collate=None)


def check(server: Server, state: CaptureState, rows: Rows) -> None:
    """The tables and rows are those of the server."""
    there = {(table.schema, table.name): table for table in BinlogCapture(server.uri).begin().tables}
    known = {(table.schema, table.name): table for table in state.tables}
    assert known.keys() == there.keys()
    for name, table in there.items():
        assert plain(known[name]) == plain(table)
        folded = rows.get(name, {})
        (count,) = server.execute(f"SELECT COUNT(*) FROM `{name[0]}`.`{name[1]}`")[0]
        assert count == len(folded), name
        keys = [{key: row[key] for key in handle_key(table)} for row in folded.values()]
        with Upstream(server.uri) as upstream:
            for row, found in zip(folded.values(), upstream.lookup(table, keys, 0), strict=True):
                assert found is not None
                assert row.items() <= found.items()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_random_work_is_captured_whole(server: Server, seed: int) -> None:
    state = work(server, seed, 100 if seed == 1 else 400)
    given = captured(server, state)
    assert [one.commit_ts for one in given] == sorted({one.commit_ts for one in given})
    rows: Rows = {}
    reached = state
    places = []
    for one in given:
        reached = follow(reached, one)
        fold_rows(rows, one)
        places.append(reached)
    check(server, reached, rows)
    for at in Random(seed).sample(range(len(given)), 4):
        assert captured(server, places[at]) == given[at + 1 :]


@pytest.mark.slow
def test_a_server_that_is_killed_goes_on_where_it_stood(tmp_path: Path) -> None:
    with running(tmp_path, *OPTIONS, "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1") as server:
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
        source = BinlogCapture(server.uri)
        state = source.begin()
        reading, given, at = source.read(state), [], 0
        for _ in range(3):
            for _ in range(5):
                server.execute(f"INSERT INTO d.t VALUES ({at})")
                at += 1
            server.kill()
            server.start()
        while len(given) < at:
            one = next(reading)
            state = follow(state, one)
            if isinstance(one, Transaction):
                given += [change.after for change in one.changes]
        assert given == [{"id": str(number)} for number in range(at)]
        server.kill()
        for _ in range(3):
            assert isinstance(next(reading), Resolved)  # also while it is away
        source.close()
        assert not [one for one in reading if not isinstance(one, Resolved)]
