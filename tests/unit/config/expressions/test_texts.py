"""Texts: of numbers, and what functions make of them."""

from __future__ import annotations

import pytest

from tests.unit.config.expressions.test_expressions import ROW, holds


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
