"""Choose the mode, watermark or arrival, by whether the topics have watermarks.

With watermarks, everything up to a commit_ts is known to be read, and tables equal the source at it. Without them, a
batch is applied once it is read (arrival). A job keeps its mode for its whole life. Rows that hide their commit_ts
(Avro's without TiDB's extension, and its deletes of the classic architecture) cannot be ordered among watermarks.
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
"""After this many rows without a watermark, none will come: TiCDC sends one a second."""


def of_job(wanted: ModeName | None, protocol: str, progress: Progress) -> ModeName | None:
    """The mode of a job before a batch is read; ``None``: messages have to show it.

    Raises: UsageError for a mode that the protocol does not allow, or that differs from the job's mode so far
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
    """Stop at rows that hide their commit_ts in a job with watermarks. Raises: DecisionNeeded"""
    if mode == "watermark" and hides(controls):
        raise DecisionNeeded(
            "rows without commitTs cannot be ordered among watermarks (deletes of TiCDC's classic architecture, in "
            'Avro); begin a new job with mode = "arrival" under [job], with another `name` and an empty target'
        )


def acting_mode(mode: ModeName | None, protocol: str) -> Mode:
    """The mode to scan rows in. While the job's mode is unknown, rows that hide their commit_ts count as rows too."""
    return MODES[mode or ("arrival" if PROTOCOLS[protocol].traits.hidden_deletes else "watermark")]


def as_read(progress: Progress, *, at_end: bool, waited: bool, hidden: bool = False) -> ModeName | None:
    """The mode that messages show. ``progress``: with these messages; ``at_end``: a run to an end has read everything;
    ``waited``: the job has waited long enough for a watermark; ``hidden``: rows hide their commit_ts."""
    if hidden:
        return "arrival"
    if any(state.watermark for state in progress.partitions):
        return "watermark"
    rows = sum(rows.rows for rows in progress.pending)
    if not rows and not progress.ddls:
        return None
    return "arrival" if at_end or waited or rows >= ENOUGH_ROWS else None
