"""How long Kafka still keeps what a job needs. Waiting changes exist only in the topic."""

import msgspec

from ticdc_spark.config.durations import duration
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.state.progress import Progress

SHARE = 0.25
"""If less than this share of a topic's retention is left, a person should look."""


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """The topic that first loses messages that the job needs."""

    topic: str
    seconds: float
    """Time until the oldest needed message may be deleted; below 0: it may be deleted at any time."""
    retention: float
    """The topic's ``retention.ms``, in seconds."""
    table: str = ""
    """The table that needs the message; ``""``: the message is not read yet."""

    @property
    def share(self) -> float:
        """The remaining share of the retention, from 0 to 1."""
        return max(0.0, self.seconds) / self.retention if self.retention else 0.0

    @property
    def is_short(self) -> bool:
        """Whether a person should look."""
        return self.share < SHARE


def headroom_of(progress: Progress, retention: dict[str, float], now: float) -> Headroom | None:
    """How long the oldest message that the job needs is kept; ``None``: no topic has a limit, or nothing is needed.

    ``retention``: seconds by topic. A message counts as old as its commit_ts, or as the watermark before it.
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
    """One sentence if Kafka may soon delete what the job needs; ``""``: it may not, or that is unknown."""
    if found is None or not found.is_short:
        return ""
    needs = f"changes of {found.table} that wait" if found.table else "messages that are not read"
    kept = f"retention.ms is {duration(found.retention)}"
    if found.seconds <= 0:
        return f"Kafka may delete {needs} in topic {found.topic} at any time: {kept}"
    return f"Kafka may delete {needs} in topic {found.topic} in {duration(found.seconds)}: {kept}"
