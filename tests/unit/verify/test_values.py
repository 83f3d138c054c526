"""What a protocol cannot carry is no difference, and anything else is one."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.unit.verify.tables import plan
from ticdc_spark.verify.values import equality


def equal(kind: str, one: Any, other: Any, protocol: str = "simple") -> bool:
    return equality(plan(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})").pairs[1], protocol)(one, other)


@pytest.mark.parametrize(
    ("kind", "one", "other", "same"),
    [
        ("INT", 1, 1, True),
        ("INT", 1, 2, False),
        ("INT", None, 0, False),
        ("VARCHAR(9)", "a", "a ", False),
        ("VARCHAR(9)", "", None, False),
        ("FLOAT", 0.0, -0.0, True),
        ("JSON", '{"a": 1, "b": [2]}', '{"b":[2],"a":1}', True),
        ("JSON", '{"a": 1}', '{"a": "1"}', False),
        ("JSON", "no json", "no json either", False),
        ("TIME(6)", "12:00:00.5", "12:00:00.500000", True),
        ("TIME(6)", "12:00:00", "12:00:00.000001", False),
        ("DECIMAL(20,2)", Decimal("1.50"), Decimal("1.5"), True),
    ],
)
def test_values_are_compared_as_their_type_has_them(kind: str, one: Any, other: Any, same: bool) -> None:
    assert equal(kind, one, other) is same


LONG, NEAR, FAR = Decimal("12345678901234567.89"), Decimal("12345678901234568.00"), Decimal("12345678901234667.89")


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("DECIMAL(20,2)", LONG, NEAR),
        ("INT DEFAULT 7", None, 7),
        ("DATETIME", None, datetime(1970, 1, 1)),  # noqa: DTZ001  a DATETIME
        ("DATE", date(69, 3, 1), date(2069, 3, 1)),
        ("DATE", date(71, 3, 1), date(1971, 3, 1)),
    ],
)
def test_what_debezium_loses_is_a_difference_in_other_protocols_only(kind: str, one: Any, other: Any) -> None:
    assert equal(kind, one, other, "debezium") and equal(kind, one, other, "debezium-avro")
    assert not equal(kind, one, other, "simple")


def test_what_debezium_keeps_differs_there_too() -> None:
    assert not equal("DECIMAL(20,2)", LONG, FAR, "debezium")
    assert not equal("INT DEFAULT 7", None, 8, "debezium")
    assert not equal("INT DEFAULT 7", 7, None, "debezium")
    assert not equal("DATE", date(1969, 3, 1), date(2069, 3, 1), "debezium")


def test_a_column_that_a_protocol_made_another_type_is_compared_by_what_it_says() -> None:
    pair = plan("CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(9,2))").pairs[1]
    text = plan("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))").pairs[1]
    same = equality(msgspec.structs.replace(pair, target=text.target), "avro")
    assert same(Decimal("1.50"), "1.5") and not same(Decimal("1.50"), "1.51") and not same(None, "0")
