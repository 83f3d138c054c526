"""A lag and a count over the last two hours, in memory of fixed size."""

import itertools
from collections import deque
from collections.abc import Sequence

import msgspec

EVERY = 10.0
"""Length of a sample in seconds."""
MOST = 720
"""Number of kept samples: two hours."""


class Sample(msgspec.Struct, frozen=True):
    """A stretch of ``EVERY`` seconds."""

    at: float
    """The last measurement, in seconds since the epoch."""
    lag: float | None
    """The highest lag: it falls with each commit, and grows until the next one."""
    total: int
    """All changes so far, at the end of the sample."""


class Samples:
    """The newest samples. Not safe for use from several threads."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=MOST)

    def add(self, at: float, lag: float | None, total: int) -> None:
        """Add a measurement."""
        last = self._kept[-1] if self._kept else None
        if last is not None and at // EVERY == last.at // EVERY:
            self._kept.pop()
            known = [one for one in (lag, last.lag) if one is not None]
            lag = max(known, default=None)
        self._kept.append(Sample(at, lag, total))

    def all(self) -> tuple[Sample, ...]:
        """All samples, oldest first."""
        return tuple(self._kept)


def lags(samples: Sequence[Sample], now: float, lag: float | None) -> tuple[tuple[float, float], ...]:
    """The points of a line of lags, up to now: the lag grows while nothing is committed."""
    points = [(one.at, one.lag) for one in samples if one.lag is not None]
    if lag is not None and (not points or now > points[-1][0]):
        points.append((now, lag))
    return tuple(points)


def rates(samples: Sequence[Sample]) -> tuple[tuple[float, float], ...]:
    """The points of a line of changes per second, each over the time since the previous sample. If a total falls, for
    example after a restart of the process, it counts from zero."""
    points = []
    for before, after in itertools.pairwise(samples):
        more = after.total - before.total if after.total >= before.total else after.total
        points.append((after.at, more / max(after.at - before.at, 1e-9)))
    return tuple(points)
