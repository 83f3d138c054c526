"""Value expressions of event filters, compared with what a real MariaDB makes of them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from msgspec.structs import replace

from tests.support.mariadb_server import Server, running
from ticdc_spark.config.expressions.compile import parse_expression
from ticdc_spark.config.expressions.nodes import Unsupported
from ticdc_spark.config.expressions.trees import Compiler
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Column, Row, Table
from ticdc_spark.mysql import parse_type

ZONE = "+05:30"
EXPRESSIONS = 800
CHECKED = 600
"""Least number of expressions that both must have evaluated, so that the comparison is worth something."""

# canonical values; ENUM, SET and BIT are numbers there and in SQL
COLUMNS: dict[str, tuple[str, list[str | bytes | None]]] = {
    "t": ("tinyint", ["0", "1", "-1", "7", "-128", None]),
    "i": ("int", ["0", "1", "2", "-5", "2147483647", None]),
    "u": ("int unsigned", ["0", "1", "3", "4294967295", None]),
    "b": ("bigint", ["0", "-9223372036854775808", "9223372036854775807", "10", None]),
    "bu": ("bigint unsigned", ["0", "18446744073709551615", "9", None]),
    "d": ("decimal(10,2)", ["0.00", "1.50", "-1.50", "99999999.99", "2.25", None]),
    "f": ("float", ["0", "0.1", "1.5", "-2.25", "16777216", None]),
    "g": ("double", ["0", "0.1", "1e10", "-3.75", "123456.789", None]),
    "s": ("varchar(20)", ["", "a", "A", "abc", "a%c", "10", " 12x", "é", "日本", "a_c", "1e1", "b ", None]),
    "ci": ("varchar(20)", ["", "a", "A", "aBc", "É", "e", "x  ", None]),
    "n": ("varbinary(10)", [b"", b"a", b"A", b"\x00\xff", b"abc", None]),
    "dt": ("date", ["2024-02-29", "2023-12-31", "1999-01-01", None]),
    "dm": ("datetime(3)", ["2024-02-29 23:59:59.999", "2024-01-01 00:00:00.000", "2023-06-15 12:30:00.500", None]),
    "ts": ("timestamp", ["2024-02-29 20:00:00", "2023-12-31 23:59:59", "2024-01-01 00:00:00", None]),
    "tm": ("time", ["00:00:00", "12:30:00", "-01:00:00", "100:00:01", None]),
    "e": ("enum('a','B','c')", ["1", "2", "3", None]),
    "st": ("set('x','y','z')", ["0", "1", "3", "7", None]),
    "bt": ("bit(10)", ["0", "1", "65", "1023", None]),
    "y": ("year", ["1999", "2024", "2000", None]),
}


def table() -> Table:
    def column(name: str, text: str) -> Column:
        found = parse_type(text)
        collate = {"ci": "utf8mb4_general_ci"}.get(name, "utf8mb4_bin")
        if found.charset != "binary" or text.startswith(("enum", "set")):
            found = replace(found, collate=collate, charset="utf8mb4")
        return Column(name=name, type=found)

    return Table(schema="x", name="v", columns=tuple(column(name, text) for name, (text, _) in COLUMNS.items()))


def sql_value(value: str | bytes | None, kind: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if value else "''"
    quoted = kind.startswith(("varchar", "date", "time"))
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'" if quoted else value


class Expressions:
    """Random expressions of the kinds that the filters support."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def condition(self, depth: int) -> str:  # one case a kind of condition
        if depth <= 0:
            return self.comparison(0)
        match self.random.randrange(10):
            case 0:
                return (
                    f"({self.condition(depth - 1)}) {self.one('AND', 'OR', 'XOR', '&&')} ({self.condition(depth - 1)})"
                )
            case 1:
                return f"{self.one('NOT', '!')} ({self.condition(depth - 1)})"
            case 2:
                return f"({self.condition(depth - 1)}) IS {self.one('', 'NOT ')}{self.one('TRUE', 'FALSE', 'NULL')}"
            case 3:
                members = ", ".join(self.number(depth - 1) for _ in range(self.random.randint(1, 4)))
                return f"{self.number(depth - 1)} {self.one('', 'NOT ')}IN ({members}{self.one('', ', NULL')})"
            case 4:
                members = ", ".join(self.text(0) for _ in range(self.random.randint(1, 3)))
                return f"{self.text(depth - 1)} {self.one('', 'NOT ')}IN ({members})"
            case 5:
                low, high = self.number(depth - 1), self.number(depth - 1)
                return f"{self.number(depth - 1)} {self.one('', 'NOT ')}BETWEEN {low} AND {high}"
            case 6:
                wild = self.one("'a%'", "'%'", "'_'", "'a!%c'", "'%b%'", "''", "'A_C'", "'%c '")
                escape = " ESCAPE '!'" if "!" in wild else ""
                return f"{self.text(depth - 1)} {self.one('', 'NOT ')}LIKE {wild}{escape}"
            case _:
                return self.comparison(depth - 1)

    def comparison(self, depth: int) -> str:
        sign = self.one("=", "<>", "!=", "<", "<=", ">", ">=", "<=>")
        match self.random.randrange(7):
            case 0 | 1 | 2:
                return f"{self.number(depth)} {sign} {self.number(depth)}"
            case 3:
                return f"{self.text(depth)} {sign} {self.text(depth)}"
            case 4:
                return f"{self.moment(depth)} {sign} {self.moment(depth)}"
            case 5:
                other = self.one("tm", "'12:30:00'", "'100:00:01'", "NULL")
                return f"tm {sign} {other}"
            case _:
                names = self.one("e", "st")
                return f"{names} {sign} {self.one(chr(39) + 'a' + chr(39), chr(39) + 'x,y' + chr(39), '2', 's', 'u')}"

    def number(self, depth: int) -> str:  # noqa: C901  one case a kind of expression
        if depth <= 0:
            column = self.one("t", "i", "u", "b", "bu", "d", "f", "g", "(y + 0)", "(bt + 0)")
            value = self.one(
                "0", "1", "-1", "2", "1.5", "0.10", "1e2", "3", "NULL", "18446744073709551615", "(0x41 + 0)", "TRUE"
            )
            return self.one(column, column, value)
        inner = [self.number(depth - 1) for _ in range(3)]
        match self.random.randrange(14):
            case 0 | 1 | 2:
                return f"({inner[0]} {self.one('+', '-', '*')} {inner[1]})"
            case 3:
                # MariaDB's rest of a negative decimal may be -0.00, which is not 0 there
                # and it rounds a quotient to its 4 digits, where TiDB keeps those that it has
                return self.one(
                    f"(ABS({inner[0]}) {self.one('DIV', '%', 'MOD')} {inner[1]})",
                    f"({inner[0]} / {self.one('2', '4', '0')})",
                )
            case 4:
                # MariaDB looks at 32 bits of the number of places, MySQL and TiDB at all
                return self.one(
                    f"({inner[0]} {self.one('|', '&', '^')} {inner[1]})", f"({inner[0]} {self.one('<<', '>>')} ABS(t))"
                )
            case 5:
                return f"(-({inner[0]}))"
            case 6:
                return f"{self.one('ABS', 'SIGN', 'FLOOR', 'CEIL', 'CEILING', 'ISNULL')}({inner[0]})"
            case 7:
                return f"{self.one('LENGTH', 'CHAR_LENGTH', 'CRC32', 'ASCII')}({self.text(depth - 1)})"
            case 8:
                return f"IF({self.condition(depth - 1)}, {inner[0]}, {inner[1]})"
            case 9:
                return f"{self.one('COALESCE', 'IFNULL', 'NULLIF')}({inner[0]}, {inner[1]})"
            case 10:
                return f"CASE {inner[0]} WHEN {inner[1]} THEN {inner[2]} ELSE 5 END"
            case 11:
                kind = self.one("SIGNED", "DECIMAL(10,1)")
                # of a negative fraction MariaDB makes 0, MySQL and TiDB the integer's complement
                return self.one(f"CAST({self.one(inner[0], self.text(0))} AS {kind})", "CAST(b AS UNSIGNED)")
            case 12:
                part = self.one("YEAR", "MONTH", "DAY", "DAYOFWEEK", "WEEKDAY", "DAYOFYEAR", "QUARTER")
                return f"{part}({self.one('dt', 'dm', 'ts')})"
            case _:
                return self.one(
                    f"DATEDIFF({self.one('dt', 'dm')}, {self.one('dt', 'ts')})",
                    f"HOUR({self.one('dm', 'tm', 'ts')})",
                    f"MINUTE({self.one('dm', 'tm')})",
                    f"GREATEST({inner[0]}, {inner[1]})",
                    f"LEAST({inner[0]}, {inner[1]})",
                    f"LOCATE({self.text(0)}, {self.text(0)})",
                    f"STRCMP({self.text(0)}, {self.text(0)})",
                    f"ROUND(d, {self.one('0', '1', '-1')})",
                    f"TRUNCATE(d, {self.one('0', '1')})",
                )

    def text(self, depth: int) -> str:
        if depth <= 0:
            literal = self.one(
                "'a'", "'A'", "''", "'10'", "'abc'", "'é'", "'b'", "'x'", "'a  '", "NULL", "'it''s'", r"'a\\b'"
            )
            return self.one("s", "ci", "s", "n", literal, literal)
        inner = self.text(depth - 1)
        return self.one(
            f"CONCAT({inner}, {self.text(depth - 1)})",
            f"LOWER({self.one('s', 'ci')})",
            f"UPPER({self.one('s', 'ci')})",
            f"SUBSTRING({inner}, {self.one('1', '2', '-2', '0')}, {self.one('1', '2')})",
            f"LEFT({inner}, 2)",
            f"RIGHT({inner}, 1)",
            f"TRIM({inner})",
            "REPLACE(s, 'a', 'bc')",
            f"COALESCE({inner}, {self.text(0)})",
            f"IF({self.condition(0)}, {inner}, {self.text(0)})",
            f"REVERSE({self.one('s', 'ci')})",
            f"CONCAT_WS('-', s, {inner})",
            f"HEX({self.one('s', 'u', 'n')})",
            f"MD5({inner})",
            f"CAST({self.one('i', 'u', 'd', 'dt', 'dm')} AS CHAR)",
        )

    def moment(self, depth: int) -> str:
        literal = self.one(
            "'2024-02-29'", "'2024-01-01 00:00:00'", "'2023-6-15 12:30:00.5'", "20231231", "'20240229'", "NULL"
        )
        if depth <= 0:
            return self.one("dt", "dm", "ts")
        return self.one(
            "dt",
            "dm",
            "ts",
            literal,
            "DATE(dm)",
            "DATE(ts)",
            f"DATE_ADD({self.one('dt', 'dm')}, INTERVAL {self.one('1', '-3', 't')} {self.one('DAY', 'HOUR', 'MONTH')})",
            f"dm - INTERVAL {self.one('1', '40')} {self.one('MINUTE', 'WEEK', 'SECOND')}",
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("expressions")) as started:
        yield started


@pytest.mark.mariadb
def test_random_expressions_have_the_values_that_a_database_finds(server: Server) -> None:
    subject = table()
    draw = Expressions(20241122)
    rows = [{name: draw.random.choice(values) for name, (_, values) in COLUMNS.items()} for _ in range(24)]
    differ: list[str] = []
    checked = 0
    with (
        pymysql.connect(
            unix_socket=str(server.folder / "s"),
            user="root",
            charset="utf8mb4",
            collation="utf8mb4_bin",
            autocommit=True,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET autocommit = 1")
        _create(cursor, rows)
        for _ in range(EXPRESSIONS):
            sql = draw.condition(draw.random.randint(0, 3))
            wanted = _database_values(cursor, sql)
            found = _our_values(subject, sql, rows)
            if wanted is None or found is None:
                # a database may evaluate, and refuse, what need not be evaluated
                if wanted is not None:
                    differ.append(f"{sql}\n   database {wanted}, here an error")
                continue
            if isinstance(found, str):
                differ.append(f"{sql}\n   {found}")
                continue
            checked += 1
            for row, want, have in zip(rows, wanted, found, strict=True):
                if want != have:
                    used = {name: row[name] for name in COLUMNS if re.search(rf"\b{name}\b", sql)}
                    differ.append(f"{sql}\n   database {want}, here {have} for {used}")
                    break
    assert not differ, f"{len(differ)} of {checked} differ:\n" + "\n".join(differ[:40])
    assert checked >= CHECKED


def _create(cursor: Any, rows: list[Row]) -> None:
    cursor.execute("SET time_zone = '+00:00'")
    cursor.execute("CREATE DATABASE x")
    columns = ", ".join(
        f"`{name}` {kind}" + (" COLLATE utf8mb4_general_ci" if name == "ci" else "") + " NULL"
        for name, (kind, _) in COLUMNS.items()
    )
    cursor.execute(f"CREATE TABLE x.v (id int primary key, {columns}) CHARSET utf8mb4 COLLATE utf8mb4_bin")
    for number, row in enumerate(rows):
        values = ", ".join(sql_value(row[name], kind) for name, (kind, _) in COLUMNS.items())
        cursor.execute(f"INSERT INTO x.v VALUES ({number}, {values})")
    cursor.execute(f"SET time_zone = '{ZONE}'")
    cursor.execute("USE x")


def _database_values(cursor: Any, sql: str) -> list[int | None] | None:
    """The condition's value for every row; ``None`` where the database refuses it, as for an overflow."""
    try:
        cursor.execute(f"SELECT ({sql}) FROM v ORDER BY id")
        return [None if value is None else int(value) for (value,) in cursor.fetchall()]
    except (pymysql.err.OperationalError, pymysql.err.DataError):
        return None


def _our_values(subject: Table, sql: str, rows: list[Row]) -> list[int | None] | str | None:
    try:
        node = Compiler(subject, ZONE).node(parse_expression(sql))
    except (Unsupported, UsageError) as error:
        return f"not supported: {error}"
    found: list[int | None] = []
    for row in rows:
        try:
            value = node.of(row)
        except MessageError:
            return None
        found.append(None if value is None else int(value))
    return found
