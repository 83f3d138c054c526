"""Which virtual generated columns the job computes, and their values."""

from __future__ import annotations

import pytest

from ticdc_spark.capture.snapshot.base import table_of
from ticdc_spark.config.computed import Expressions, computable, computed, still_computed, why_null
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Table, Value

COLUMNS = (
    "id INT PRIMARY KEY, a INT, u BIGINT UNSIGNED, s7 VARCHAR(9), b DECIMAL(9,2), s VARCHAR(20), doc JSON, d DATE, "
    "f DOUBLE, l VARCHAR(9) CHARSET latin1, tr VARCHAR(9) COLLATE utf8mb4_turkish_ci, z INT(6) ZEROFILL, "
    "d6 DATETIME(6), e ENUM('a'), t TIMESTAMP, st INT AS (a + 1) STORED"
)
ROW: dict[str, Value] = {
    "a": "7",
    "u": "3",
    "b": "1.25",
    "s": "Ab",
    "doc": '{"n": 5, "s": "x \\"y\\"", "o": {"k": [1, null, 2.50, 1e2]}}',
    "d": "2024-02-29",
    "s7": " 7.6",
    "st": "8",
}


def table(column: str) -> Table:
    return table_of(f"CREATE TABLE t ({COLUMNS}, v {column} VIRTUAL) CHARSET utf8mb4", "d")


def of_table(made: Table) -> Expressions:
    return computable(made, {column.name for column in made.columns})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("DECIMAL(12,3) GENERATED ALWAYS AS (`a` * `b`)", "8.750"),
        ("INT AS (st + 1)", "9"),
        ("INT AS (b * 2)", "3"),
        ("INT AS (-b * 2)", "-3"),
        ("VARCHAR(20) AS (json_unquote(json_extract(`doc`, _utf8mb4'$.s')))", 'x "y"'),
        ("VARCHAR(40) AS (doc->>'$.o')", '{"k": [1, null, 2.50, 1e2]}'),
        ("VARCHAR(20) AS (concat(`s`,_utf8mb4'-',`a`))", "Ab-7"),
        ("CHAR(20) AS (concat(s, '  '))", "Ab"),
        ("VARCHAR(3) AS (concat(s, '   '))", "Ab "),
        ("DATE AS (d + INTERVAL 1 YEAR)", "2025-02-28"),
        ("DATETIME(2) AS (d)", "2024-02-29 00:00:00.00"),
        ("INT AS (1)", "1"),
        ("INT AS (s7)", "8"),
        ("DECIMAL(5,1) AS (s7)", "7.6"),
        ("VARCHAR(9) AS (CONCAT(b * 0 * -1))", "0.00"),
        ("VARCHAR(9) AS (CAST(s AS CHAR(1) CHARACTER SET utf8mb4))", "A"),
        ("INT AS (a = '7')", "1"),
    ],
)
def test_a_column_has_the_value_that_an_insert_gives_it(column: str, value: Value) -> None:
    of = table(column)
    ((name, expression),) = of_table(of)
    assert computed(name, expression, of).value(ROW) == value


@pytest.mark.parametrize(
    "column",
    [
        "INT AS (a / 2)",
        "INT AS (s = 'ab')",
        "INT AS (HEX(a) = 'c')",
        "INT AS (IF(a, 'a', 'b') = 'A')",
        "INT AS (CASE HEX(a) WHEN 'a' THEN 1 END)",
        "VARCHAR(9) AS (GREATEST(HEX(a), 'b'))",
        "VARCHAR(9) AS (LOWER(tr))",
        "VARCHAR(9) AS (CONCAT(z))",
        "VARCHAR(9) AS (json_unquote(json_extract(doc, '$.s', '$.n')))",
        "VARCHAR(9) AS (CONCAT(ROUND(b, 5)))",
        "VARCHAR(9) AS (REPLACE(s, 'a', NULL))",
        "VARCHAR(9) AS (CONCAT(a * 1e15))",
        "BIGINT AS (CAST(d AS SIGNED))",
        "DATETIME AS (CAST(d6 AS DATETIME))",
        "DATETIME(3) AS (d6)",
        "INT AS (a XOR b)",
        "INT AS (t.a + 1)",
        "INT AS (a /* b */)",
        "INT AS (s IN ('ab'))",
        "INT AS (CASE s WHEN 'ab' THEN 1 END)",
        "INT AS (FIND_IN_SET(s, 'a,b'))",
        "INT AS (LOCATE('b', s))",
        "INT AS (s REGEXP 'a')",
        "INT AS (f)",
        "BIGINT UNSIGNED AS (CAST(b AS UNSIGNED))",
        "INT AS (f > 1)",
        "INT AS (e)",
        "INT AS (YEAR(t))",
        "INT AS (a + '1')",
        "VARCHAR(9) AS (l)",
        'VARCHAR(9) AS (CONCAT(s, "x"))',
        r"VARCHAR(9) AS (CONCAT(s, '\n'))",
        "VARCHAR(9) AS (s || 'x')",
        "VARCHAR(9) AS (SHA2(s, 256))",
        "JSON AS (doc->'$.o')",
        "INT AS (doc->'$.n')",
        "FLOAT AS (a)",
        "VARCHAR(9) CHARSET latin1 AS (s)",
    ],
)
def test_a_column_that_servers_may_compute_otherwise_is_left_null(column: str) -> None:
    assert of_table(table(column)) == ()


def test_a_column_that_would_show_a_hidden_one_is_left_null() -> None:
    of = table("INT AS (a + u)")
    assert computable(of, {"id", "a", "v"}) == ()
    assert why_null(of.columns[-1], of, {"a", "v"}) == "it would show column `u`, which [[route]] drops or masks"


def test_a_stored_column_is_not_computed_and_no_column_of_a_virtual_one() -> None:
    of = table_of(f"CREATE TABLE t ({COLUMNS}, v INT AS (a) VIRTUAL, w INT AS (v) VIRTUAL) CHARSET utf8mb4", "d")
    assert [name for name, _ in of_table(of)] == ["v"]


@pytest.mark.parametrize(
    ("column", "row"),
    [
        ("TINYINT AS (a * 100)", ROW),
        ("DECIMAL(3,2) AS (a * 10)", ROW),
        ("VARCHAR(1) AS (s)", ROW),
        ("INT AS (doc->>'$.s')", ROW),
        ("BIGINT AS (u - 5)", ROW),
    ],
)
def test_a_value_that_the_source_refuses_is_an_error(column: str, row: dict[str, Value]) -> None:
    of = table(column)
    ((name, expression),) = of_table(of)
    with pytest.raises(MessageError):
        computed(name, expression, of).value(row)


def test_a_column_that_the_table_lacks_cannot_be_computed() -> None:
    of = table("INT AS (a)")
    with pytest.raises(UsageError, match="no column `w`"):
        computed("w", "a", of)


@pytest.mark.parametrize(
    ("after", "renames", "left"),
    [
        ("INT AS (a) VIRTUAL, x INT", {}, [("v", "a")]),
        ("INT(5) AS ((`a`)) VIRTUAL", {}, [("v", "a")]),
        ("BIGINT AS (a) VIRTUAL", {}, []),
        ("INT AS (a + 0) VIRTUAL", {}, []),
        ("INT AS (a) STORED", {}, []),
        ("INT", {}, []),
        ("INT AS (a + + ) VIRTUAL", {}, []),
        ("INT AS (a) VIRTUAL", {"u": "a"}, []),
        ("INT AS (a) VIRTUAL", {"a": "a"}, []),
        ("INT AS (a) VIRTUAL", {"u": "b", "v": "v"}, [("v", "a")]),
    ],
)
def test_a_ddl_leaves_values_only_if_it_changes_nothing_that_they_come_from(
    after: str, renames: dict[str, str], left: list[tuple[str, str]]
) -> None:
    before = table("INT AS (a)")
    then = table_of(f"CREATE TABLE t ({COLUMNS}, v {after}) CHARSET utf8mb4", "d")
    assert [*still_computed(of_table(before), (before, then), renames)] == left
