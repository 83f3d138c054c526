"""The job of a run follows its file: a changed one is taken over between two batches."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import UsageError

log = logging.getLogger(__name__)
T = TypeVar("T")
_Signature = tuple[int, int, int]
SETTLED = 1.0
"""Seconds for which a file must not change before it is read: a part of it may be a valid file, without its rules."""


class RunningJob:
    """The job as it runs, which follows its file."""

    def __init__(
        self, job: Job, load: Callable[[Path], Job] = load_job, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.job = job
        """As it is now."""
        self._load, self._clock = load, clock
        self._seen = _signature(job.file)
        self._met = (self._seen, 0.0)
        """The file as it was looked at last, and since when it is so."""

    def changed(self) -> Job | None:
        """The job as its file has it now, once for each change that a running job can take over.

        A file that cannot be used is logged, and the job goes on by the one before.
        """
        signature = _signature(self.job.file)
        if signature is None or signature == self._seen:
            return None  # An editor may be just about to put the new one in its place.
        now = self._clock()
        if signature != self._met[0]:
            self._met = (signature, now)
        if now - self._met[1] < SETTLED:
            return None  # It may be half written.
        self._seen = signature
        try:
            found = self._load(self.job.file)
        except UsageError as error:
            log.warning("the job file was changed and cannot be used; the job goes on as before: %s", error)
            return None
        if found == self.job:
            return None
        if fixed := needs_restart(self.job, found):
            log.warning(
                "the job file was changed, and %s cannot change while the job runs. Nothing of the file is taken over; "
                "restart the job for it",
                ", ".join(fixed),
            )
            return None
        return found

    def take_over(self, job: Job, opened: Callable[[Job], T]) -> T | None:
        """Open the job by a changed file; ``None``: it does not fit what the job has done, which goes on as before.

        Raises: as ``opened``; the change is taken over all the same
        """
        before, self.job = self.job, job
        try:
            found = opened(job)
        except UsageError as error:
            self.job = before
            log.error("the changed job file does not fit; the job goes on as before: %s", error)
            return None
        log.info("the changed job file is taken over")
        return found


def needs_restart(job: Job, found: Job) -> list[str]:
    """What two versions of a job file differ in that a running job cannot change, as the file names it."""
    compared = {
        "[job] name": (job.name, found.name),
        "[job] owner": (job.owner, found.owner),
        "[source] kind": (type(job.source), type(found.source)),
        "[sink]": (job.sink, found.sink),
        "[spark]": (job.spark, found.spark),
        "[metrics]": (job.metrics, found.metrics),
        "[[notice]]": (job.notices, found.notices),
    }
    return [name for name, (before, now) in compared.items() if before != now]


def _signature(file: Path) -> _Signature | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
