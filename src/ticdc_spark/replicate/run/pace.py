"""The speed at which the last batches of a run read messages."""

from collections import deque

_BATCHES = 5
"""How many of the last batches count: a single one may have few large messages, or a slow commit."""


class Pace:
    """Messages per second, over the last batches."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, float]] = deque(maxlen=_BATCHES)

    def add(self, messages: int, seconds: float) -> None:
        """Count a batch. One that read no messages does not count."""
        if messages:
            self._batches.append((messages, seconds))

    @property
    def rate(self) -> float | None:
        """``None`` before the first batch."""
        seconds = sum(taken for _, taken in self._batches)
        return sum(messages for messages, _ in self._batches) / seconds if seconds > 0 else None
