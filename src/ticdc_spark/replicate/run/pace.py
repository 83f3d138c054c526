"""How fast the last batches of a run read messages."""

from collections import deque

_BATCHES = 5
"""Of the last batches: one alone may be of few large messages, or wait for a slow commit."""


class Pace:
    """Messages a second, over the last batches."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, float]] = deque(maxlen=_BATCHES)

    def add(self, messages: int, seconds: float) -> None:
        """Count a batch that read messages; one that read none says nothing."""
        if messages:
            self._batches.append((messages, seconds))

    @property
    def rate(self) -> float | None:
        """``None`` before the first batch."""
        seconds = sum(taken for _, taken in self._batches)
        return sum(messages for messages, _ in self._batches) / seconds if seconds > 0 else None
