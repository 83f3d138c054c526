"""The protocol of a source that the job file does not name: told by its first messages."""

import threading

from ticdc_spark.config.job import Job
from ticdc_spark.errors import UsageError
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.streams.detect import ENOUGH, detect

_LOOKED_AT = 1000
_BYTES = 16 << 20


def detected(job: Job, source: Source, stop: threading.Event, *, bounded: bool) -> str | None:
    """The protocol of the source's first messages. Waits for some where the run has no end; ``None``: stopped first.

    Raises: UsageError if they do not tell it, or are of several protocols; SourceFault.
    """
    while not stop.is_set():
        starts, ends = source.beginning(), source.ends()
        if bounded or any(end > starts.get(place, 0) for place, end in ends.items()):
            cut = source.cap(starts, ends, _LOOKED_AT, _BYTES)
            pairs = source.first_messages(starts, cut, _LOOKED_AT)
            try:
                return _of(pairs)
            except UsageError as error:
                raise UsageError(f"{job.file}: [source] protocol: {error}") from error
        stop.wait(job.poll_interval)
    return None


def _of(pairs: list[tuple[bytes | None, bytes | None]]) -> str:
    try:
        return detect(pairs[:ENOUGH])
    except UsageError:
        # One that is no message may stand before those that are.
        return detect(pairs)


__all__ = ["detected"]
