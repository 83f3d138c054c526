"""Follow the job file during a run: a changed file takes effect between two batches."""

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
"""Seconds without a change before a file is read: a part of it may be a valid file, but without all its rules."""


class RunningJob:
    """The running job, which follows its file."""

    def __init__(
        self, job: Job, load: Callable[[Path], Job] = load_job, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.job = job
        """The current job."""
        self._load, self._clock = load, clock
        self._seen = _signature(job.file)
        self._met = (self._seen, 0.0)
        """The signature of the file at the last look, and since when it has it."""

    def changed(self) -> Job | None:
        """The job of a changed file, once for each change that a running job can adopt; ``None``: no such change.

        A file that cannot be used is logged, and the job continues with the former one.
        """
        signature = _signature(self.job.file)
        if signature is None or signature == self._seen:
            self._met = (self._seen, 0.0)
            return None  # An editor may be about to replace the file.
        now = self._clock()
        if signature != self._met[0]:
            self._met = (signature, now)
        if now - self._met[1] < SETTLED:
            return None  # The file may be half written.
        self._seen = signature
        try:
            found = self._load(self.job.file)
        except UsageError as error:
            log.warning("cannot use the changed job file; the job continues with the old one: %s", error)
            return None
        if found == self.job:
            return None
        if fixed := needs_restart(self.job, found):
            log.warning(
                "cannot use the changed job file: %s cannot change while the job runs. The job continues with the old "
                "file; restart it to use the new one",
                ", ".join(fixed),
            )
            return None
        return found

    @property
    def is_settling(self) -> bool:
        """Whether the last look found a changed file that may still be half written."""
        return self._met[0] != self._seen

    def take_over(self, job: Job, opened: Callable[[Job], T]) -> T | None:
        """Open the job with a changed file; ``None``: it does not fit what the job has done, so the old one stays.

        Raises: as ``opened``; the changed file then stays in use
        """
        before, self.job = self.job, job
        try:
            found = opened(job)
        except UsageError as error:
            self.job = before
            log.error("the changed job file does not fit; the job continues with the old one: %s", error)
            return None
        log.info("using the changed job file")
        return found


def needs_restart(job: Job, found: Job) -> list[str]:
    """The keys and sections in which two versions of a job file differ, and that a running job cannot change."""
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
