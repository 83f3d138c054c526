"""How long Kafka still keeps what a job needs. What waits for a table is in the topic alone."""

import msgspec

from ticdc_spark.config.durations import duration
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.state.progress import Progress

SHARE = 0.25
"""Of a topic's retention: with less than that left, a person should look."""


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """The topic that loses first what the job needs."""

    topic: str
    seconds: float
    """Until the oldest of it may be deleted; below 0: it may be deleted at any time."""
    retention: float
    """The topic's ``retention.ms``, in seconds."""
    table: str = ""
    """The table that it waits for; ``""``: it is not read yet."""

    @property
    def share(self) -> float:
        """What is left of the retention, from 0 to 1."""
        return max(0.0, self.seconds) / self.retention if self.retention else 0.0

    @property
    def is_short(self) -> bool:
        """Whether a person should look."""
        return self.share < SHARE


def headroom_of(progress: Progress, retention: dict[str, float], now: float) -> Headroom | None:
    """How long the oldest message that the job needs is kept; ``None``: no topic has a limit, or nothing is needed.

    ``retention``: seconds by topic. A message is as old as the commit_ts in it, or older than the watermark before it.
    """
    needed = [(rows.topic, rows.min_ts, f"{rows.schema}.{rows.name}") for rows in progress.pending]
    needed += [
        (ddl.topic, ddl.change.commit_ts, f"{ddl.change.schema}.{ddl.change.name}".strip(".")) for ddl in progress.ddls
    ]
    needed += [
        (state.topic, state.watermark, "")
        for state in progress.partitions
        if state.watermark and state.offset < state.end
    ]
    every = [
        Headroom(
            topic=topic,
            seconds=retention[topic] - (tso_time.lag(ts, now) or 0.0),
            retention=retention[topic],
            table=table,
        )
        for topic, ts, table in needed
        if topic in retention
    ]
    return min(every, key=lambda one: (one.seconds, one.topic, one.table), default=None)


def too_short(found: Headroom | None) -> str:
    """One sentence if Kafka may soon delete what the job needs; ``""``: it may not, or that is not known."""
    if found is None or not found.is_short:
        return ""
    needs = f"changes of {found.table} that wait" if found.table else "messages that are not read"
    kept = f"retention.ms is {duration(found.retention)}"
    if found.seconds <= 0:
        return f"Kafka may delete {needs} in topic {found.topic} at any time: {kept}"
    return f"Kafka may delete {needs} in topic {found.topic} in {duration(found.seconds)}: {kept}"
