"""A lag and a count over the last hour or two, in a memory that does not grow."""

import itertools
from collections import deque
from collections.abc import Sequence

import msgspec

EVERY = 10.0
"""Seconds of one sample."""
MOST = 720
"""Samples that are kept: two hours."""


class Sample(msgspec.Struct, frozen=True):
    """One stretch of ``EVERY`` seconds."""

    at: float
    """When it was last measured, seconds since the epoch."""
    lag: float | None
    """The highest in it: a lag falls with each commit, and grows until the next."""
    total: int
    """Changes since the beginning, at its end."""


class Samples:
    """The newest samples. To be used by one thread at a time."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=MOST)

    def add(self, at: float, lag: float | None, total: int) -> None:
        """Measure."""
        last = self._kept[-1] if self._kept else None
        if last is not None and at // EVERY == last.at // EVERY:
            self._kept.pop()
            known = [one for one in (lag, last.lag) if one is not None]
            lag = max(known, default=None)
        self._kept.append(Sample(at, lag, total))

    def all(self) -> tuple[Sample, ...]:
        """Them, the oldest first."""
        return tuple(self._kept)


def lags(samples: Sequence[Sample], now: float, lag: float | None) -> tuple[tuple[float, float], ...]:
    """The points of a line of lags, up to now: while nothing is committed, it grows."""
    points = [(one.at, one.lag) for one in samples if one.lag is not None]
    if lag is not None and (not points or now > points[-1][0]):
        points.append((now, lag))
    return tuple(points)


def rates(samples: Sequence[Sample]) -> tuple[tuple[float, float], ...]:
    """The points of a line of changes a second, each over the time since the sample before. A total that falls, as
    that of a process that was started again, counts from nothing."""
    points = []
    for before, after in itertools.pairwise(samples):
        more = after.total - before.total if after.total >= before.total else after.total
        points.append((after.at, more / max(after.at - before.at, 1e-9)))
    return tuple(points)
