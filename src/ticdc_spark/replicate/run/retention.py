"""How long the topics keep messages."""

import time

from ticdc_spark.spark.sources.base import Source

_SECONDS = 600.0
"""Seconds between two questions to the source."""


class Retention:
    """Asks a source at intervals, and remembers the answer."""

    def __init__(self) -> None:
        self._kept: dict[str, float] = {}
        self._next = 0.0

    def of(self, source: Source) -> dict[str, float]:
        """Seconds by topic, see ``Source.retention``. Raises: SourceFault"""
        now = time.monotonic()
        if now >= self._next:
            self._kept, self._next = source.retention(), now + _SECONDS
        return self._kept
