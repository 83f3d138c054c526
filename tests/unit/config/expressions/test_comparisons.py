"""Comparisons of values of different kinds. A MariaDB and TiDB's source give the same answers."""

from __future__ import annotations

import pytest

from tests.unit.config.expressions.test_expressions import ROW, holds, judged
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Row


@pytest.mark.parametrize(
    "sql",
    [
        "bt = '65'",
        "'65' = bt",
        "bt = '65.0'",
        "not (bt <> '65')",
        "bt < '100'",
        "bt in ('64', '65')",
        "bt between '1' and '65'",
        "bt = '65x'",
        "bt <> 'A'",
        "hex(bt) = '41'",
    ],
)
def test_a_bit_is_a_number(sql: str) -> None:
    assert holds(sql)


def test_a_bit_beside_an_enum_or_set_is_a_number() -> None:
    row = {**ROW, "bt": "2", "st": "2"}
    assert holds("bt = e", row) and holds("bt <=> st", row)


def test_functions_of_texts_take_a_bit_as_bytes() -> None:
    assert holds("concat(bt, '') = x'0041' and length(bt) = 2 and right(bt, 1) = 'A' and bt like '_A'")
    assert holds("concat(bt + 0) = '65' and length(round(bt)) = 2")


def test_a_hexadecimal_literal_beside_a_text_is_bytes() -> None:
    assert holds("s = x'41622563' and 'A' = 0x41 and x'' = ''")


@pytest.mark.parametrize("sql", ["id = 3 < 1", "id <> u >= 3", "id <=> u > 3", "id = u < 3 = 1", "not (id = u <= 3)"])
def test_comparisons_of_one_rank_need_parentheses(sql: str) -> None:
    with pytest.raises(UsageError, match=r"a comparison behind another one .*(parentheses|in front)"):
        holds(sql)


def test_comparisons_are_grouped_from_the_left() -> None:
    row = {**ROW, "id": "7"}
    assert (
        holds("(id = 3) < 1", row) and holds("id = (3 > 1) is false", row) and holds("3 < 1 = 0 and 3 < 1 <=> 0", row)
    )
    assert holds("1 < 2 < 3 and 7 = id = 1", row)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("s between '10' and 20", False),
        ("s not between '10' and 20", True),
        ("s between 10 and '20'", False),
        ("s between 1 and '20'", True),
        ("s between '10' and '20'", False),
        ("5 between '10' and 20", False),
        ("s between null and 1", False),
    ],
)
def test_between_compares_all_three_as_one_kind(sql: str, wanted: bool) -> None:
    assert holds(sql, {**ROW, "s": "5"}) is wanted


def test_between_compares_all_three_in_one_collation() -> None:
    assert holds("ci between 'a' and 'B' and not (ci between 'a' and s)", {**ROW, "ci": "A", "s": "b"})


def test_between_of_a_text_a_date_and_a_number_is_refused() -> None:
    with pytest.raises(UsageError, match="BETWEEN date AND int of a text"):
        holds("s between dt and 20240301")


def test_numbers_in_text_are_exact_beside_exact_columns() -> None:
    create = "t (id bigint primary key, d decimal(20,6))"
    row: Row = {"id": "9007199254740993", "d": "99999999999999.999999"}
    for sql in (
        "id = '9007199254740993.0' and id <> '9007199254740992.0'",
        "id > '9007199254740992.5'",
        "id <> 9007199254740992e0",
        "d > '99999999999999.999998'",
        "d in ('99999999999999.999999') and not d in ('99999999999999.999998')",
        "id < '1e400' and id > '-1e400'",
        "id = ' 9007199254740993 '",
        "d = '99999999999999.9999989x'",
    ):
        assert judged(sql, create, row), sql


def test_a_double_beside_a_decimal_is_a_double() -> None:
    assert judged("d = 1e14", "t (d decimal(20,6) primary key)", {"d": "99999999999999.999999"})


@pytest.mark.parametrize("year", ["99", "'99'", "99.0", "99e0", "1999.0"])
def test_a_year_of_two_digits_in_any_form(year: str) -> None:
    assert holds(f"y = {year}")
