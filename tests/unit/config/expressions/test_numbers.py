"""Numbers: how they are rounded, and what happens to large ones."""

from __future__ import annotations

import pytest

from tests.unit.config.expressions.test_expressions import ROW, holds, judged
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Row


@pytest.mark.parametrize(
    ("g", "sql"),
    [
        ("2.5", "cast(g as signed) = 2"),
        ("3.5", "cast(g as signed) = 4"),
        ("-2.5", "cast(g as signed) = -2"),
        ("0.5", "cast(g as signed) = 0"),
        ("2.5", "cast(g as unsigned) = 2"),
        ("2.5", "left('abcd', g) = 'ab'"),
        ("2.5", "dt + interval g day = '2024-03-02'"),
        ("2.5", "g | 0 = 2"),
        ("2.5", "hex(g) = '2'"),
        # but not as a decimal
        ("2.5", "cast(g as decimal) = 3"),
        ("0.3", "g div 0.1e0 = 3"),
    ],
)
def test_a_double_between_two_integers_becomes_the_even_one(g: str, sql: str) -> None:
    assert holds(sql, {**ROW, "g": g})


def test_a_decimal_between_two_integers_becomes_the_one_away_from_zero() -> None:
    assert holds("cast(2.5 as signed) = 3 and cast(-2.5 as signed) = -3 and left('abcd', 2.5) = 'abc'")


def test_a_text_that_counts_something_ends_at_its_point() -> None:
    row = {**ROW, "s": "1.5"}
    assert holds("left('abcd', s) = 'a' and substring('abcd', '2.9') = 'bcd' and s | 0 = 2", row)


@pytest.mark.parametrize(
    "sql",
    [
        "cast(g as signed) = 9223372036854775807",
        "cast(-g as signed) = -9223372036854775808",
        "cast(g as unsigned) = u",
        "cast(g as decimal) = 9999999999",
        "cast(g as decimal(5, 2)) = 999.99",
        "g div 1e290 = 10000000000",
        "left('abc', g) = 'abc'",
        "(dt + interval g day) is null",
        "(dm + interval g second) is null",
        "(dm + interval ('1e400') second) is null",
        "round(g, 400) = g",
        "truncate(g, -400) = 0",
    ],
)
def test_large_numbers(sql: str) -> None:
    assert holds(sql, {**ROW, "g": "1e300"})


@pytest.mark.parametrize(
    "sql",
    ["g div 1 = 1", "g & 1 = 1", "-g | 0 = 1", "~g = 1", "hex(g) = 'F'", "s | 0 = 1", "s div 1 = 1", "1e20 | 0 = 1"],
)
def test_what_no_integer_holds_is_an_error(sql: str) -> None:
    with pytest.raises(MessageError, match="out of the range of BIGINT"):
        holds(sql, {**ROW, "g": "1e300", "s": "1e999999"})


def test_bits_of_a_value_that_is_signed_or_unsigned() -> None:
    assert holds("if(id = 5, u, -1) | 0 = u and if(id = 5, -1, u) | 0 = u")


def test_a_number_of_too_many_digits_is_an_error_of_the_message() -> None:
    with pytest.raises(MessageError, match=r"ignore-insert-value-expr .* a number is too large"):
        holds(f"{'9' * 210} % d = 1")


def test_a_text_is_divided_by_its_digits() -> None:
    row: Row = {"id": "1", "s": "9007199254740993"}
    assert judged("s div 1 = 9007199254740993", "t (id int primary key, s varchar(20))", row)


@pytest.mark.parametrize(
    "sql", ["id < 1e0 * (18446744073709551615 + 1)", "dt > 18446744073709551615 * 2", f"id = {'9' * 210} % 1"]
)
def test_literals_that_overflow_are_refused_where_their_value_matters(sql: str) -> None:
    with pytest.raises(UsageError, match=r"out of the range|too large"):
        holds(sql)
