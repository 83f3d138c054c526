"""Lake types back to canonical values: what ``to_arrow`` made is undone, and what MySQL has not is reported."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import TYPES, WIRES
from ticdc_spark.model import Column, Table, Value
from ticdc_spark.mysql import parse_type
from ticdc_spark.spark.encode.typed_images import from_arrow
from ticdc_spark.spark.types import LakeColumn, LakeOptions, arrow_type, lake_columns, to_arrow

OF_DEBEZIUM = next(wire for wire in WIRES if wire.name == "debezium")
"""Its values have no zero dates, which the lake has not either."""


def lake_column(kind: str, **options: Any) -> LakeColumn:
    table = Table(schema="s", name="t", columns=(Column(name="c", type=parse_type(kind)),))
    (column,) = lake_columns(table, (), LakeOptions(**options))
    return column


def back(column: LakeColumn, values: list[Any]) -> tuple[list[Value], dict[int, str]]:
    cells, bad = from_arrow(column)(pa.array(values, arrow_type(column.type)))
    return cells, dict(bad)


@pytest.mark.parametrize("kind", TYPES)
@given(data=st.data())
def test_what_is_in_the_lake_is_the_value_that_came(kind: str, data: st.DataObject) -> None:
    column = lake_column(kind)
    values = data.draw(st.lists(st.none() | OF_DEBEZIUM.values(column.column.type), max_size=8))
    array, bad, nulled = to_arrow(column, LakeOptions())(values)
    assert not bad and not nulled
    assert from_arrow(column)(array) == (values, {})


@pytest.mark.parametrize(
    ("kind", "value", "canonical"),
    [
        ("decimal(38,10)", Decimal("0.0000000001"), "0.0000000001"),
        ("double", 1e16, "1e16"),
        ("float", 16777216.0, "16777216"),
        ("vector(3)", [1.5, 0.0000003, 1e20], "[1.5,0.0000003,100000000000000000000]"),
        ("datetime(3)", datetime(1, 1, 1, microsecond=5000), "0001-01-01 00:00:00.005"),  # noqa: DTZ001
        ("timestamp", datetime(2024, 2, 29, tzinfo=UTC), "2024-02-29 00:00:00"),
        ("date", date(9999, 12, 31), "9999-12-31"),
        ("enum('','a')", "", "1"),
        ("enum('a')", "", "0"),
        ("set('a','b')", "a,b", "3"),
        ("bit(1)", True, "1"),
    ],
)
def test_values_that_have_a_form_of_their_own(kind: str, value: Any, canonical: str) -> None:
    assert back(lake_column(kind), [None, value]) == ([None, canonical], {})


def test_a_boolean_is_the_number_that_it_stood_for() -> None:
    assert back(lake_column("tinyint(1)", tinyint1_as_boolean=True), [True, False]) == (["1", "0"], {})


@pytest.mark.parametrize(
    ("kind", "value", "word"),
    [
        ("double", float("nan"), "finite"),
        ("float", float("inf"), "finite"),
        ("enum('a')", "b", "no member"),
        ("set('a')", "a,b", "no member"),
        ("datetime", datetime(2024, 1, 1, microsecond=1), "more digits"),  # noqa: DTZ001
        ("timestamp(3)", datetime(2024, 1, 1, microsecond=1, tzinfo=UTC), "more digits"),
    ],
)
def test_a_value_that_no_column_has_is_bad_and_the_others_are_read(kind: str, value: Any, word: str) -> None:
    cells, bad = back(lake_column(kind), [None, value])
    assert cells == [None, None]
    assert bad.keys() == {1} and word in bad[1]


def test_years_beyond_those_of_mysql_are_bad() -> None:
    for kind, array in (
        ("date", pa.array([3_000_000], pa.date32())),
        ("datetime", pa.array([260_000_000_000_000_000], pa.timestamp("us"))),
    ):
        cells, bad = from_arrow(lake_column(kind))(array)
        assert cells == [None] and "years" in bad[0]
