"""Texts: of numbers, and what functions make of them."""

from __future__ import annotations

import pytest

from tests.unit.config.expressions.test_expressions import ROW, holds
from ticdc_spark.errors import UsageError


@pytest.mark.parametrize("sql", ["f like '0.1'", "concat(f) = '0.1'", "cast(f as char) = '0.1'", "length(f) = 3"])
def test_the_text_of_a_float_is_its_own(sql: str) -> None:
    assert holds(sql)
    assert holds("f <> 0.1 and concat(abs(f)) = '0.10000000149011612'")


def test_floating_point_numbers_have_no_exponent_as_text() -> None:
    row = {**ROW, "f": "1e10", "g": "1e20"}
    assert holds("concat(f) = '10000000000' and concat(g) = '100000000000000000000'", row)
    assert holds(
        "concat(f) = '0.00000015' and concat(g) = '-0.00000000000000000001'", {**row, "f": "1.5e-7", "g": "-1e-20"}
    )


@pytest.mark.parametrize("number", ["0.00001", "1.5e-7", "1e21", "1.0", "-0.5", "12345678901234567890"])
def test_a_number_in_json_keeps_its_text(number: str) -> None:
    assert holds(f"j->>'$.a' = '{number}' and j->>'$.a' = {number}", {**ROW, "j": f'{{"a": {number}}}'})
    assert holds(f"j->>'$[0]' = '{number}'", {**ROW, "j": f"[{number}]"})


def test_lower_of_the_turkish_capital_is_one_letter() -> None:
    assert holds("lower(s) = 'istanbul' and upper(s) = s and upper('ß') = 'ß'", {**ROW, "s": "İSTANBUL"})


@pytest.mark.parametrize(
    "sql",
    [
        "upper(trim(n)) = x'61C3A9'",
        "char_length(trim(n)) = 3",
        "hex(trim(trailing x'a9' from n)) = '2061C3'",
        "hex(reverse(n)) = 'A9C36120'",
        "hex(replace(n, x'c3', '--')) = '20612D2DA9'",
        "hex(substring_index(n, 'a', -1)) = 'C3A9'",
        "locate(x'a9', n) = 4 and locate('A', n) = 0",
        "hex(concat(n, 'é')) = '2061C3A9C3A9' and hex(concat_ws('é', 'a', n)) = '61C3A92061C3A9'",
    ],
)
def test_functions_of_bytes_give_bytes(sql: str) -> None:
    assert holds(sql, {**ROW, "n": " aé".encode()})


def test_the_year_0_has_four_digits_as_text() -> None:
    assert holds("concat(y) = '0000' and y = 0 and concat(y + 0) = '0'", {**ROW, "y": "0"})


@pytest.mark.parametrize("call", ["char_length(s, 1)", "round(1.5, 0, 1)", "greatest(1)", "least(d)"])
def test_calls_with_other_numbers_of_arguments_are_refused(call: str) -> None:
    with pytest.raises(UsageError, match=r"arguments|one value|not understood"):
        holds(f"{call} = 1")
