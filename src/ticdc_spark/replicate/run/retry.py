"""Retries while a broker, a registry or a catalog cannot be reached."""

import logging
import time
from collections.abc import Callable

from ticdc_spark.errors import EnvironmentFault, RegistryFault, SinkFault, SourceFault
from ticdc_spark.log_events import event
from ticdc_spark.sinks.capabilities import SinkConflict

log = logging.getLogger(__name__)
CONNECTIONS = (SourceFault, SinkFault, RegistryFault)
"""Faults that may pass by themselves. Other faults, such as too many unreadable messages or a full disk under the
state folder, end the job at once."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0


class RetryPolicy:
    """How long a run retries after a fault, and when it retries next.

    Only a run that has done a batch retries. A fault from the start is an error at once, unless another writer was
    faster.
    """

    def __init__(self, job: str, retry_for: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``retry_for``: seconds since the first of several faults in a row; 0: every fault ends the job."""
        self._job = job
        self.retry_for = retry_for
        self._clock = clock
        self._worked = False
        self._since: float | None = None
        self._pause = FIRST_PAUSE

    def worked(self) -> None:
        """Record that a batch was done."""
        if self._since is not None:
            log.warning("resumed after %.0f seconds", self._clock() - self._since)
        self._worked, self._since, self._pause = True, None, FIRST_PAUSE

    def pause_after(self, fault: EnvironmentFault) -> float | None:
        """Seconds to wait before the next try; ``None``: this fault ends the job."""
        if not isinstance(fault, CONNECTIONS) or not (self._worked or isinstance(fault, SinkConflict)):
            return None
        now = self._clock()
        self._since = now if self._since is None else self._since
        left = self._since + self.retry_for - now
        if left <= 0:
            return None
        pause, self._pause = min(self._pause, left), min(2 * self._pause, LONGEST_PAUSE)
        told = event("retry", job=self._job, error=type(fault).__name__)
        log.warning("%s; retrying in %.0f s, giving up in %.0f s", fault, pause, left, extra=told)
        return pause
