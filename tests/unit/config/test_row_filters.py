"""Which rows meet a condition, and how a server is asked for the same ones."""

from __future__ import annotations

import pytest

from ticdc_spark.config.row_filters import row_filter, source_condition
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Row, Value

SQL = """CREATE TABLE `t` (`id` int PRIMARY KEY, `region` varchar(9) COLLATE utf8mb4_general_ci, `date` char(9),
`e` enum('a','b') COLLATE utf8mb4_general_ci, `ts` timestamp, `v` int AS (id) VIRTUAL, `n` decimal(9,2))"""
T = parse_create(SQL, "s", "escape")
EXACT = "CONVERT(`{}` USING utf8mb4) COLLATE utf8mb4_bin"


def kept(where: str, **cells: Value) -> bool:
    row: Row = {column.name: cells.get(column.name) for column in T.columns}
    found = row_filter(where, T)
    bad: dict[int, str] = {}
    unkept = found.unkept([[row[name]] for name in found.columns], [0], bad)
    assert not bad
    return not unkept


@pytest.mark.parametrize(
    ("where", "cells", "is_kept"),
    [
        ("n >= 100", {"n": "100.00"}, True),
        ("n >= 100", {"n": "99.99"}, False),
        ("n >= 100", {"n": None}, False),
        ("NOT n >= 100", {"n": None}, False),
        ("n IS NULL", {"n": None}, True),
        ("ID = 7", {"id": "7"}, True),
        ("s.t.id IN (1, 7)", {"id": "7"}, True),
        ("id", {"id": "1"}, True),
        ("id", {"id": "7"}, True),
        ("id", {"id": "0"}, False),
        ("id", {"id": None}, False),
        ("id & 4", {"id": "7"}, True),
        ("id & 8", {"id": "7"}, False),
        ("FIND_IN_SET(region, 'DE,EU')", {"region": "EU"}, True),
        ("LENGTH(region)", {"region": "EU"}, True),
        ("region = 'EU'", {"region": "EU"}, True),
        ("region = 'EU'", {"region": "eu"}, False),
        ("region COLLATE utf8mb4_general_ci = 'EU'", {"region": "eu"}, True),
        ("e = 'B'", {"e": "2"}, False),
        ("e = 'b'", {"e": "2"}, True),
        ("ts >= '2026-01-01'", {"ts": "2026-01-01 00:00:00"}, True),
        ("ts >= '2026-01-01'", {"ts": "2025-12-31 23:59:59"}, False),
    ],
)
def test_a_row_is_kept_if_its_condition_is_true(where: str, cells: dict[str, Value], is_kept: bool) -> None:
    assert kept(where, **cells) is is_kept


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("nope = 1", "there is no column 'nope'; the table has id, region"),
        ("v = 1", "a virtual generated column"),
        ("region", "a text value as a condition"),
        ("ts > now()", "function NOW is not supported"),
    ],
)
def test_a_condition_that_a_table_cannot_meet_is_refused(where: str, text: str) -> None:
    with pytest.raises(UsageError) as error:
        row_filter(where, T)
    assert f"[[route]] where {where!r} for `s`.`t`: " in str(error.value) and text in str(error.value)


@pytest.mark.parametrize(
    ("where", "asked"),
    [
        ("n > 1 AND id < 5", "n > 1 AND id < 5"),
        ("REGION = 'EU'", EXACT.format("region") + " = 'EU'"),
        ("t.`region` IN ('region') OR s.t.id = 1", EXACT.format("region") + " IN ('region') OR s.t.id = 1"),
        ("date = 'x' AND ts > DATE '2026-01-01'", EXACT.format("date") + " = 'x' AND ts > DATE '2026-01-01'"),
        ("date(ts) = '2026-01-01'", "date(ts) = '2026-01-01'"),
        ("region COLLATE utf8mb4_general_ci = 'x'", EXACT.format("region") + " COLLATE utf8mb4_general_ci = 'x'"),
        ("e = 'a'", None),
    ],
)
def test_a_server_compares_text_as_the_job_does(where: str, asked: str | None) -> None:
    assert source_condition(where, T, tidb=False) == asked
    assert source_condition(where, T, tidb=True) == asked


@pytest.mark.parametrize(
    "where", ["n / 3 > 0.5", "region REGEXP '^E'", "NOT region RLIKE '^E'", "REGEXP_LIKE(region, 'E')"]
)
def test_only_tidb_evaluates_regular_expressions_and_quotients_as_the_job(where: str) -> None:
    assert source_condition(where, T, tidb=False) is None
    assert source_condition(where, T, tidb=True) == where.replace("region", EXACT.format("region"))
