"""Functions of dates and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from ticdc_spark.config.expressions.convert import MIDNIGHT
from ticdc_spark.config.expressions.nodes import (
    Node,
    Unsupported,
    UnsupportedFunction,
    as_exact,
    as_integer,
    as_moment,
    joined,
    mapped,
)

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MICROS = {"MICROSECOND": 1, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
_DAYS = {"DAY": 1, "WEEK": 7}
_FORMAT = "%Y-%m-%d %H:%M:%S.%f"
_MOST_SECONDS = Decimal(10**12)
"""More than the years 1 to 9999 have."""
_HALF = 500_000
"""Microseconds of half a second; what becomes a number is cut at the second."""
_YEAR_0 = 366
"""Days before 0001-01-01."""


def moment_function(name: str, args: list[Node]) -> Node | None:
    """A function of dates and times by its name in SQL, lower case; ``None``: there is none. Raises: Unsupported."""
    if name == "datediff" and len(args) == 2:
        return joined([as_moment(node) for node in args], "int", _difference)
    if len(args) != 1:
        return None
    if name == "date":
        return mapped(as_moment(args[0]), "date", lambda value: value[:10] + MIDNIGHT)
    if name in _OF_MOMENT:
        return mapped(as_moment(args[0]), "int", _OF_MOMENT[name])
    if name in _OF_CLOCK:
        return _clock(name, args[0])
    return None


def shifted(node: Node, amount: Node, unit: str, sign: int) -> Node:
    """``DATE_ADD`` and ``DATE_SUB``: NULL if the date has a zero part, or the result is outside the years 1 to 9999.

    A text literal without a time of day is a date.
    """
    moment = as_moment(node)
    unit = unit.upper()
    if unit not in _MONTHS and unit not in _DAYS and unit not in _MICROS:
        raise Unsupported(f"INTERVAL … {unit}")
    is_date = node.kind == "date" and unit not in _MICROS
    scale = 6 if unit == "MICROSECOND" else node.scale
    if unit == "SECOND" and amount.kind not in ("int", "null"):  # the one unit whose fraction counts
        scale = max(scale, min(amount.scale, 6) if amount.kind == "decimal" else 6)
        amount, unit = mapped(as_exact(amount), "int", _micros_of), "MICROSECOND"
    return joined(
        [moment, as_integer(amount)],
        "date" if is_date else "datetime",
        lambda value, count: _shift(value, count * sign, unit),
        scale=0 if is_date else scale,
    )


def to_second(node: Node) -> Node:
    """A DATETIME or TIME to the nearest second, before it becomes an integer, as in MySQL and TiDB; MariaDB cuts."""
    if node.kind == "time":
        return mapped(node, "time", lambda micros: micros + (_HALF if micros >= 0 else -_HALF))
    return mapped(node, "datetime", lambda value: _shift(value, _HALF, "MICROSECOND") or value)


def _micros_of(seconds: Decimal) -> int:
    return int(min(max(seconds, -_MOST_SECONDS), _MOST_SECONDS) * 10**6)


def _shift(moment: str, count: int, unit: str) -> str | None:
    if moment[:4] == "0000" or moment[5:7] == "00" or moment[8:10] == "00":
        return None
    try:
        start = datetime.strptime(moment, _FORMAT)
        if unit in _MONTHS:
            months = start.year * 12 + start.month - 1 + count * _MONTHS[unit]
            year, month = divmod(months, 12)
            return _text(start.replace(year=year, month=month + 1, day=min(start.day, _month_days(year, month + 1))))
        if unit in _DAYS:
            return _text(start + timedelta(days=count * _DAYS[unit]))
        return _text(start + timedelta(microseconds=count * _MICROS[unit]))
    except (ValueError, OverflowError):  # beyond the years 1 to 9999
        return None


def _text(moment: datetime) -> str:
    return f"{moment.year:04}-{moment:%m-%d %H:%M:%S.%f}"


def _month_days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _difference(one: str, other: str) -> int | None:
    first, second = _day_number(one), _day_number(other)
    return None if first is None or second is None else first - second


def _day_number(moment: str) -> int | None:
    """Days since 0000-01-01; ``None`` for a date with a zero month or day."""
    year, month, day = int(moment[:4]), int(moment[5:7]), int(moment[8:10])
    if month == 0 or day == 0:
        return None
    if year == 0:
        return sum(_month_days(4, before) for before in range(1, month)) + day - 1
    return date(year, month, day).toordinal() - 1 + _YEAR_0


def _day_of_week(moment: str, first: int) -> int | None:
    """The day of the week, counted from Sunday, which is ``first``."""
    number = _day_number(moment)
    return None if number is None else (number + 6) % 7 + first


def _weekday(moment: str) -> int | None:
    number = _day_number(moment)
    return None if number is None else (number + 5) % 7


def _day_of_year(moment: str) -> int | None:
    number, first = _day_number(moment), _day_number(moment[:4] + "-01-01")
    return None if number is None or first is None else number - first + 1


def _clock(name: str, node: Node) -> Node:
    part = _OF_CLOCK[name]
    if node.kind == "time":
        return mapped(node, "int", lambda micros: part(abs(micros)))
    if node.kind not in ("datetime", "date", "null"):
        raise UnsupportedFunction(f"function {name.upper()}", f" of a {node.kind} value (CAST it AS DATETIME or TIME)")
    return mapped(as_moment(node), "int", lambda value: part(_micros(value)))


def _micros(moment: str) -> int:
    return (int(moment[11:13]) * 3600 + int(moment[14:16]) * 60 + int(moment[17:19])) * 10**6 + int(moment[20:])


_OF_MOMENT: dict[str, Callable[[str], Any]] = {
    "year": lambda value: int(value[:4]),
    "quarter": lambda value: (int(value[5:7]) + 2) // 3,
    "month": lambda value: int(value[5:7]),
    "day": lambda value: int(value[8:10]),
    "dayofmonth": lambda value: int(value[8:10]),
    "dayofweek": lambda value: _day_of_week(value, 1),
    "dayofyear": _day_of_year,
    "weekday": _weekday,
}
_OF_CLOCK: dict[str, Callable[[int], int]] = {
    "hour": lambda micros: micros // (3600 * 10**6),
    "minute": lambda micros: micros // (60 * 10**6) % 60,
    "second": lambda micros: micros // 10**6 % 60,
    "microsecond": lambda micros: micros % 10**6,
}
