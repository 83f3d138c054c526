"""The messages that ``skip-messages`` skips. Pure, except for the log."""

import logging
from collections.abc import Sequence

from ticdc_spark.config.job import Job
from ticdc_spark.replicate.plan.offsets import known_offsets
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import ControlEvent, MessageSkipped

log = logging.getLogger(__name__)
STAGE = "skip-messages"
"""Stage of the dead letters."""


def skipped_of(controls: Sequence[ControlEvent]) -> tuple[list[ControlEvent], list[MessageSkipped]]:
    """The events to process, and the skipped messages."""
    left = [event for event in controls if isinstance(event, MessageSkipped)]
    return [event for event in controls if not isinstance(event, MessageSkipped)] if left else list(controls), left


def left_out_places(progress: Progress, skipped: Sequence[MessageSkipped]) -> tuple[tuple[str, int, int], ...]:
    """``Progress.left_out`` after a batch, which decides about the messages that it reads. ``progress``: before it."""
    read = known_offsets(progress)
    before = {at for at in progress.left_out if at[2] < read.get(at[:2], 0)}
    return tuple(sorted(before | {(event.topic, event.partition, event.offset) for event in skipped}))


def warn_of_old(job: Job, progress: Progress) -> None:
    """Log which skipped places were read before: for these, the key only affects a row that cannot be read."""
    offsets = {(state.topic, state.partition): state.offset for state in progress.partitions}
    for place in job.skip_messages:
        if place.offset < offsets.get((place.topic, place.partition), 0):
            log.info("skip-messages %s was read before: it only affects a row that cannot be read", place)
