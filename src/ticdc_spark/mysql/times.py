"""Times: the canonical text of DATETIME, TIME and TIMESTAMP, time zones, and TSOs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from ticdc_spark.errors import MessageError

Ambiguous: TypeAlias = Literal["earlier", "later", "reject"]

_LOGICAL_BITS = 18
_UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d{2})")


def tso(physical_ms: int, logical: int = 0) -> int:
    """Compose a TSO from milliseconds since the epoch and a logical counter below 2**18."""
    return physical_ms << _LOGICAL_BITS | logical


def tso_physical_ms(commit_ts: int) -> int:
    """Milliseconds since the epoch of a TSO."""
    return commit_ts >> _LOGICAL_BITS


def canonical_datetime(text: str, fsp: int) -> str:
    """A DATETIME, TIMESTAMP or TIME with exactly ``fsp`` fractional digits.

    Digits beyond ``fsp`` are only dropped if they are zeros, so no value changes.
    """
    whole, _, digits = text.partition(".")
    if len(digits) == fsp:
        return text
    digits = digits[:fsp].ljust(fsp, "0") + digits[fsp:].rstrip("0")
    return f"{whole}.{digits}" if digits else whole


@lru_cache(maxsize=1024)
def time_zone(name: str) -> tzinfo:
    """The zone of an IANA name or of an offset like ``+08:00``.

    Raises: MessageError if there is no such zone.
    """
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign, hours, minutes = offset.groups()
        shift = timedelta(hours=int(hours), minutes=int(minutes))
        if shift < timedelta(days=1):
            return timezone(-shift if sign == "-" else shift)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # the not-found error is a KeyError
        raise MessageError(f"time zone {name!r} is not known; an IANA name is needed") from error


def is_utc(zone: str) -> bool:
    """Whether ``zone`` is one of UTC's names."""
    return zone in _UTC_NAMES


def utc_timestamp(local_text: str, zone: str, fsp: int, ambiguous: Ambiguous = "earlier") -> str:
    """UTC text, with ``fsp`` digits, of a TIMESTAMP that was sent as local time in ``zone``.

    ``ambiguous`` decides how a local time that happens twice is read. A local time that never happens (clocks go
    forward) cannot come from a TIMESTAMP. It is read with the offset from before the change, as MySQL's own
    neighbours do, and refused with ``reject``. The zero timestamp is not an instant and stays unchanged.

    Raises: MessageError for an unknown zone, text that is not a time, and times that ``reject`` refuses.
    """
    text = canonical_datetime(local_text, fsp)
    if zone in _UTC_NAMES or text.startswith("0000-00-00"):
        return text
    minute, shift = _utc_minute(text[:16], zone, ambiguous)
    if shift == 0 and _has_seconds(text):
        return minute + text[16:]
    return _shift(_parse(text, local_text), shift, local_text)[:19] + text[19:]


def local_timestamp(utc_text: str, zone: str) -> str:
    """Local text in ``zone`` of a TIMESTAMP in UTC; keeps its fractional digits and the zero timestamp.

    Raises: MessageError for an unknown zone, or text that is not a time.
    """
    if zone in _UTC_NAMES or utc_text.startswith("0000-00-00"):
        return utc_text
    minute, shift = _local_minute(utc_text[:16], zone)
    if shift == 0 and _has_seconds(utc_text):
        return minute + utc_text[16:]
    return _shift(_parse(utc_text, utc_text), shift, utc_text)[:19] + utc_text[19:]


# Rows of one transaction share their minutes, so both directions cache a minute's result. For an offset with
# seconds (Monrovia until 1972) the result is a shift, which the caller applies.
@lru_cache(maxsize=1 << 16)
def _utc_minute(minute: str, zone: str, ambiguous: Ambiguous) -> tuple[str, int]:
    local = _parse(minute + ":00", minute).replace(tzinfo=time_zone(zone))
    first, second = local.utcoffset(), local.replace(fold=1).utcoffset()
    assert first is not None
    assert second is not None
    offset = first
    if first != second:
        happens_twice = first > second
        if ambiguous == "reject":
            what = "happens twice" if happens_twice else "never happens"
            raise MessageError(f"TIMESTAMP {minute!r} {what} in {zone} (ambiguous-timestamp is reject)")
        if happens_twice and ambiguous == "later":
            offset = second
    seconds = int(offset.total_seconds())
    if seconds % 60:
        return minute, -seconds
    return _shift(local.replace(tzinfo=None), -seconds, minute)[:16], 0


@lru_cache(maxsize=1 << 16)
def _local_minute(minute: str, zone: str) -> tuple[str, int]:
    instant = _parse(minute + ":00", minute)
    try:
        offset = instant.replace(tzinfo=UTC).astimezone(time_zone(zone)).utcoffset()
    except OverflowError as error:
        raise MessageError(f"TIMESTAMP {minute!r} is out of range") from error
    assert offset is not None
    seconds = int(offset.total_seconds())
    return (minute, seconds) if seconds % 60 else (_shift(instant, seconds, minute)[:16], 0)


def _shift(time: datetime, seconds: int, shown: str) -> str:
    try:
        return (time + timedelta(seconds=seconds)).isoformat(" ")
    except OverflowError as error:
        raise MessageError(f"TIMESTAMP {shown!r} is out of range") from error


def _has_seconds(text: str) -> bool:
    return text[16:17] == ":" and text[17:19].isdecimal()


def _parse(text: str, shown: str) -> datetime:
    try:
        return datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S")
    except ValueError as error:
        raise MessageError(f"TIMESTAMP {shown!r} is no time of the form YYYY-MM-DD HH:MM:SS") from error
