"""Barrier or arrival: whether a topic has watermarks.

With watermarks everything up to a commit_ts is known to be there, and tables equal the source at it. Without, a batch
is applied when it has been read (arrival). A job is one or the other for its whole life. Rows that hide their commit_ts
(Avro's without TiDB's extension, and its deletes of the classic architecture) have no place among watermarks.
"""

import logging
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import Control
from ticdc_spark.spark.decode.envelopes import Summary

log = logging.getLogger(__name__)
Mode: TypeAlias = Literal["barrier", "arrival"]
ENOUGH_ROWS = 100_000
"""So many rows without a watermark are no accident: TiCDC sends one a second."""


def of_job(wanted: Mode | None, protocol: str, progress: Progress) -> Mode | None:
    """The mode of a job before it has read anything; ``None``: what it reads will tell.

    Raises: UsageError for a mode that the protocol does not allow, or other than the job's so far.
    """
    allowed: tuple[Mode, ...] = ("barrier",)
    watermarks = PROTOCOLS[protocol].traits.watermarks
    if watermarks == "never":
        allowed = ("arrival",)
    elif watermarks == "optional":
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


def hides(controls: Sequence[Control]) -> bool:
    """Whether rows of a batch do not tell their commit_ts."""
    summaries = (event.control or "" for event in controls if event.kind == "summary")
    return any(msgspec.json.decode(text, type=Summary).hidden for text in summaries)


def refuse_hidden(controls: Sequence[Control], mode: Mode | None) -> None:
    """Nothing tells which watermark such rows belong below. Raises: DecisionNeeded."""
    if mode == "barrier" and hides(controls):
        raise DecisionNeeded(
            "rows without commitTs, which have no place among watermarks (deletes of TiCDC's classic architecture, in "
            'Avro); begin a new job with mode = "arrival" under [job], another state and an empty lake'
        )


def without_ddl(progress: Progress, controls: Sequence[Control], protocol: str) -> tuple[Progress, Sequence[Control]]:
    """In arrival mode: no DDL where deletes hide their commit_ts, for nothing tells which of them it follows."""
    if not PROTOCOLS[protocol].traits.hidden_deletes:
        return progress, controls
    left = [event for event in controls if event.kind != "ddl"]
    if progress.ddls or len(left) < len(controls):
        log.warning("DDL is left out: deletes of %s do not tell whether they come before it", protocol)
    return msgspec.structs.replace(progress, ddls=()), left


def as_read(progress: Progress, *, at_end: bool, waited: bool, hidden: bool = False) -> Mode | None:
    """The mode that messages tell. ``progress`` has taken them in; ``at_end``: a run to an end has read everything;
    ``waited``: there was time enough for a watermark; ``hidden``: rows do not tell their commit_ts."""
    if hidden:
        return "arrival"
    if any(state.watermark for state in progress.partitions):
        return "barrier"
    rows = sum(rows.rows for rows in progress.pending)
    if not rows and not progress.ddls:
        return None
    return "arrival" if at_end or waited or rows >= ENOUGH_ROWS else None
