"""Barrier or arrival: whether a topic has watermarks.

With watermarks everything up to a commit_ts is known to be there, and tables equal the source at it. Without, a batch
is applied when it has been read (arrival). A job is one or the other for its whole life.
"""

from typing import Literal, TypeAlias

from ticdc_spark.errors import UsageError
from ticdc_spark.protocols import MAYBE_WATERMARK, NO_WATERMARK
from ticdc_spark.replicate.progress import Progress

Mode: TypeAlias = Literal["barrier", "arrival"]
ENOUGH_ROWS = 100_000
"""So many rows without a watermark are no accident: TiCDC sends one a second."""


def of_job(wanted: Mode | None, protocol: str, progress: Progress) -> Mode | None:
    """The mode of a job before it has read anything; ``None``: what it reads will tell.

    Raises: UsageError for a mode that the protocol does not allow, or other than the job's so far.
    """
    allowed: tuple[Mode, ...] = ("barrier",)
    if protocol in NO_WATERMARK:
        allowed = ("arrival",)
    elif protocol in MAYBE_WATERMARK:
        allowed = ("barrier", "arrival")
    if wanted is not None and wanted not in allowed:
        which = f'"{allowed[0]}"'
        raise UsageError(f'[job] mode: found "{wanted}"; with protocol {protocol} allowed: {which}')
    begun: Mode | None = progress.mode or ("barrier" if progress.applied else None)
    if begun is not None:
        if wanted not in (None, begun):
            raise UsageError(
                f'[job] mode: found "{wanted}", but this job has run in mode "{begun}" so far; begin a new one with '
                f"another name, another state and an empty lake"
            )
        return begun
    return allowed[0] if len(allowed) == 1 else wanted


def as_read(progress: Progress, *, at_end: bool, waited: bool) -> Mode | None:
    """The mode that messages tell. ``progress`` has taken them in; ``at_end``: a run to an end has read everything;
    ``waited``: there was time enough for a watermark."""
    if any(state.watermark for state in progress.partitions):
        return "barrier"
    rows = sum(rows.rows for rows in progress.pending)
    if not rows and not progress.ddls:
        return None
    return "arrival" if at_end or waited or rows >= ENOUGH_ROWS else None
