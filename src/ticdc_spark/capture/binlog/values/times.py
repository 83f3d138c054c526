"""Dates and times of row events as canonical text. Fractions have ``fsp`` digits. Zero dates stay."""

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
    """The date of a DATETIME, with a trailing space: year * 13 + month, then 5 bits of day."""
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


def _fraction(fsp: int) -> tuple[int, int, int]:
    """Bits of the fraction, their mask, and the divisor: an odd number of digits is stored with one more."""
    size = 8 * fraction_size(fsp)
    return size, (1 << size) - 1, 10 ** (fsp % 2)


def datetime_text(fsp: int) -> Callable[[bytes], str]:
    """A reader of DATETIME(``fsp``)."""
    bits, mask, extra = _fraction(fsp)

    def whole(data: bytes) -> str:
        number = _from(data, "big") - 0x8000000000
        return _day(number >> 17) + _clock(number & 0x1FFFF)

    def fractional(data: bytes) -> str:
        number = _from(data, "big")
        seconds = (number >> bits) - 0x8000000000
        return f"{_day(seconds >> 17)}{_clock(seconds & 0x1FFFF)}.{(number & mask) // extra:0{fsp}}"

    return fractional if fsp else whole


def timestamp_text(fsp: int) -> Callable[[bytes], str]:
    """A reader of TIMESTAMP(``fsp``), as UTC."""
    bits, mask, extra = _fraction(fsp)
    zero = "0000-00-00 00:00:00" + ("." + "0" * fsp if fsp else "")

    def whole(data: bytes) -> str:
        number = _from(data, "big")
        return _epoch_day(number // 86400) + _seconds(number % 86400) if number else zero

    def fractional(data: bytes) -> str:
        number = _from(data, "big")
        if not number:
            return zero
        seconds = number >> bits
        return f"{_epoch_day(seconds // 86400)}{_seconds(seconds % 86400)}.{(number & mask) // extra:0{fsp}}"

    return fractional if fsp else whole


def time_text(fsp: int) -> Callable[[bytes], str]:
    """A reader of TIME(``fsp``). A negative one is the complement, fraction included."""
    bits, mask, extra = _fraction(fsp)
    middle = 0x800000 << bits

    def at(data: bytes) -> str:
        number = _from(data, "big") - middle
        sign, number = ("-", -number) if number < 0 else ("", number)
        text = sign + _clock(number >> bits)
        return f"{text}.{(number & mask) // extra:0{fsp}}" if fsp else text

    return at


# The format of tables that were created before MySQL 5.6, without fractions.
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
