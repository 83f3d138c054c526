"""Character sets on a real server: the defaults of tables and databases are followed."""

from __future__ import annotations

import re
from random import Random

import pymysql
import pytest

from tests.integration.binlog_stream import followed, run_drawn
from tests.support.mariadb_server import Server
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.model import Table

_CHARSETS = ("binary", "latin1", "gbk", "utf8mb4", "utf8mb3", "ascii")
_COLLATIONS = ("latin1_german1_ci", "uca1400_as_ci", "DEFAULT")
_KINDS = ("CHAR(5)", "VARCHAR(30)", "TEXT", "TINYTEXT", "LONGTEXT", "ENUM('a','b')", "SET('x','y')", "INT", "JSON")
_OTHERS = ("BINARY(3)", "BLOB", "NATIONAL VARCHAR(4)", "VARCHAR(9) ASCII", "CHAR(2) UNICODE", "CHAR(4) BYTE")
_COLUMNS = ("a", "b", "c")


class Statements:
    """Draws DDL on the tables ``t`` and ``u``; some of it fails."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def draw(self) -> str:
        table, other = self._random.sample(("t", "u"), 2)
        draw = self._random.random()
        if draw < 0.15:
            columns = ", ".join(self._definition(name) for name in self._random.sample(_COLUMNS, 2))
            return f"CREATE OR REPLACE TABLE {table} (id INT PRIMARY KEY, {columns}) {self._charset('DEFAULT ')}"
        if draw < 0.2:
            return f"CREATE OR REPLACE TABLE {table} LIKE {other}"
        if draw < 0.24:
            return f"ALTER DATABASE d {self._random.choice((self._named(), self._collation()))}"
        if draw < 0.28:
            return f"CREATE OR REPLACE TABLE e.{table} (id INT PRIMARY KEY, {self._definition('a')})"
        if draw < 0.32:
            return f"CREATE DATABASE IF NOT EXISTS e {self._charset('DEFAULT ')}"
        if draw < 0.34:
            return "DROP DATABASE IF EXISTS e"
        parts = [self._column_part(name) for name in self._random.sample(_COLUMNS, self._random.choice((0, 1, 1, 2)))]
        parts += [self._default() for _ in range(self._random.choice((1, 1, 2)))] if not parts or draw > 0.7 else []
        self._random.shuffle(parts)
        return f"ALTER TABLE {table} {', '.join(parts)}"

    def _column_part(self, name: str) -> str:
        return self._random.choice(
            (
                f"ADD {self._definition(name)}",
                f"ADD ({self._definition(name)})",
                f"MODIFY {self._definition(name)}",
                f"CHANGE {name} {self._definition(name.upper())}",
                f"DROP {name}",
            )
        )

    def _default(self) -> str:
        return self._random.choice(
            (
                f"DEFAULT {self._named()}",
                f"CONVERT TO {self._named()}",
                f"CONVERT TO {self._named()} {self._collation()}",
                self._collation(),
            )
        )

    def _named(self) -> str:
        return f"CHARACTER SET {self._random.choice((*_CHARSETS, 'DEFAULT'))}"

    def _collation(self) -> str:
        return f"COLLATE {self._random.choice(_COLLATIONS)}"

    def _definition(self, name: str) -> str:
        if self._random.random() < 0.2:
            return f"{name} {self._random.choice(_OTHERS)}"
        kind = self._random.choice(_KINDS)
        return f"{name} {kind} {'' if kind in ('INT', 'JSON') else self._charset()}"

    def _charset(self, before: str = "") -> str:
        draw = self._random.random()
        if draw < 0.2:
            return self._collation() if before or draw < 0.15 else "BINARY"
        charset = self._named() if before else f"CHARACTER SET {self._random.choice(_CHARSETS)}"
        return f"{before}{charset}" if draw < 0.5 else ""


def charsets(table: Table) -> tuple[str | None, list[tuple[str, str, str | None]]]:
    """The default and the columns. The kind of TEXT or BLOB is left out, as CONVERT may make it longer."""
    kinds = [(one.name, one.type) for one in table.columns]
    return table.charset, [(name, re.sub("^(tiny|medium|long)", "", kind.name), kind.charset) for name, kind in kinds]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_random_character_sets_are_followed(server: Server, seed: int) -> None:
    statements = Statements(Random(seed))
    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", charset="utf8mb4", autocommit=True, database="d"
    )
    with connection, connection.cursor() as cursor:
        for _ in range(20 if seed == 1 else 60):
            state = BinlogCapture(server.uri).begin()
            done = run_drawn(cursor, statements.draw, 6)
            state = followed(server, state)
            there = BinlogCapture(server.uri).begin()
            known = {table.full_name: charsets(table) for table in state.tables}
            assert known == {table.full_name: charsets(table) for table in there.tables}, done
