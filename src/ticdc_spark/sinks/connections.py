"""A pool of database connections for threads."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Connections:
    """Idle connections stay open for the next thread."""

    def __init__(self, opened: Callable[[], Any], answers: Callable[[Any], bool], end: Callable[[Any], None]) -> None:
        """``answers``: whether an idle connection is still usable; ``end``: closes a connection."""
        self._opened, self._answers, self._end = opened, answers, end
        self._free: list[Any] = []
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """Borrow a connection. After an error it is closed, which releases its locks."""
        with self._lock:
            found = self._free.pop() if self._free else None
        if found is not None and not self._answers(found):
            self._end(found)
            found = None
        connection = self._opened() if found is None else found
        done = False
        try:
            yield connection
            done = True
        finally:
            if done:
                with self._lock:
                    self._free.append(connection)
            else:
                self._end(connection)

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            free, self._free = self._free, []
        for one in free:
            self._end(one)
