"""The job that is measured, its lake, and what it logs of its phases."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Measured, measured
from ticdc_spark.model import Offsets
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog, catalog_options
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.spark.session.session import open_session
from ticdc_spark.spark.sources.files import RecordedTopicSource

JOB = """\
[job]
name = "bench"
batch-rows = {batch_rows}
batch-bytes = "64 GiB"
writer = "{writer}"
[source]
kind = "files"
path = "{topic}"
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "{warehouse}"
"""
PHASES = ("scan", "advance", "apply", "commit")


def write_job(
    folder: Path, topic: Path, batch_rows: int, *, writer: str = "python", warehouse: str = "lake", more: str = ""
) -> Path:
    """A job file over a recorded topic; ``more``: further lines of the sink, and sections behind it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "job.toml"
    text = JOB.format(batch_rows=batch_rows, writer=writer, topic=topic.absolute(), warehouse=warehouse)
    file.write_text(text + more)
    return file


def open_lake(warehouse: str, options: Mapping[str, str] | None = None) -> IcebergSink:
    """The tables of a job with such a warehouse, by a session of its own."""
    settings = catalog_options("lake", warehouse, dict(options or {}))
    # as the loop does: Iceberg takes a catalog's options from the session that is active
    spark = open_session("bench", settings, ()).newSession()
    return IcebergSink(IcebergCatalog(spark, "lake", warehouse, {}, settings))


def batches_of(source: RecordedTopicSource, start: Offsets, rows: int) -> Iterator[tuple[Offsets, Offsets]]:
    """The batches that the job cuts, for those that are not the job; ``start``: empty for the beginning."""
    start, ends = start or source.beginning_offsets(), source.end_offsets()
    while any(start[place] < end for place, end in ends.items()):
        cut = source.cap(start, ends, rows, 64 << 30)
        yield start, cut
        start = cut


@contextmanager
def shown(name: str, found: dict[str, Measured]) -> Iterator[None]:
    """Measure what is done meanwhile, under a name that is printed."""
    print(f"  {name} … ", end="", flush=True, file=sys.stderr)
    with measured() as result:
        yield
    found[name] = result
    print(f"{result.seconds:.1f} s", flush=True, file=sys.stderr)


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
