"""Measure how long the phases of batches take."""

import logging
import time

log = logging.getLogger(__name__)


class Timer:
    """A context manager that adds its seconds to those of its phase."""

    def __init__(self, seconds: dict[str, float], phase: str) -> None:
        self.seconds, self.phase = seconds, phase

    def __enter__(self) -> None:
        self.began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        spent = time.monotonic() - self.began
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + spent
        log.debug("%s: %.2f s", self.phase, spent)
