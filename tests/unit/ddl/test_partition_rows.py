"""The rows of a partition, as conditions on columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.partitions import placed, table
from ticdc_spark.ddl.partition_rows import Alternatives, ColumnTest, NotComputed, rows_of
from ticdc_spark.model import Table

INT = "id INT PRIMARY KEY"
MAX = " VALUES LESS THAN MAXVALUE"


@pytest.mark.parametrize(
    ("columns", "by", "row", "expected"),
    [
        (INT, "RANGE (id) (PARTITION a VALUES LESS THAN (0), PARTITION b VALUES LESS THAN (9))", {"id": "-1"}, "a"),
        (INT, "RANGE (id) (PARTITION a VALUES LESS THAN (0), PARTITION b VALUES LESS THAN (9))", {"id": "0"}, "b"),
        (INT, "RANGE (id) (PARTITION a VALUES LESS THAN (0), PARTITION b VALUES LESS THAN (9))", {"id": None}, "a"),
        (INT, "RANGE (id) (PARTITION a VALUES LESS THAN (5000000000))", {"id": "2147483647"}, "a"),
        (
            INT,
            "RANGE (id) (PARTITION a VALUES LESS THAN (-5000000000), PARTITION b VALUES LESS THAN (0))",
            {"id": None},
            "a",
        ),
        (
            INT,
            "RANGE (id) (PARTITION a VALUES LESS THAN (-5000000000), PARTITION b VALUES LESS THAN (0))",
            {"id": "-2147483648"},
            "b",
        ),
        (INT, "HASH (id) PARTITIONS 3", {"id": "-4"}, "p1"),
        (INT, "HASH (id) PARTITIONS 3", {"id": None}, "p0"),
        (INT, "LIST (id) (PARTITION a VALUES IN (1, NULL), PARTITION b DEFAULT)", {"id": None}, "a"),
        (INT, "LIST (id) (PARTITION a VALUES IN (1), PARTITION b DEFAULT)", {"id": None}, "b"),
        (INT, "LIST (id) (PARTITION a VALUES IN (1), PARTITION b VALUES IN (2, DEFAULT))", {"id": "2"}, "b"),
        (
            "d DATE PRIMARY KEY",
            f"RANGE (YEAR(d)) (PARTITION a VALUES LESS THAN (2020), PARTITION b{MAX})",
            {"d": "2019-12-31"},
            "a",
        ),
        (
            "d DATETIME(3) PRIMARY KEY",
            f"RANGE (TO_DAYS(d)) (PARTITION a VALUES LESS THAN (TO_DAYS('2020-01-01')), PARTITION b{MAX})",
            {"d": "2020-01-01 00:00:00.000"},
            "b",
        ),
        (
            "d TIMESTAMP PRIMARY KEY",
            f"RANGE (UNIX_TIMESTAMP(d)) (PARTITION a VALUES LESS THAN (1262304000), PARTITION b{MAX})",
            {"d": "2009-12-31 23:59:59"},
            "a",
        ),
        (
            "d DATE PRIMARY KEY",
            "LIST (YEAR(d)) (PARTITION a VALUES IN (2019, 2021), PARTITION b VALUES IN (2020))",
            {"d": "2021-12-31"},
            "a",
        ),
        (
            "a INT, b VARCHAR(9) COLLATE utf8mb4_bin, PRIMARY KEY (a, b)",
            "RANGE COLUMNS (a, b) (PARTITION x VALUES LESS THAN (1, 'm'), PARTITION y VALUES LESS THAN (1, MAXVALUE))",
            {"a": "1", "b": "m"},
            "y",
        ),
        (
            "a VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY",
            "LIST COLUMNS (a) (PARTITION x VALUES IN ('a'), PARTITION y VALUES IN ('b'))",
            {"a": "b  "},
            "y",
        ),
    ],
)
def test_a_row_lies_in_its_partition(columns: str, by: str, row: dict[str, str | None], expected: str) -> None:
    assert placed(table(columns, by), row) == [expected]


@pytest.mark.parametrize(
    ("columns", "by", "why"),
    [
        (INT, "KEY (id) PARTITIONS 2", "KEY"),
        (INT, "RANGE (id DIV 2) (PARTITION p0 VALUES LESS THAN (1))", "not a column"),
        ("id BIGINT UNSIGNED PRIMARY KEY", "HASH (id) PARTITIONS 2", "BIGINT"),
        ("id TINYINT(1) PRIMARY KEY", "HASH (id) PARTITIONS 2", "TINYINT"),
        ("d DATE PRIMARY KEY", "HASH (YEAR(d)) PARTITIONS 2", "HASH of YEAR"),
        (
            "id INT PRIMARY KEY, d DATE",
            "RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('2020-01-01'))",
            "of the key",
        ),
        ("d DATE PRIMARY KEY", "RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('20200101'))", "exactly"),
        ("d DATE PRIMARY KEY", "RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('2020-02-31'))", "no date"),
        ("d DATE PRIMARY KEY", "RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (0))", "exactly"),
        (
            "d TIMESTAMP(3) PRIMARY KEY",
            "RANGE (UNIX_TIMESTAMP(d)) (PARTITION p0 VALUES LESS THAN (1))",
            "UNIX_TIMESTAMP of `d`",
        ),
        ("d DATETIME PRIMARY KEY", "RANGE (UNIX_TIMESTAMP(d)) (PARTITION p0 VALUES LESS THAN (1))", "DATETIME"),
        (
            "a VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY",
            "LIST COLUMNS (a) (PARTITION p0 VALUES IN ('a'))",
            "collation utf8mb4_general_ci",
        ),
        (
            "a VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY",
            "RANGE COLUMNS (a) (PARTITION p0 VALUES LESS THAN ('a b'))",
            "exactly",
        ),
        (
            "a VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY",
            "LIST COLUMNS (a) (PARTITION p1 VALUES IN ('a'), PARTITION p0 DEFAULT)",
            "DEFAULT",
        ),
        ("k INT PRIMARY KEY", "RANGE (id) (PARTITION p0 VALUES LESS THAN (1))", "no column `id`"),
    ],
)
def test_what_is_not_proven_has_a_reason_and_no_conditions(columns: str, by: str, why: str) -> None:
    found = rows_of(table(columns, by), ["p0"])
    assert isinstance(found, NotComputed)
    assert why in found.why


def test_only_the_partitions_that_are_named_are_computed() -> None:
    less = "VALUES LESS THAN"
    by = f"RANGE (YEAR(d)) (PARTITION a {less} (0), PARTITION b {less} (2020), PARTITION c {less} (2021))"
    found = rows_of(table("d DATE PRIMARY KEY", by), ["c"])
    assert found == (
        (ColumnTest(column="d", at_least="2020-01-01"), ColumnTest(column="d", below="2021-01-01", or_null=True)),
    )


INTEGERS = st.one_of(st.none(), st.integers(-25, 25), st.sampled_from([-(1 << 31), (1 << 31) - 1]))
TEXTS = st.text("abcéZ😀 ", max_size=3)
BOUND_TEXTS = st.text("abcéZ😀", min_size=1, max_size=2)


def text(value: int | None) -> str | None:
    return None if value is None else str(value)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Partitions that together take every row."""
    match draw(st.sampled_from(["range", "hash", "list", "columns"])):
        case "range":
            bounds = sorted(draw(st.sets(st.integers(-20, 20), max_size=5)))
            parts = [f"PARTITION p{at} VALUES LESS THAN ({bound})" for at, bound in enumerate(bounds)]
            by = f"RANGE (a) ({', '.join([*parts, 'PARTITION m VALUES LESS THAN MAXVALUE'])})"
        case "hash":
            by = f"HASH (a) PARTITIONS {draw(st.integers(1, 7))}"
        case "list":
            values = draw(
                st.lists(st.integers(-20, 20).map(str) | st.just("NULL"), unique=True, min_size=1, max_size=6)
            )
            cut = draw(st.integers(1, len(values)))
            parts = [
                f"PARTITION p{at} VALUES IN ({', '.join(some)})"
                for at, some in enumerate((values[:cut], values[cut:]))
                if some
            ]
            by = f"LIST (a) ({', '.join([*parts, 'PARTITION m DEFAULT'])})"
        case _:
            bounds = sorted(
                draw(st.sets(st.tuples(st.integers(-5, 5), BOUND_TEXTS), max_size=4)),
                key=lambda one: (one[0], one[1].encode()),
            )
            parts = [f"PARTITION p{at} VALUES LESS THAN ({one}, '{two}')" for at, (one, two) in enumerate(bounds)]
            by = f"RANGE COLUMNS (a, b) ({', '.join([*parts, 'PARTITION m VALUES LESS THAN (MAXVALUE, MAXVALUE)'])})"
    return table("a INT, b VARCHAR(9) COLLATE utf8mb4_bin, UNIQUE KEY (a, b)", by)


@given(tables(), INTEGERS, st.none() | TEXTS)
def test_every_row_lies_in_exactly_one_partition(of: Table, a: int | None, b: str | None) -> None:
    assert len(placed(of, {"a": text(a), "b": b})) == 1


@given(tables())
def test_the_conditions_of_several_partitions_are_those_of_each(of: Table) -> None:
    assert of.partitioning is not None
    names = [one.name for one in of.partitioning.partitions]
    each: list[Alternatives] = []
    for name in names:
        rows = rows_of(of, [name])
        assert not isinstance(rows, NotComputed)
        each.append(rows)
    assert rows_of(of, names) == tuple(tests for rows in each for tests in rows)
