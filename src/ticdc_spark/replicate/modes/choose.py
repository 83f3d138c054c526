"""Watermark or arrival: whether a topic has watermarks.

With watermarks everything up to a commit_ts is known to be there, and tables equal the source at it. Without, a batch
is applied when it has been read (arrival). A job is one or the other for its whole life. Rows that hide their commit_ts
(Avro's without TiDB's extension, and its deletes of the classic architecture) have no place among watermarks.
"""

import logging
from collections.abc import Sequence

from ticdc_spark.config.values import ModeName
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.modes.arrival import ArrivalMode
from ticdc_spark.replicate.modes.base import Mode
from ticdc_spark.replicate.modes.watermark import WatermarkMode
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import ControlEvent, RowsRead

log = logging.getLogger(__name__)
MODES: dict[ModeName, Mode] = {mode.name: mode for mode in (WatermarkMode(), ArrivalMode())}
ENOUGH_ROWS = 100_000
"""So many rows without a watermark are no accident: TiCDC sends one a second."""


def of_job(wanted: ModeName | None, protocol: str, progress: Progress) -> ModeName | None:
    """The mode of a job before it has read anything; ``None``: until messages show it.

    Raises: UsageError for a mode that the protocol does not allow, or other than the job's so far.
    """
    allowed: tuple[ModeName, ...] = ("watermark",)
    watermarks = PROTOCOLS[protocol].traits.watermarks
    if watermarks == "never":
        allowed = ("arrival",)
    elif watermarks == "optional":
        allowed = ("watermark", "arrival")
    if wanted is not None and wanted not in allowed:
        which = f'"{allowed[0]}"'
        raise UsageError(f'[job] mode: found "{wanted}"; with protocol {protocol} allowed: {which}')
    begun: ModeName | None = progress.mode or ("watermark" if progress.applied else None)
    if begun is not None:
        if wanted not in (None, begun):
            raise UsageError(
                f'[job] mode: found "{wanted}", but this job has run in mode "{begun}" so far; begin a new one with '
                f"another `name` and an empty target"
            )
        return begun
    return allowed[0] if len(allowed) == 1 else wanted


def hides(controls: Sequence[ControlEvent]) -> bool:
    """Whether rows of a batch hide their commit_ts."""
    return any(event.summary.hidden for event in controls if isinstance(event, RowsRead))


def refuse_hidden(controls: Sequence[ControlEvent], mode: ModeName | None) -> None:
    """It is not known which watermark such rows belong below. Raises: DecisionNeeded."""
    if mode == "watermark" and hides(controls):
        raise DecisionNeeded(
            "rows without commitTs, which have no place among watermarks (deletes of TiCDC's classic architecture, in "
            'Avro); begin a new job with mode = "arrival" under [job], with another `name` and an empty target'
        )


def acting_mode(mode: ModeName | None, protocol: str) -> Mode:
    """How rows are scanned. While the mode is not known, rows that hide their commit_ts are rows all the same."""
    return MODES[mode or ("arrival" if PROTOCOLS[protocol].traits.hidden_deletes else "watermark")]


def as_read(progress: Progress, *, at_end: bool, waited: bool, hidden: bool = False) -> ModeName | None:
    """The mode that messages show. ``progress`` has taken them in; ``at_end``: a run to an end has read everything;
    ``waited``: there was time enough for a watermark; ``hidden``: rows hide their commit_ts."""
    if hidden:
        return "arrival"
    if any(state.watermark for state in progress.partitions):
        return "watermark"
    rows = sum(rows.rows for rows in progress.pending)
    if not rows and not progress.ddls:
        return None
    return "arrival" if at_end or waited or rows >= ENOUGH_ROWS else None
