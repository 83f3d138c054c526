"""Detect the protocol of a source from its first messages, if the job file does not name it or names another one."""

import threading
from collections.abc import Sequence

from ticdc_spark.config.job import Job
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Offsets
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import ControlEvent, MessageRejected, MessageSkipped
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.streams.detect import ENOUGH, describe_other, detect

_LOOKED_AT = 1000
_BYTES = 16 << 20


def detected(job: Job, source: Source, stop: threading.Event, *, bounded: bool) -> str | None:
    """The protocol of the source's first messages. An endless run waits for messages. ``None``: it was stopped first.

    Raises: UsageError when the messages do not show it, or are of several protocols; SourceFault
    """
    while not stop.is_set():
        starts, end_offsets = source.beginning_offsets(), source.end_offsets()
        if bounded or any(end > starts.get(place, 0) for place, end in end_offsets.items()):
            cut = source.cap(starts, end_offsets, _LOOKED_AT, _BYTES)
            pairs = source.first_messages(starts, cut, _LOOKED_AT)
            return _of(pairs, f"{job.file}: [source] protocol")
        stop.wait(job.poll_interval)
    return None


def refuse_other(
    job: Job,
    source: Source,
    progress: Progress,
    starts: Offsets,
    end_offsets: Offsets,
    controls: Sequence[ControlEvent],
    protocol: str,
) -> None:
    """Check whether a source has messages of another protocol, if no message could be read so far.

    ``controls``: the events that a batch scanned from ``starts`` to ``end_offsets``.
    Raises: UsageError when it has such messages; SourceFault
    """
    anything = progress.tables or progress.pending or progress.ddls or progress.schemas
    if anything or any(state.watermark for state in progress.partitions):
        return
    read = [event for event in controls if not isinstance(event, MessageSkipped)]
    rejected = [event for event in read if isinstance(event, MessageRejected)]
    if not rejected or len(rejected) < len(read):
        return
    looks_like = describe_other(source.first_messages(starts, end_offsets, _LOOKED_AT), protocol)
    if looks_like is None:
        return
    first = min(rejected, key=lambda event: event.offset)
    by = "[source] protocol" if job.source.protocol else "that of earlier runs"
    message = (
        f"{job.file}: none of the first {len(read)} messages can be read as {protocol}: {looks_like}, but {by} is "
        f"{protocol}. Nothing was applied or skipped. The first reason: {first.reason}"
    )
    raise UsageError(message)


def _of(pairs: list[tuple[bytes | None, bytes | None]], option: str) -> str:
    try:
        return detect(pairs[:ENOUGH], option)
    except UsageError:
        # The first ones may not be messages of a changefeed.
        return detect(pairs, option)
