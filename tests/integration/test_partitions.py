"""In which partition a real MariaDB puts a row, against the conditions by which its rows are removed.

Where TiDB and MariaDB differ (HASH of NULL) no row is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.integration.mysql_jobs import job_of
from tests.spark.test_partition_ddl import events
from tests.support.mariadb_server import Server
from tests.support.partitions import placed, table
from ticdc_spark.config.load import load_job
from ticdc_spark.replicate import loop
from ticdc_spark.spark import tasks

Draw = Callable[[Random], str]
BIN = "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def integers(random: Random) -> str:
    return str(random.choice([random.randint(-30, 30), random.randint(-(1 << 31), (1 << 31) - 1)]))


def nullable(random: Random) -> str:
    return "NULL" if random.random() < 0.1 else integers(random)


def unsigned(random: Random) -> str:
    return str(random.choice([random.randint(0, 9), random.randint(1 << 62, (1 << 64) - 1)]))


def texts(random: Random) -> str:
    return f"'{''.join(random.choices('abBé😀', k=random.randint(0, 3)))}{' ' * random.randint(0, 2)}'"


def days(random: Random) -> str:
    return f"'{random.randint(2018, 2022)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}'"


def edges(random: Random) -> str:
    return random.choice(
        ["'2019-12-31 23:59:59.999'", "'2020-01-01 00:00:00.000'", f"{days(random)[:-1]} 01:02:03.004'"]
    )


def seconds(random: Random) -> str:
    return f"{edges(random)[:-5]}'"


def ranges(by: str, *bounds: str) -> str:
    parts = (f"PARTITION p{at} VALUES LESS THAN ({bound})" for at, bound in enumerate(bounds))
    return f"RANGE {by} ({', '.join(parts)})"


def lists(by: str, *values: str) -> str:
    parts = (f"PARTITION p{at} " + (one if one == "DEFAULT" else f"VALUES IN ({one})") for at, one in enumerate(values))
    return f"LIST {by} ({', '.join(parts)})"


@pytest.mark.parametrize(
    ("kinds", "by", "draw"),
    [
        (["INT"], ranges("(a)", "-3", "7", "MAXVALUE"), [nullable]),
        (["INT"], ranges("(a)", "-9999999999", "9999999999"), [nullable]),
        (["BIGINT UNSIGNED"], ranges("(a)", "7", "9223372036854775809", "MAXVALUE"), [unsigned]),
        (["INT"], "HASH (a) PARTITIONS 7", [integers]),
        (["BIGINT"], "HASH (a) PARTITIONS 3", [lambda random: str(random.randint(-(1 << 63), (1 << 63) - 1))]),
        pytest.param(["INT"], lists("(a)", "1, NULL, -3", "4, 5", "DEFAULT"), [nullable], marks=pytest.mark.mariadb),
        pytest.param(["INT"], lists("(a)", "1, 2", "DEFAULT"), [nullable], marks=pytest.mark.mariadb),
        (
            ["INT", "INT"],
            ranges("COLUMNS (a, b)", "0, 5", "0, 9", "0, MAXVALUE", "9, -3", "MAXVALUE, MAXVALUE"),
            [lambda random: random.choice(["0", "9", nullable(random)]), nullable],
        ),
        (
            ["INT", BIN],
            ranges("COLUMNS (a, b)", "0, 'B'", "0, 'ab'", "3, 'é'", "MAXVALUE, MAXVALUE"),
            [lambda random: random.choice(["0", "3", integers(random)]), texts],
        ),
        ([BIN], lists("COLUMNS (a)", "'a', 'B'", "'', 'é', 'b'"), [texts]),
        (
            ["INT", "INT"],
            lists("COLUMNS (a, b)", "(1, 2), (2, NULL)", "(1, 1), (2, 2)"),
            [lambda random: random.choice("12"), lambda random: random.choice(["1", "2", "NULL"])],
        ),
        (["DATE"], ranges("(YEAR(a))", "2020", "2022", "MAXVALUE"), [days]),
        (["DATETIME(3)"], ranges("(YEAR(a))", "2020", "2021", "MAXVALUE"), [edges]),
        (["DATETIME(3)"], ranges("(TO_DAYS(a))", "TO_DAYS('2020-01-01')", "737805", "MAXVALUE"), [edges]),
        (["DATE"], ranges("(TO_DAYS(a))", "737790", "MAXVALUE"), [days]),
        (["DATE"], lists("(YEAR(a))", "2018, 2020, 2022", "2019, 2021"), [days]),
        (["TIMESTAMP"], ranges("(UNIX_TIMESTAMP(a))", "1577836800", "MAXVALUE"), [seconds]),
        (["DATE"], ranges("COLUMNS (a)", "'2019-02-28'", "'2020-02-29'", "MAXVALUE"), [days]),
        (["DATETIME(3)"], ranges("COLUMNS (a)", "'2020-01-01'", "'2021-01-01 12:00:00'", "MAXVALUE"), [edges]),
    ],
)
def test_rows_lie_where_the_server_puts_them(target: Server, kinds: list[str], by: str, draw: list[Draw]) -> None:
    random = Random(by)
    names = "ab"[: len(kinds)]
    nulls = ["NOT NULL" if "DATE" in kind or "TIME" in kind else "NULL" for kind in kinds]
    columns = ", ".join(f"{name} {kind} {null}" for name, kind, null in zip(names, kinds, nulls, strict=True))
    columns += f", UNIQUE KEY ({', '.join(names)})"
    of = table(columns, by)
    rows = {f"({', '.join(one(random) for one in draw)})" for _ in range(200)}
    inserts = [f"INSERT IGNORE INTO d.t VALUES {row}" for row in sorted(rows)]
    target.execute(
        "CREATE DATABASE IF NOT EXISTS d",
        "SET time_zone = '+00:00'",
        "SET sql_mode = ''",
        "DROP TABLE IF EXISTS d.t",
        f"CREATE TABLE d.t ({columns}) PARTITION BY {by}",
        *inserts,
    )
    assert of.partitioning is not None
    selected = ", ".join(f"CAST({name} AS CHAR CHARACTER SET utf8mb4)" for name in names)
    count = 0
    for one in of.partitioning.partitions:
        found = target.execute("SET time_zone = '+00:00'", f"SELECT {selected} FROM d.t PARTITION ({one.name})")
        for values in found:
            assert placed(of, dict(zip(names, values, strict=True))) == [one.name], values
        count += len(found)
    assert count > 2


@pytest.mark.parametrize("small", [0, 20_000])
def test_a_job_empties_a_partition_of_a_mysql_target(
    target: Server, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", small)
    loop.run(load_job(job_of(tmp_path, target, events(planted=False))), once=True)
    left = [row[0] for row in target.execute("SELECT id FROM s.t ORDER BY id")]
    assert left == [*range(100), 150, *range(200, 300)]
