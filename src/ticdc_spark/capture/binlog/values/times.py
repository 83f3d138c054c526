"""Dates and times of row events to canonical text. Fractions are those of ``fsp`` digits; zero dates stay."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache

_EPOCH = date(1970, 1, 1)
_from = int.from_bytes


@lru_cache(1 << 14)
def date_text(data: bytes) -> str:
    """A DATE: 15 bits of year, 4 of month, 5 of day, little-endian."""
    number = _from(data, "little")
    return f"{number >> 9:04}-{number >> 5 & 15:02}-{number & 31:02}"


@lru_cache(1 << 14)
def _day(number: int) -> str:
    """The date of a DATETIME, with a space behind it: year * 13 + month, then 5 bits of day."""
    year, month = divmod(number >> 5, 13)
    return f"{year:04}-{month:02}-{number & 31:02} "


@lru_cache(1 << 17)
def _clock(number: int) -> str:
    """Hours, 6 bits of minutes and 6 of seconds."""
    return f"{number >> 12:02}:{number >> 6 & 63:02}:{number & 63:02}"


@lru_cache(1 << 14)
def _epoch_day(days: int) -> str:
    return f"{_EPOCH + timedelta(days)} "


@lru_cache(1 << 17)
def _seconds(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def fraction_size(fsp: int) -> int:
    """Bytes of the fraction."""
    return (fsp + 1) // 2


def _digits(number: int, fsp: int) -> str:
    """An odd count of digits is stored with one more."""
    even = fsp + fsp % 2
    return f".{number:0{even}}"[: fsp + 1]


def datetime_text(fsp: int) -> Callable[[bytes], str]:
    """A reader of DATETIME(``fsp``)."""

    def whole(data: bytes) -> str:
        number = _from(data, "big") - 0x8000000000
        return _day(number >> 17) + _clock(number & 0x1FFFF)

    def fractional(data: bytes) -> str:
        return whole(data[:5]) + _digits(_from(data[5:], "big"), fsp)

    return fractional if fsp else whole


def timestamp_text(fsp: int) -> Callable[[bytes], str]:
    """A reader of TIMESTAMP(``fsp``), as UTC."""

    def whole(data: bytes) -> str:
        number = _from(data[:4], "big")
        days, seconds = divmod(number, 86400)
        return _epoch_day(days) + _seconds(seconds)

    def at(data: bytes) -> str:
        if not any(data):
            return "0000-00-00 00:00:00" + (_digits(0, fsp) if fsp else "")
        return whole(data) + (_digits(_from(data[4:], "big"), fsp) if fsp else "")

    return at


def time_text(fsp: int) -> Callable[[bytes], str]:
    """A reader of TIME(``fsp``). A negative one is the complement, fraction included."""
    size = 3 + fraction_size(fsp)
    shift = 8 * fraction_size(fsp)
    middle = 1 << 8 * size - 1

    def at(data: bytes) -> str:
        number = _from(data, "big") - middle
        sign, number = ("-", -number) if number < 0 else ("", number)
        whole = number >> shift
        text = sign + _clock(whole)
        return text + _digits(number & (1 << shift) - 1, fsp) if fsp else text

    return at


# What tables made before MySQL 5.6 hold, without fractions.
def old_datetime_text(data: bytes) -> str:
    """A DATETIME as the number YYYYMMDDhhmmss."""
    text = f"{_from(data, 'little'):014}"
    return f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[8:10]}:{text[10:12]}:{text[12:]}"


def old_timestamp_text(data: bytes) -> str:
    """A TIMESTAMP in little-endian seconds."""
    return timestamp_text(0)(data[::-1])


def old_time_text(data: bytes) -> str:
    """A TIME as the number hhmmss."""
    number = _from(data, "little", signed=True)
    sign, number = ("-", -number) if number < 0 else ("", number)
    return f"{sign}{number // 10000:02}:{number // 100 % 100:02}:{number % 100:02}"
