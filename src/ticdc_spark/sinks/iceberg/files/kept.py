"""A cache for what never changes: the files of tables in a lake."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Keeps what was read last, up to a total size. Safe to use from several threads."""

    def __init__(self, most: int, size: Callable[[V], int]) -> None:
        """``most``: the largest total size; the newest entry is kept even if it is larger."""
        self._most, self._size = most, size
        self._lock = Lock()
        self._held: OrderedDict[K, V] = OrderedDict()
        self._total = 0

    def has(self, key: K) -> bool:
        """Whether a key is cached."""
        with self._lock:
            return key in self._held

    def get(self, key: K, read: Callable[[], V]) -> V:
        """The cached value of a key, else the result of ``read``. Two threads may read the same key at once."""
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
