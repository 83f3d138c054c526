"""Defaults of ADD COLUMN in the rows that are there, by a real MariaDB, against the values that a lake gets.

Spellings are drawn from a fixed seed. A value that is known must be the server's; where it is not known, the table is
marked. TiDB cannot be run: what its sources show to differ from MariaDB has no known value.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import msgspec
import pymysql
import pytest

from tests.support.mariadb_server import Server, running
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.ddl import apply_ddl, computed_columns, parse_create
from ticdc_spark.model import Column, Table, Value
from ticdc_spark.mysql import NO_CONSTANT, Default, default_value, utc_timestamp

OFFSET = "-05:00"
SPELLINGS = 500
TYPES = (
    *("TINYINT", "TINYINT UNSIGNED", "INT", "BIGINT", "BIGINT UNSIGNED", "BOOL", "BIT(1)", "BIT(9)", "BIT(64)"),
    *("YEAR", "FLOAT", "DOUBLE", "FLOAT(5,2)", "DOUBLE(7,3)", "DOUBLE UNSIGNED"),
    *("DECIMAL(5,2)", "DECIMAL(5,0) UNSIGNED", "DECIMAL(30,10)", "DECIMAL(10)"),
    *("DATE", "DATETIME", "DATETIME(3)", "TIMESTAMP NULL", "TIMESTAMP(6) NULL", "TIME", "TIME(2)"),
    *("CHAR(6)", "VARCHAR(6)", "CHAR(6) CHARACTER SET latin1", "VARCHAR(6) CHARACTER SET ucs2", "VARCHAR(40)"),
    *("CHAR(6) COLLATE utf8mb4_general_ci", "BINARY(4)", "VARBINARY(6)", "CHAR(4) CHARACTER SET binary"),
    *("ENUM('a','B','2')", "ENUM('','x y','7')", "SET('a','B','c')", "SET('1','2','4')"),
)
EVERYDAY = {
    "INT": ("0", "-7", "'12'", "TRUE"),
    "BIGINT UNSIGNED": ("18446744073709551615", "0x1F"),
    "DECIMAL(5,2)": ("1.005", "0", "'-3.5'", "1e2"),
    "FLOAT(5,2)": ("0", "1.25"),
    "DOUBLE": ("0.1", "-1e300", "'2.5'"),
    "YEAR": ("70", "'70'", "'0'", "2024", "'0000'"),
    "BIT(9)": ("b'101'", "5", "'a'", "0x1"),
    "DATE": ("'2020-1-1'", "20200101", "'2020-01-01'", "'20200101'"),
    "DATETIME(3)": ("'2020-01-01 10:20:30.5'", "20200101102030", "'2020-01-01'", "'2020-01-01T1:2'"),
    "TIMESTAMP NULL": ("'2020-01-01 10:20:30'", "'2020-01-01 10:20:30.000'"),
    "TIME": ("'10:20:30'", "'-1:02:03'", "0", "'00:00:00.0'"),
    "CHAR(6)": ("'a  '", "7", "1.50", "1e2", "x'6162'", "''", "_utf8mb4'é'"),
    "VARCHAR(6)": ("'a  '", ".5", "-0012", "x'C3A9'", "'a' 'b'"),
    "BINARY(4)": ("'a '", "x'6162'", "7"),
    "ENUM('a','B','2')": ("'B'", "'2'"),
    "SET('a','B','c')": ("'c,a'", "''"),
}
"""Spellings whose value is known."""


def spelling(draw: random.Random, kind: str) -> str:
    """A default of any spelling; more often one that suits the type."""
    suited = [make for word, make in SUITED.items() if word in kind]
    make = draw.choice(suited) if suited and draw.random() < 0.6 else draw.choice([*SUITED.values(), _raw, _text])
    return make(draw)


def _integer(draw: random.Random) -> str:
    digits = draw.choice(
        ("0", "1", "5", "007", "70", "99", "100", "127", "128", "255", "256", "2155", "65", "2147483648")
    )
    digits = draw.choice((digits, digits, "9223372036854775808", "18446744073709551616"))
    return _quoted(draw, draw.choice(("", "", "-", "+")) + digits)


def _number(draw: random.Random) -> str:
    whole = draw.choice(("", "0", "1", "99", "999", "123456", "00"))
    behind = draw.choice(("5", "005", "50", "995", "994999", "1234567890123", "0"))
    exponent = draw.choice(("", "", "", "e2", "E-1", "e0", "e15", "e30"))
    return _quoted(draw, draw.choice(("", "-")) + f"{whole}.{behind}{exponent}")


def _day(draw: random.Random) -> str:
    year, month, day = (
        draw.choice(("2020", "1969", "2038", "1999", "0000", "20")),
        draw.randint(0, 13),
        draw.randint(0, 31),
    )
    if draw.random() < 0.2:
        return draw.choice(("20200101", "'20200101'", "20200101102030", "'20200101102030.6'", "200101", "0", "'0'"))
    date = draw.choice((f"{year}-{month}-{day}", f"{year}-{month:02}-{day:02}", f"{year}/{month:02}/{day:02}"))
    if draw.random() < 0.4:
        return f"'{date}'"
    return f"'{date}{draw.choice(' T')}{_clock(draw).strip(chr(39))}'"


def _clock(draw: random.Random) -> str:
    if draw.random() < 0.2:
        return draw.choice(("102030", "'102030'", "'10:20'", "'1 10:20:30'", "0", "10.5", "'-00:00:00'", "'99'"))
    hour, rest = draw.choice(("0", "1", "10", "23", "24", "838", "839", "010")), draw.choice(("59", "60", "05", "5"))
    fraction = draw.choice(("", "", ".0", ".5", ".49", ".995", ".999999", ".000000", ".1234567"))
    return f"'{draw.choice(('', '', '-'))}{hour}:{rest}:{draw.choice(('59', '00'))}{fraction}'"


def _text(draw: random.Random) -> str:
    text = draw.choice(
        ("", "a", "a  ", " a", "a\\t ", "ab''c", "1e2", "é", "😀", "toolong", "b", "A", "x y", "a,c", "c,a,a", "2")
    )
    return draw.choice(("", "", "_utf8mb4", "_latin1")) + f"'{text}'"


def _raw(draw: random.Random) -> str:
    return draw.choice(
        (
            "x'41'",
            "0x41",
            "x'E9'",
            "x'C3A9'",
            "0x0041",
            "b'101'",
            "0b1000001",
            "x''",
            "0xFFFFFFFFFFFFFFFF",
            "_utf8mb4 x'C3A9'",
        )
    )


def _word(draw: random.Random) -> str:
    return draw.choice(
        ("TRUE", "FALSE", "NULL", "1 + 1", "(2 * 3)", "5 DIV 2", "-(3)", "'a' LIKE 'a'", "concat('a')", "- 1")
    )


def _quoted(draw: random.Random, text: str) -> str:
    return f"'{text}'" if draw.random() < 0.3 else text


SUITED = {
    "INT": _integer,
    "BIT": _integer,
    "YEAR": _integer,
    "BOOL": _word,
    "FLOAT": _number,
    "DOUBLE": _number,
    "DECIMAL": _number,
    "DATE": _day,
    "TIME": _clock,
    "TIMESTAMP": _day,
    "CHAR": _text,
    "BINARY": _raw,
    "ENUM": _text,
    "SET": _text,
}


class Servers:
    """Tables with a row, one for each character set, to which a column is added."""

    def __init__(self, server: Server) -> None:
        port = server.port
        self.other_rounding = "TIME_ROUND_FRACTIONAL" if server.is_mariadb else "TIME_TRUNCATE_FRACTIONAL"
        self._connection = pymysql.connect(host="127.0.0.1", port=port, user="root", charset="utf8mb4", autocommit=True)
        self._upstream = Upstream(f"mysql://root@127.0.0.1:{port}")
        self._run("CREATE DATABASE IF NOT EXISTS my CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "USE my")
        for charset in ("utf8mb4", "latin1", "ucs2"):
            self._run(f"CREATE TABLE {charset} (id INT PRIMARY KEY) ENGINE = MyISAM CHARACTER SET {charset}")
            self._run(f"INSERT INTO {charset} VALUES (1)")

    def _run(self, *statements: str) -> None:
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def added(self, kind: str, default: str, mode: str, charset: str) -> Value | pymysql.err.MySQLError:
        """What the row has then, or why the server refuses."""
        self._run(f"SET sql_mode = '{mode}', time_zone = '{OFFSET}'")
        try:
            self._run(f"ALTER TABLE {charset} ADD c {kind} DEFAULT {default}")
        except pymysql.err.MySQLError as refused:
            return refused
        table = with_column(kind, default, charset)
        found = self._upstream.lookup(msgspec.structs.replace(table, name=charset), [{"id": "1"}], 9)[0]
        self._run(f"ALTER TABLE {charset} DROP c")
        assert found is not None
        return found["c"]


def with_column(kind: str, default: str, charset: str) -> Table:
    """The table after the ALTER, by its SQL."""
    before = parse_create(f"CREATE TABLE t (id INT PRIMARY KEY, x VARCHAR(1)) CHARACTER SET {charset}", "my")
    effect = apply_ddl({("my", "t"): before}, "my", f"ALTER TABLE t ADD c {kind} DEFAULT {default}")
    assert not effect.unsupported, effect.unsupported
    after = effect.altered[0].after
    return Table(schema="my", name="t", columns=(after.columns[0], after.columns[-1]), indexes=after.indexes)


def known(kind: str, default: str, charset: str = "utf8mb4") -> Default:
    """The value that old rows get in the lake; ``NO_CONSTANT``: none, and the table is marked."""
    if computed_columns(f"ALTER TABLE t ADD c {kind} DEFAULT {default}"):
        return NO_CONSTANT
    column: Column = with_column(kind, default, charset).columns[-1]
    value = default_value(column)
    local = column.type.name == "timestamp" and isinstance(value, str) and not value.startswith("0000")
    return utc_timestamp(value, OFFSET, column.type.decimal or 0) if local and isinstance(value, str) else value


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with running(tmp_path_factory.mktemp("mariadb")) as started:
        yield Servers(started)


def test_a_known_default_is_that_of_a_real_server(server: Servers) -> None:
    draw, differ, counts = random.Random(20261125), [], Counter[str]()
    for _ in range(SPELLINGS):
        kind = draw.choice(TYPES)
        default, charset = spelling(draw, kind), draw.choice(("utf8mb4", "utf8mb4", "latin1", "ucs2"))
        mode = draw.choice(("STRICT_ALL_TABLES", f"STRICT_ALL_TABLES,{server.other_rounding}", ""))
        ours, theirs = known(kind, default, charset), server.added(kind, default, mode, charset)
        if isinstance(theirs, pymysql.err.MySQLError):
            counts["refused"] += 1
        elif ours is NO_CONSTANT:
            counts["marked"] += 1
        elif ours != theirs:
            differ.append(f"{kind} DEFAULT {default} ({charset}, {mode!r}): server {theirs!r}, ours {ours!r}")
        else:
            counts["same"] += 1
    assert not differ, "\n".join([str(len(differ)), *differ])
    assert counts["same"] > SPELLINGS // 4, counts


@pytest.mark.parametrize(("kind", "defaults"), EVERYDAY.items(), ids=EVERYDAY)
def test_everyday_defaults_are_known(server: Servers, kind: str, defaults: tuple[str, ...]) -> None:
    ours = {default: known(kind, default) for default in defaults}
    assert NO_CONSTANT not in ours.values(), ours
    assert ours == {default: server.added(kind, default, "STRICT_ALL_TABLES", "utf8mb4") for default in defaults}
