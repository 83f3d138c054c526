"""Virtual generated columns: a real MariaDB and the job find the same values."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pymysql
import pytest
from msgspec.structs import replace

from tests.integration.test_changefeed_expressions import COLUMNS, Expressions, sql_value
from tests.support.mariadb_server import Server
from ticdc_spark.capture.snapshot.base import table_of
from ticdc_spark.config.computed import computable, computed
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, Table, Value
from ticdc_spark.mysql import parse_type

COMMON = {
    "VARCHAR(40)": [
        "CONCAT(s, ' ', ci)",
        "CONCAT_WS('-', s, i, dt)",
        "LOWER(s)",
        "SUBSTRING_INDEX(s, 'c', 1)",
        "LEFT(ci, 2)",
        "IFNULL(s, ci)",
        "MD5(s)",
        "HEX(i)",
        "CASE WHEN t > 0 THEN s END",
        "JSON_UNQUOTE(JSON_EXTRACT(doc, '$.name'))",
        "JSON_UNQUOTE(JSON_EXTRACT(doc, '$.tags[0]'))",
        "i",
    ],
    "CHAR(40)": ["CONCAT(s, '  ')", "TRIM(s)"],
    "INT": [
        "i IS NULL",
        "IF(t > 0, t, NULL)",
        "LENGTH(s)",
        "YEAR(dt)",
        "JSON_UNQUOTE(JSON_EXTRACT(doc, '$.age'))",
        "ROUND(d)",
        "d * 1",
        "CASE WHEN t < 1 THEN 1 ELSE 2 END",
    ],
    "BIGINT": ["i * 2", "t + i", "b DIV 3", "CRC32(s)", "MONTH(dm) * 100 + DAY(dm)"],
    "DECIMAL(20,4)": ["d * t", "d + 0.05", "ROUND(d, 1)", "i", "COALESCE(d, 0)"],
    "DECIMAL(14,1)": ["d * 3", "-d"],
    "DATE": ["DATE(dm)", "dt + INTERVAL 1 DAY"],
    "DATETIME(3)": ["dm", "dt"],
}
NOT_COMPUTED = {
    "INT": ["s = ci", "i / 2", "s LIKE 'a%'", "f", "LOCATE('a', s)", "s REGEXP 'a'", "y", "s IN ('a')"],
    "VARCHAR(40)": ["IF(e = 'a', s, ci)", "GREATEST(s, ci)", "latin", "tm", "g"],
}
DOCS = ['{"name": "é x", "age": "7", "tags": ["a", "b"]}', '{"age": "12"}', "{}", None]
ROWS = 24
RANDOM = 260
CHECKED = 60
"""Least number of random columns that the job computes, so that the comparison is worth something."""


@pytest.fixture
def rows(server: Server) -> list[Row]:
    """The rows of a table ``d.t`` with a column of each type."""
    draw = random.Random(20261128)
    kinds = ", ".join(f"`{name}` {kind}{COLLATE.get(name, '')}" for name, (kind, _) in COLUMNS.items())
    server.execute(
        f"CREATE TABLE d.t (id INT PRIMARY KEY, {kinds}, doc JSON, latin VARCHAR(9) CHARSET latin1) "
        "CHARSET utf8mb4 COLLATE utf8mb4_bin"
    )
    found: list[Row] = []
    for at in range(ROWS):
        row: Row = {name: draw.choice(values) for name, (_, values) in COLUMNS.items()}
        row["doc"] = DOCS[at % len(DOCS)]
        values = ", ".join(sql_value(row[name], kind) for name, (kind, _) in COLUMNS.items())
        doc = "NULL" if row["doc"] is None else f"'{row['doc']}'"
        server.execute(f"INSERT INTO d.t VALUES ({at}, {values}, {doc}, 'a')")
        found.append({**row, "id": str(at), "latin": "a"})
    return found


COLLATE = {"ci": " COLLATE utf8mb4_general_ci"}


def added(server: Server, columns: list[tuple[str, str]]) -> Iterator[tuple[str, str, list[Value] | None, Table]]:
    """Add virtual columns, one by one.

    Yields: the SQL, the name, the values that the server finds (``None``: it refuses), the table as it prints it
    """
    for at, (kind, sql) in enumerate(columns):
        try:
            server.execute(f"ALTER TABLE d.t ADD COLUMN v{at} {kind} AS ({sql}) VIRTUAL")
        except pymysql.MySQLError:
            continue
        ((_, create),) = server.execute("SHOW CREATE TABLE d.t")
        try:
            values = [shown(value) for (value,) in server.execute(f"SELECT v{at} FROM d.t ORDER BY id")]
        except pymysql.MySQLError:
            values = None
        printed = table_of(str(create), "d")
        # MariaDB's JSON is a text
        columns_of = (replace(one, type=parse_type("json")) if one.name == "doc" else one for one in printed.columns)
        yield sql, f"v{at}", values, replace(printed, columns=tuple(columns_of))
        server.execute(f"ALTER TABLE d.t DROP COLUMN v{at}")


def computed_columns(table: Table) -> dict[str, str]:
    return dict(computable(table, {column.name for column in table.columns}))


def shown(value: Any) -> Value:
    """A value of the server as the job has it."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:23]
    if isinstance(value, date):
        return value.isoformat()
    return None if value is None else str(value)


def found(name: str, sql: str, table: Table, rows: list[Row]) -> list[Value] | str:
    of = computed(name, sql, table)
    values: list[Value] = []
    for row in rows:
        try:
            values.append(of.value({one: row[one] for one in of.reads}))
        except (MessageError, ArithmeticError) as error:
            return str(error)
    return values


def test_usual_columns_have_the_values_that_the_server_finds(server: Server, rows: list[Row]) -> None:
    columns = [(kind, sql) for kind, several in COMMON.items() for sql in several]
    seen = 0
    for sql, name, values, table in added(server, columns):
        printed = computed_columns(table).get(name)
        assert printed is not None, f"{sql} is not computed"
        # as the DDL has it, and as SHOW CREATE TABLE prints it
        for text in (sql, printed):
            assert found(name, text, table, rows) == values, text
        seen += 1
    assert seen == len(columns) - (not server.is_mariadb)  # MySQL 9.6 has no MD5


def test_a_column_whose_value_depends_on_the_server_is_not_computed(server: Server, rows: list[Row]) -> None:
    columns = [(kind, sql) for kind, several in NOT_COMPUTED.items() for sql in several]
    assert [sql for sql, name, _, table in added(server, columns) if name in computed_columns(table)] == []


def test_random_columns_have_the_values_that_the_server_finds(server: Server, rows: list[Row]) -> None:
    draw = Expressions(20261128)

    def one() -> tuple[str, str]:
        depth = draw.random.randint(0, 2)
        match draw.random.randrange(4):
            case 0 | 1:
                return draw.one("INT", "BIGINT", "DECIMAL(30,4)", "DECIMAL(12,1)", "VARCHAR(60)"), draw.number(depth)
            case 2:
                return draw.one("VARCHAR(200)", "CHAR(200)", "TEXT"), draw.text(depth)
            case _:
                return draw.one("DATE", "DATETIME(3)", "VARCHAR(60)"), draw.moment(depth)

    checked, differ = 0, []
    for sql, name, values, table in added(server, [one() for _ in range(RANDOM)]):
        printed = computed_columns(table).get(name)
        if printed is None:
            continue
        ours = found(name, printed, table, rows)
        if values is None or isinstance(ours, str):
            # A server that reads such a column cuts what is out of its range, and strict ones refuse the INSERT.
            if values is not None and "out of the range" not in ours:
                differ.append(f"{sql}\n  the server finds {values}, here an error: {ours}")
            continue
        checked += 1
        for row, want, have in zip(rows, values, ours, strict=True):
            if want != have:
                used = {column: row[column] for column in COLUMNS if re.search(rf"\b{column}\b", sql)}
                differ.append(f"{printed}\n  {table.columns[-1].type.name}: server {want!r}, here {have!r} for {used}")
                break
    assert not differ, f"{len(differ)} of {checked}:\n" + "\n".join(differ[:30])
    assert checked >= CHECKED
