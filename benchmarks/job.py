"""The job that is measured, and what it logs of its phases."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

JOB = """\
[job]
name = "bench"
state = "state"
batch-rows = {batch_rows}
batch-bytes = "64 GiB"
[source]
kind = "files"
path = "{topic}"
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "lake"
"""
PHASES = ("land", "advance", "apply", "commit")


def write_job(folder: Path, topic: Path, batch_rows: int, more: str = "") -> Path:
    """A job file over a recorded topic; ``more``: further lines of the sink, and sections behind it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "job.toml"
    file.write_text(JOB.format(batch_rows=batch_rows, topic=topic.absolute()) + more)
    return file


class _PhaseHandler(logging.Handler):
    def __init__(self, phases: dict[str, float]) -> None:
        super().__init__(logging.DEBUG)
        self.phases = phases

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and len(record.args) == 2 and record.args[0] in PHASES:
            phase, spent = record.args
            self.phases[str(phase)] = self.phases.get(str(phase), 0.0) + float(str(spent))


@contextmanager
def phases_of(phases: dict[str, float]) -> Iterator[None]:
    """Collect what the loop logs of its phases."""
    logger, handler = logging.getLogger("ticdc_spark.replicate.timer"), _PhaseHandler(phases)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
