"""Random work whose result the lake can hold: columns keep their family of types, and SQL is strict."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from threading import Event

import pymysql

from tests.support.mariadb_server import Server

STRICT = "SET sql_mode = 'STRICT_ALL_TABLES,TIME_ROUND_FRACTIONAL', time_zone = '+00:00', innodb_lock_wait_timeout = 5"


@dataclass(frozen=True)
class Family:
    """Types that convert into each other without a loss that the lake refuses; values; a default."""

    types: tuple[str, ...]
    values: tuple[str, ...]
    default: str


FAMILIES = (
    Family(("SMALLINT", "INT", "BIGINT"), ("7", "-3", "32767"), "3"),
    Family(("VARCHAR(30)", "VARCHAR(60)", "TEXT"), ("'é中😀'", "'it''s \\\\\\\\ \\n'", "''"), "'new'"),
    Family(("DECIMAL(9,2)", "DECIMAL(12,2)", "DECIMAL(20,4)"), ("1.5", "-2.25", "0"), "9.75"),
    Family(("DATETIME", "DATETIME(3)", "DATETIME(6)"), ("'2024-02-29 12:00:00.5'", "'1969-12-31'"), "'2000-01-02'"),
    Family(("ENUM('a','b')", "ENUM('a','b','ü')"), ("'a'", "'b'"), "'b'"),
    Family(("VARBINARY(20)", "VARBINARY(40)"), ("x'00ff5c27'", "''", "'a'"), "'z'"),
    Family(("DOUBLE",), ("0.1", "-1e300", "0"), "0.5"),
    Family(("TIMESTAMP(3) NULL",), ("'2024-03-31 01:30:00.25'",), "'2001-02-03 04:05:06'"),
    Family(("INT UNSIGNED", "BIGINT UNSIGNED"), ("4294967295", "0"), "8"),
    Family(("DATE",), ("'2024-02-29'", "'0100-01-01'"), "'1999-12-31'"),  # Debezium has no years below 100
    Family(("TIME(1)",), ("'-838:59:59'", "'12:00:00.5'"), "'01:02:03'"),
    Family(("SET('x','y')", "SET('x','y','z')"), ("'x,y'", "''"), "'y'"),
    Family(("BIT(8)",), ("b'10000001'", "0"), "b'1'"),
    Family(("JSON",), ('\'{"a": [1, null, "é"]}\'',), "'[]'"),
    Family(("YEAR",), ("2024", "1901"), "1999"),
)


class CircleWorker:
    """Statements on the tables of one database, until it is stopped; some fail, as they do in life."""

    def __init__(self, server: Server, seed: int, schema: str, *, only_additions: bool = False) -> None:
        """``only_additions``: of DDL only what shows in rows, for protocols that have no DDL."""
        self._random = Random(seed)
        self._schema = schema
        self._only_additions = only_additions
        self.stop = Event()
        self.failed: Exception | None = None
        self.ddls = self.rows = 0
        self._connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="root", charset="utf8mb4", autocommit=True, database=schema
        )
        self._execute(STRICT)

    def run(self, steps: int, pause: float) -> None:
        """``pause``: seconds between two statements."""
        with self._connection:
            for _ in range(steps):
                self._step()
                if self.stop.wait(pause):
                    return

    def _step(self) -> None:
        draw = self._random.random()
        if draw < 0.2:
            self.ddls += self._execute(self._addition() if self._only_additions else self._ddl())
        elif draw < 0.8:
            self.rows += self._execute(self._dml())
        else:
            self._execute("BEGIN")
            for _ in range(self._random.randrange(1, 6)):
                self.rows += self._execute(self._dml())
                if self._random.random() < 0.2:
                    self._execute("SAVEPOINT s")
            if self._random.random() < 0.2:
                self._execute("ROLLBACK TO s")
            self._execute(self._random.choice(("COMMIT", "COMMIT", "ROLLBACK")))

    def _execute(self, sql: str) -> bool:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
            return True
        except pymysql.err.MySQLError:
            return False

    def _table(self) -> str:
        return f"t{self._random.randrange(4)}"

    def _column(self) -> tuple[str, str, Family]:
        """A name, a type and its family."""
        at = self._random.randrange(len(FAMILIES))
        family = FAMILIES[at]
        return f"{self._random.choice('cd')}{at}", self._random.choice(family.types), family

    def _dml(self) -> str:
        table, key = self._table(), self._random.randrange(60)
        name, _, family = self._column()
        value = self._random.choice((*family.values, "NULL"))
        return self._random.choice(
            (
                f"INSERT INTO {table} (id) VALUES ({key}), ({key + 100})",
                f"INSERT INTO {table} (id, {name}) VALUES ({key}, {value})",
                f"REPLACE INTO {table} (id, {name}) VALUES ({key}, {value})",
                f"INSERT INTO {table} (id) VALUES ({key}) ON DUPLICATE KEY UPDATE {name} = {value}",
                f"UPDATE {table} SET {name} = {value} WHERE id < {key}",
                f"UPDATE {table} SET id = id + 1000 WHERE id = {key}",
                f"DELETE FROM {table} WHERE id BETWEEN {key} AND {key + 5}",
            )
        )

    def _addition(self) -> str:
        table, (name, kind, _) = self._table(), self._column()
        return self._random.choice(
            (
                f"CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY, {name} {kind})",
                f"ALTER TABLE {table} ADD COLUMN {name} {kind}",
                f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {name} {kind}",
                f"ALTER TABLE {table} ADD INDEX i_{name} ({name})",
            )
        )

    def _ddl(self) -> str:
        table, other = self._table(), self._table()
        name, kind, family = self._column()
        renamed = ("d" if name[0] == "c" else "c") + name[1:]
        first = self._random.choice(("", "FIRST", "AFTER id"))
        # what old rows get of a default of these is not on the wire (docs/reference/capture.md)
        default = "NULL" if kind in ("TEXT", "JSON") else family.default
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
                f"RENAME TABLE {table} TO moved, moved TO {other}",
                f"ALTER TABLE {table} RENAME TO {other}",
                f"ALTER TABLE {table} ADD COLUMN {name} {kind} {first}",
                f"ALTER TABLE {table} ADD COLUMN {name} {kind.removesuffix(' NULL')} NOT NULL DEFAULT {default}",
                f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {name} {kind} DEFAULT {default}",
                f"ALTER TABLE {table} ADD COLUMN v{name} INT AS (id * 2) VIRTUAL, ADD INDEX (id)",
                f"ALTER TABLE {table} DROP COLUMN {name}",
                f"ALTER TABLE {table} MODIFY {name} {kind} {first}",
                f"ALTER TABLE {table} MODIFY {name} {kind}",
                f"ALTER TABLE {table} CHANGE {name} {renamed} {kind}",
                f"ALTER TABLE {table} RENAME COLUMN {name} TO {renamed}",
                f"ALTER TABLE {table} RENAME COLUMN {name} TO {renamed}, RENAME COLUMN {renamed} TO {name}",
                f"ALTER TABLE {table} ADD INDEX ({name}), ADD COLUMN {name} {kind} {first}",
                f"ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT {family.default}, COMMENT 'x'",
                f"ALTER TABLE {table} ADD INDEX i_{name} ({name})",
                f"CREATE INDEX i_{name} ON {table} (id, {name})",
                f"ALTER TABLE {table} ADD x INT, DROP COLUMN IF EXISTS {name}, ENGINE=InnoDB",
                f"ALTER TABLE {table} DROP COLUMN x, ADD COLUMN {name} {kind}",
                f"CREATE OR REPLACE VIEW v AS SELECT id FROM {table}",
                "CREATE OR REPLACE SEQUENCE s",
                "DO NEXT VALUE FOR s",
                f"OPTIMIZE TABLE {table}",
                f"ALTER DATABASE {self._schema} CHARACTER SET utf8mb4",
                f"CREATE DATABASE {self._schema}_more",
                f"CREATE TABLE {self._schema}_more.{table} LIKE {table}",
                f"RENAME TABLE {table} TO {self._schema}_more.{other}",
                f"RENAME TABLE {self._schema}_more.{table} TO {other}",
                f"DROP DATABASE {self._schema}_more",
            )
        )
