"""Dates and times beside other kinds, and what is added to them. A MariaDB gives the same answers."""

from __future__ import annotations

import pytest

from tests.unit.config.expressions.test_expressions import ROW, holds, judged
from ticdc_spark.errors import MessageError, UsageError


@pytest.mark.parametrize("sql", ["y < dt", "year(y) = 1999", "month(y) = 0", "not (y > dt)", "dt in (y, '2024-02-29')"])
def test_a_year_beside_a_date_is_a_date(sql: str) -> None:
    assert holds(sql)


def test_the_last_years_are_later_than_dates() -> None:
    assert holds("y > dt and y >= dm and not (ts > y)", {**ROW, "y": "2155"})
    assert holds("y < dt", {**ROW, "y": "0"})


@pytest.mark.parametrize(
    "sql",
    [
        "dm = 20240229.0",
        "dm = 20240229e0",
        "dm = 20240229.5",
        "dm in (20240229.0)",
        "ts >= 20240229.0",
        "not (dm > 20240301.0)",
        "dm < 20240229000000.5",
        "dm between 20240228235959.9 and 20240229000000.1",
    ],
)
def test_any_number_beside_a_datetime_is_a_date(sql: str) -> None:
    assert holds(sql, {**ROW, "dm": "2024-02-29 00:00:00.000"})


@pytest.mark.parametrize(
    "sql",
    [
        "dm + interval 0.5 second = '2024-02-29 12:30:01'",
        "dm + interval '1.5' second = '2024-02-29 12:30:02'",
        "dm + interval '0.000001' second = '2024-02-29 12:30:00.500001'",
        "dm + interval '-0.5' second = '2024-02-29 12:30:00'",
        "date_sub(dm, interval 0.5 second) = '2024-02-29 12:30:00'",
        "dm + interval d second = '2024-02-29 12:30:02'",
        "concat(ts + interval 0.5 second) = '2024-02-29 23:00:00.5'",
        "concat(ts + interval 1 second) = '2024-02-29 23:00:01'",
        # of other units a text is cut, a number rounded
        "dm + interval (1.6) day = '2024-03-02 12:30:00.5'",
        "dt + interval ('1.5') day = '2024-03-01'",
    ],
)
def test_fractions_of_an_interval(sql: str) -> None:
    assert holds(sql)


@pytest.mark.parametrize("amount", ["1.6 day", "'1.6' day", "-0.5 hour", "'x' month"])
def test_a_written_fraction_of_another_unit_than_seconds_is_refused(amount: str) -> None:
    for sql in (f"dm + interval {amount} > dt", f"date_sub(dm, interval {amount}) > dt"):
        with pytest.raises(UsageError, match="an integer is needed"):
            holds(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "cast('10:11:12.6' as time) = '10:11:12'",
        "cast('10:11:12.66' as time(1)) = '10:11:12.6'",
        "tm < time '10:11:12.6'",
        "cast('2024-02-29 12:30:00.6' as datetime) = dm",
        "convert('2024-02-29 12:30:00.6', datetime) = dm",
    ],
)
def test_a_fraction_that_a_cast_does_not_keep_is_refused(sql: str) -> None:
    with pytest.raises(UsageError, match="more digits after the point than CAST keeps"):
        holds(sql)


def test_a_cast_keeps_the_fraction_that_its_type_has() -> None:
    assert holds("cast('10:11:12.6' as time(1)) = '10:11:12.6' and cast('10:11:12' as time) = '10:11:12'")
    assert holds("cast('2024-02-29 12:30:00.5' as datetime(3)) = dm and timestamp '2024-02-29 12:30:00.5' = dm")
    assert holds("cast(s as time) = '10:11:12' and cast(tm as time) = tm", {**ROW, "s": "10:11:12.0"})
    for value in ("cast(s as time)", "cast(dm as datetime)"):
        with pytest.raises(MessageError, match="more digits"):
            holds(f"{value} is null", {**ROW, "s": "-10:11:12.6"})


def test_a_cast_to_an_integer_rounds_to_seconds() -> None:
    assert holds("cast(dm as signed) = 20240301000000", {**ROW, "dm": "2024-02-29 23:59:59.700"})
    assert holds("cast(dm as signed) = 20240229235959", {**ROW, "dm": "2024-02-29 23:59:59.499"})
    assert judged("cast(m as signed) = -240000", "t (m time(3) primary key)", {"m": "-23:59:59.500"})
