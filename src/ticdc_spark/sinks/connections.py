"""Connections to a database that threads borrow."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Connections:
    """Those that nobody uses stay open for whoever comes next."""

    def __init__(self, opened: Callable[[], Any], answers: Callable[[Any], bool], end: Callable[[Any], None]) -> None:
        """``answers``: whether a connection that was idle is still one; ``end``: closes one."""
        self._opened, self._answers, self._end = opened, answers, end
        self._free: list[Any] = []
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """A connection. After an error it is closed, and its locks are free."""
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
        """Close the connections that nobody uses."""
        with self._lock:
            free, self._free = self._free, []
        for one in free:
            self._end(one)
