"""How far a job is behind, who causes it, and how long it takes to catch up."""

import msgspec

from ticdc_spark.config.durations import duration
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.state.progress import PartitionState, Progress, Status


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """Ages of the resolved ts in seconds; ``None``: unknown."""

    whole: float | None
    upstream: float | None
    """The part of TiCDC and Kafka: the age of the slowest partition's newest watermark, when the job had last read the
    topics to their end. Unknown before that, and while messages are unread."""
    own: float | None
    """The job's part: the rest, also while it waits for ``commit-interval`` or does not run."""


def slowest_partition(progress: Progress) -> PartitionState | None:
    """The partition with the lowest watermark among partitions that the resolved ts waits for; ``None``: there are no
    watermarks."""
    waited_for = [one for one in progress.partitions if not one.idle]
    slowest = min(waited_for, key=lambda one: one.watermark, default=None)
    return None if slowest is None or not any(one.watermark for one in waited_for) else slowest


def lag_of(progress: Progress, beat: Status | None, now: float) -> Lag:
    """Split the lag of a job, by the watermarks it has received and the time when it had last read everything."""
    whole, slowest = tso_time.lag(progress.applied, now), slowest_partition(progress)
    if whole is None or slowest is None or beat is None or beat.left or beat.read_at is None:
        return Lag(whole=whole, upstream=None, own=None)
    upstream = min(whole, tso_time.lag(slowest.watermark, beat.read_at) or 0.0)
    return Lag(whole=whole, upstream=upstream, own=whole - upstream)


def seconds_left(beat: Status | None) -> float | None:
    """Seconds to read the unread messages at the rate of the last batches; ``None``: there are none, or the rate is
    unknown."""
    if beat is None or not beat.left or not beat.rate:
        return None
    return beat.left / beat.rate


def too_late(most: float | None, progress: Progress, beat: Status | None, now: float) -> str:
    """One sentence if the resolved ts is older than ``max-lag`` (``most`` seconds); otherwise ``""``."""
    lag = lag_of(progress, beat, now)
    behind = lag.whole
    if most is None or beat is None:
        return ""
    if behind is None:
        waited = now - beat.started_at
        return f"no watermark has arrived for {duration(waited)} (max-lag)" if waited > most else ""
    if behind <= most:
        return ""
    said = f"it is {duration(behind)} behind, and max-lag is {duration(most)}"
    if beat.left:
        return f"{said}: {beat.left:,} messages are to be read"
    slowest = slowest_partition(progress)
    if lag.upstream is None or slowest is None or lag.upstream <= most:
        return said
    return f"{said}: no newer watermark comes from topic {slowest.topic}, partition {slowest.partition}"
