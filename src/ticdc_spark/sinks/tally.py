"""Counts by table that several threads add to."""

import threading
from collections import Counter

from ticdc_spark.model import TableName


class Tally:
    """Counts since they were last taken. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[TableName] = Counter()

    def add(self, table: TableName) -> None:
        """Count one for a table."""
        with self._lock:
            self._counts[table] += 1

    def take(self) -> dict[TableName, int]:
        """The counts, which begin again."""
        with self._lock:
            taken, self._counts = dict(self._counts), Counter()
        return taken
