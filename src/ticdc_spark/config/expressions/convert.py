"""Values of one kind as another, as MySQL converts them: text to numbers, texts and numbers to times."""

from __future__ import annotations

import re
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from ticdc_spark.mysql import float_text

MATH = Context(prec=200, rounding=ROUND_HALF_UP)
"""Wider than any DECIMAL, so digits are only cut on purpose."""

_LARGEST = Decimal("1e81")
"""More than the 65 digits of a DECIMAL hold."""
_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_INTEGER = re.compile(r"\s*([+-]?\d+)", re.ASCII)
_PUNCTUATION = r"[!-/:-@\[-`{-~]"
_MOMENT = re.compile(
    rf"\s*(\d{{1,4}}){_PUNCTUATION}(\d{{1,2}}){_PUNCTUATION}(\d{{1,2}})"
    rf"(?:(?:[Tt]|\s+)(\d{{1,2}})(?:{_PUNCTUATION}(\d{{1,2}})(?:{_PUNCTUATION}(\d{{1,2}})(?:\.(\d*))?)?)?)?\s*",
    re.ASCII,
)
_DIGITS = re.compile(r"\s*(\d{6}|\d{8}|\d{12}|\d{14})(?:\.(\d*))?\s*", re.ASCII)
_TIME = re.compile(r"\s*(-?)(?:(\d+) )?(\d+):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?\s*", re.ASCII)
_TIME_DIGITS = re.compile(r"\s*(-?)(\d{1,7})(?:\.(\d*))?\s*", re.ASCII)
MIDNIGHT = " 00:00:00.000000"
MAX_TIME = (838 * 3600 + 59 * 60 + 59) * 1_000_000


def text_to_real(text: str) -> float:
    """The number that a text begins with, or 0."""
    found = _NUMBER.match(text)
    number = float(found[1]) if found else 0.0
    return (
        number if abs(number) != float("inf") else (1.7976931348623157e308 if number > 0 else -1.7976931348623157e308)
    )


def is_number(text: str) -> bool:
    """Whether a text is a number and nothing else."""
    return _NUMBER.fullmatch(text.rstrip()) is not None


def text_to_decimal(text: str) -> Decimal:
    """The number that a text begins with, or 0, exactly."""
    found = _NUMBER.match(text)
    try:
        return min(max(Decimal(found[1]), -_LARGEST), _LARGEST) if found else Decimal(0)
    except InvalidOperation:  # an exponent that is too large
        return Decimal(0)


def text_to_integer(text: str) -> int:
    """The integer that a text begins with, or 0: CAST … AS SIGNED ignores what follows the point."""
    found = _INTEGER.match(text)
    return int(found[1]) if found else 0


def round_half_up(number: Decimal, digits: int = 0) -> Decimal:
    """Rounded to ``digits`` after the point, halves away from zero."""
    if number.adjusted() + digits > MATH.prec - 2:
        return number  # it has no digits there
    return number.quantize(Decimal(1).scaleb(-digits), context=MATH)


def nearest(number: int | Decimal | float) -> int:
    """The nearest integer. Between two it is the even one for a real, and the one away from zero for a decimal."""
    return int(round_half_up(number)) if isinstance(number, Decimal) else round(number)


def truncate(number: Decimal, digits: int) -> Decimal:
    """Cut to ``digits`` after the point."""
    return number.quantize(Decimal(1).scaleb(-digits), rounding="ROUND_DOWN", context=MATH)


def text_to_moment(text: str) -> str | None:
    """``YYYY-MM-DD hh:mm:ss.ffffff`` of a text with any punctuation, or without; ``None``: it is no date."""
    found = _MOMENT.fullmatch(text)
    if found:
        year, month, day, hour, minute, second, fraction = found.groups()
        return _moment(_full_year(year), month, day, hour, minute, second, fraction)
    compact = _DIGITS.fullmatch(text)
    if not compact:
        return None
    digits, fraction = compact.groups()
    wide = len(digits) in (8, 14)
    at = 4 if wide else 2
    rest: list[str | None] = [digits[i : i + 2] for i in range(at, len(digits), 2)]
    month, day, hour, minute, second = rest + [None] * (5 - len(rest))
    return _moment(_full_year(digits[:at]), month, day, hour, minute, second, fraction)


def number_to_moment(number: int | Decimal | float) -> str | None:
    """``text_to_moment`` for a number such as 20240131 or 20240131235959.5."""
    if number == 0:
        return "0000-00-00" + MIDNIGHT
    digits, _, fraction = format(Decimal(str(number)), "f").partition(".")
    if number < 0 or len(digits) not in (5, 6, 7, 8, 11, 12, 13, 14):
        return None
    width = {5: 6, 7: 8, 11: 12, 13: 14}.get(len(digits), len(digits))
    return text_to_moment(digits.zfill(width) + (f".{fraction}" if fraction and width > 8 else ""))


def moment_to_number(moment: str, digits: int) -> Decimal:
    """A number such as 20240131235959.5 of a date and time, with ``digits`` after the point."""
    whole, _, fraction = moment.partition(".")
    number = re.sub(r"\D", "", whole)
    return Decimal(f"{number}.{fraction[:digits]}") if digits and fraction else Decimal(number)


def text_to_time(text: str) -> int | None:
    """Microseconds of a TIME's text; ``None``: it is no TIME."""
    found = _TIME.fullmatch(text)
    if found:
        sign, days, hours, minutes, seconds, fraction = found.groups()
        whole = (int(days or 0) * 24 + int(hours)) * 3600
    else:
        compact = _TIME_DIGITS.fullmatch(text)
        if not compact:
            return None
        sign, digits, fraction = compact.groups()
        number = digits.zfill(6)
        whole, minutes, seconds = int(number[:-4]) * 3600, number[-4:-2], number[-2:]
    if int(minutes) > 59 or int(seconds or 0) > 59:
        return None
    micros = (whole + int(minutes) * 60 + int(seconds or 0)) * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    micros = min(micros, MAX_TIME)
    return -micros if sign else micros


def time_to_number(micros: int) -> Decimal:
    """A number such as 235959.5 of a TIME's microseconds."""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    number = Decimal(seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60)
    number += Decimal(fraction).scaleb(-6)
    return -number if micros < 0 else number


def real_to_text(number: float, bits: int = 64) -> str:
    """A DOUBLE or a FLOAT as TiDB prints it: the shortest text, without an exponent, which MySQL has for large ones."""
    return format(Decimal(float_text(number, bits)), "f")


def _full_year(digits: str) -> str:
    if len(digits) > 2:
        return digits.zfill(4)
    year = int(digits)
    return str(year + (2000 if year < 70 else 1900))


def _moment(
    year: str,
    month: str | None,
    day: str | None,
    hour: str | None,
    minute: str | None,
    second: str | None,
    fraction: str | None,
) -> str | None:
    numbers = [int(part or 0) for part in (year, month, day, hour, minute, second)]
    if numbers[1] > 12 or numbers[2] > 31 or numbers[3] > 23 or numbers[4] > 59 or numbers[5] > 59:
        return None
    if numbers[1] and numbers[2] and not _is_day(*numbers[:3]):
        return None
    micros = (fraction or "")[:6].ljust(6, "0")
    return "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.".format(*numbers) + micros


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year or 4, month, day)  # year 0 is a leap year to MySQL
    except ValueError:
        return False
    return True
