"""After the state was lost: whether the topics reach back to what the tables had applied. Pure."""

import msgspec

from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import TopicPartition
from ticdc_spark.replicate.modes.arrival import batch_ordinal
from ticdc_spark.replicate.modes.base import LandedBatch
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.spark.decode.control import DdlRead, RowsRead, WatermarkRead


def check_unproven(progress: Progress, landed: LandedBatch) -> Progress:
    """After the state was lost, what is left of a partition must reach back to what had been applied.

    Raises: SourceChanged
    """
    if not progress.unproven and not progress.whole:
        return progress
    left = []
    whole = _whole(progress, landed)
    for topic, partition in progress.unproven:
        oldest = _oldest((topic, partition), landed)
        if any(ts <= progress.replay_below + 1 for ts in oldest):
            continue
        if oldest:
            raise SourceChanged(
                f"topic {topic}, partition {partition}: its first messages were removed, and what is left begins at "
                f"{min(oldest)}, after {progress.replay_below}, up to which the tables had applied everything before "
                "the state was lost: rows between them may be missing. Begin a new job with a new lake, or restore the "
                "state folder"
            )
        left.append((topic, partition))
    return msgspec.structs.replace(progress, unproven=tuple(left), whole=whole)


def _whole(progress: Progress, landed: LandedBatch) -> tuple[TopicPartition, ...]:
    """The partitions that begin at offset 0 and have not been looked at, until one of them reaches back.

    Raises: SourceChanged where none does: they are not those that the tables came from
    """
    reached = max(progress.replay_below, max((table.mark[0] for table in progress.tables), default=0))
    if reached < batch_ordinal(progress.generation + 1, 0):
        return ()  # In arrival mode marks are no commit_ts.
    found = {place: _oldest(place, landed) for place in progress.whole}
    if any(ts <= reached + 1 for oldest in found.values() for ts in oldest):
        return ()
    later = [ts for oldest in found.values() for ts in oldest]
    left = tuple(place for place, oldest in found.items() if not oldest)
    if not later or any(landed.latest_offsets.get(place, 0) > 0 for place in left):
        return left
    raise SourceChanged(
        f"no topic reaches back to {reached}, which a table had applied before the state was lost: what is there "
        f"begins at {min(later)}. The topics were created again, and changes between may be missing. Create the "
        "changefeed again with a --start-ts at or below that, into empty topics; or restore the state folder; or begin "
        "a new job with a new lake"
    )


def _oldest(place: TopicPartition, landed: LandedBatch) -> list[int]:
    """What shows how far back a partition reaches, in a batch that read its first messages."""
    here = [event for event in landed.controls if (event.topic, event.partition) == place]
    oldest = [event.commit_ts for event in here if isinstance(event, WatermarkRead)]
    oldest += [event.change.commit_ts for event in here if isinstance(event, DdlRead)]
    for event in here:
        if isinstance(event, RowsRead):
            oldest.append(0 if event.summary.replays else event.summary.min_ts)
    return oldest


__all__ = ["check_unproven"]
