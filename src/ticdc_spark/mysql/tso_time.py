"""Timestamps of TiDB's oracle: ``physical milliseconds << 18 | logical``."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

LARGEST = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seconds(ts: int) -> float:
    """The physical part of a TSO, in seconds since the epoch."""
    return (ts >> 18) / 1000


@lru_cache(4096)
def utc(ts: int) -> str:
    """The physical part as UTC time, ``2026-11-21 03:47:00.123Z``; ``-`` for 0, and the number if it is not a time."""
    if ts <= 0:
        return "-"
    try:
        time = _EPOCH + timedelta(milliseconds=ts >> 18)
    except OverflowError:
        return str(ts)
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03}Z"


def lag(ts: int, now: float) -> float | None:
    """Seconds from a TSO to ``now``, never below 0; ``None`` for 0, which is not a time."""
    return max(0.0, now - seconds(ts)) if ts > 0 else None
