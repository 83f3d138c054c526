"""Update the status of a run from the reports to its watchers. Pure."""

import msgspec

from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.state.progress import Status


def in_phase(status: Status, phase: str, batch: int) -> Status:
    """The job is working, so the last trouble is over."""
    return msgspec.structs.replace(
        status, state="normal", phase=phase, batch=batch, error=None, error_code=None, error_at=None
    )


def with_report(status: Status, report: BatchReport) -> Status:
    """A batch is committed. Messages that came while it ran are for the next batch, and no backlog."""
    read, left = (status.read_at, report.left) if report.full else (report.looked_at, 0)
    return msgspec.structs.replace(status, read_at=read, left=left, rate=report.rate, retention=report.retention)


def in_trouble(status: Status, fault: EnvironmentFault, now: float) -> Status:
    """A connection has failed, and the job retries."""
    return msgspec.structs.replace(
        status, state="warning", phase="waiting", error=str(fault), error_code=type(fault).__name__, error_at=now
    )
