"""Sends notices in a separate thread. The run neither waits for it nor fails because of it.

There is no queue. A notice describes what has changed since the last delivered one. An undelivered notice is replaced
by one about the then current state, so a state that came and went in between is not reported.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec

from ticdc_spark.config.job import Notice
from ticdc_spark.config.secrets import redact
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.operate.notices.change import Standing, message, standing_of
from ticdc_spark.operate.notices.deliver import SECONDS, NotDelivered, deliver
from ticdc_spark.operate.status import JobStatus

log = logging.getLogger(__name__)
EVERY = 2.0
"""Seconds between two looks at the job."""
LONGEST = 300.0
"""Longest pause in seconds between two tries."""
LAST_TRIES = (0.0, 1.0, 3.0)
"""Pauses in seconds before the tries after the job has ended."""


class Recipient:
    """One ``[[notice]]``: what was last delivered, and when the next one may be sent."""

    def __init__(self, job: str, number: int, notice: Notice) -> None:
        self._job, self._number, self._notice = job, number, notice
        self._is_wanted = table_filter(notice.tables or ("*.*",))
        self._heard: Standing | None = None
        self._next, self._failures = 0.0, 0
        self._lock = threading.Lock()
        self.undelivered = f"[[notice]] {number} was not delivered: it is still being sent"
        """Why the last try failed, in one sentence."""

    def hear(self, status: JobStatus, now: float, *, is_end: bool = False) -> bool:
        """Send what has changed, if it is time. Returns: whether nothing remains to be sent.

        A start of the job is not reported. The first look sets the state that later ones are compared with.
        """
        # A webhook may block its thread for long; the end of the job does not wait for that.
        if not self._lock.acquire(timeout=SECONDS):
            return False
        try:
            return self._hear(status, now, is_end=is_end)
        finally:
            self._lock.release()

    def _hear(self, status: JobStatus, now: float, *, is_end: bool) -> bool:
        standing = standing_of(status, self._is_wanted)
        if self._heard is None:
            self._heard = standing
            return True
        if standing.state == "pending":
            return True
        found = message(self._job, self._heard, standing, now)
        if found is None:
            return True
        if now < self._next and not is_end:
            return False
        try:
            deliver(self._notice, found)
        except NotDelivered as why:
            self._failures += 1
            pause = min(LONGEST, 2.0 ** min(self._failures, 10))
            self._next = now + pause
            self.undelivered = f"[[notice]] {self._number} was not delivered: {redact(str(why))}"
            if self._failures == 1 and not is_end:
                log.warning("%s; retrying in %.0f s", self.undelivered, pause)
            return False
        self._heard, self._next, self._failures = standing, now + self._notice.pause, 0
        return True


@contextmanager
def notifying(
    recipients: Sequence[Recipient],
    stored: Callable[[], JobStatus],
    now: Callable[[], JobStatus],
    every: float = EVERY,
) -> Iterator[None]:
    """Send notices while a job runs, and when it has ended.

    ``stored``: gives the job's status from its state, before the run and after it; ``now``: from its run.
    """
    over = threading.Event()
    _tell(recipients, stored())

    def watch() -> None:
        while not over.wait(every):
            _tell(recipients, now())

    thread = threading.Thread(target=watch, name="notices", daemon=True)
    thread.start()
    failure: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        over.set()
        _last_words(recipients, _ended(stored(), failure))


def _ended(status: JobStatus, failure: BaseException | None) -> JobStatus:
    """The status of an ended job, even if its state could not be written."""
    if failure is None or status.state == "failed":
        return status
    reason = redact(str(failure) or type(failure).__name__).splitlines()[0]
    return msgspec.structs.replace(status, state="failed", reason=reason, next="")


def _tell(recipients: Sequence[Recipient], status: JobStatus, *, is_end: bool = False) -> list[Recipient]:
    """Send to all recipients in parallel, so that none waits for another. Returns: those with something left to
    send."""
    if not recipients:
        return []
    with ThreadPoolExecutor(len(recipients), "notice") as pool:
        heard = list(pool.map(lambda one: one.hear(status, time.time(), is_end=is_end), recipients))
    return [one for one, has_heard in zip(recipients, heard, strict=True) if not has_heard]


def _last_words(recipients: Sequence[Recipient], status: JobStatus) -> None:
    left = list(recipients)
    for pause in LAST_TRIES:
        if not left:
            return
        time.sleep(pause)
        left = _tell(left, status, is_end=True)
    for one in left:
        log.warning("%s", one.undelivered)
