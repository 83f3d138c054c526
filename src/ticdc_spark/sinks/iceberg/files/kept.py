"""A cache of what never changes: files that tables of a lake are made of."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Keeps what was read last, up to a size in all. Safe to use from several threads."""

    def __init__(self, most: int, size: Callable[[V], int]) -> None:
        """``most``: of the sizes together; the newest is kept however large it is."""
        self._most, self._size = most, size
        self._lock = Lock()
        self._held: OrderedDict[K, V] = OrderedDict()
        self._total = 0

    def has(self, key: K) -> bool:
        """Whether something is kept under a key."""
        with self._lock:
            return key in self._held

    def get(self, key: K, read: Callable[[], V]) -> V:
        """What is kept under a key, else what ``read`` gives. Two threads may read the same at once."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        found = read()
        with self._lock:
            if key not in self._held:
                self._held[key] = found
                self._total += self._size(found)
            while self._total > self._most and len(self._held) > 1:
                self._total -= self._size(self._held.popitem(last=False)[1])
        return found
