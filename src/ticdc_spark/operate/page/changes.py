"""Tells browsers about news of a run, by server-sent events. The run never waits for them."""

import threading
from collections.abc import Iterator

MOST = 16
"""Browsers that get events at the same time; further ones poll."""
PAUSE = 1.0
"""Seconds between two events: a browser asks for the page after each."""
TICK = 5.0
"""Without news, an event is sent after so many seconds, because ages and lags grow. It also detects closed
connections."""


class Changes:
    """Tells threads that something has changed. ``tell`` returns at once."""

    def __init__(self, *, most: int = MOST, pause: float = PAUSE, tick: float = TICK) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._pause, self._tick = pause, tick
        self._news = threading.Condition()
        self._number = 0
        self._over = threading.Event()

    def tell(self) -> None:
        """Report that something has changed."""
        with self._news:
            self._number += 1
            self._news.notify_all()

    def close(self) -> None:
        """End all events."""
        self._over.set()
        self.tell()

    def enter(self) -> bool:
        """Take a place; returns whether one was free."""
        return self._free.acquire(blocking=False)

    def leave(self) -> None:
        """Release the place."""
        self._free.release()

    def events(self) -> Iterator[bytes]:
        """One event now, and one after each change, until ``close``."""
        seen = -1
        while not self._over.is_set():
            with self._news:
                if self._number == seen:
                    self._news.wait(self._tick)
                seen = self._number
            if self._over.is_set():
                return
            yield b"retry: 5000\ndata: %d\n\n" % seen
            self._over.wait(self._pause)
