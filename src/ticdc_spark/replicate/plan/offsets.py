"""Which offsets a batch reads, and whether there is work without a new message. No Spark."""

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.model import Offsets
from ticdc_spark.replicate.state.progress import Plan, Progress
from ticdc_spark.spark.sources.base import Source

WAITING_BATCHES = 2
"""If more rows than this many batches wait, partitions that are ahead are not read further."""


def first_offsets(source: Source, progress: Progress, end_offsets: Offsets) -> Offsets:
    """The first offset to read, for each partition of ``end_offsets``."""
    known = known_offsets(progress)
    if all(place in known for place in end_offsets):
        return known
    return source.beginning_offsets() | known


def known_offsets(progress: Progress) -> Offsets:
    """The next offset to read, for each partition that the progress knows."""
    return {(state.topic, state.partition): state.offset for state in progress.partitions}


def starts_of_new(progress: Progress, starts: Offsets, end_offsets: Offsets) -> tuple[tuple[str, int, int], ...]:
    """(topic, partition, offset) where new partitions begin, which the progress does not know yet."""
    known = known_offsets(progress)
    new = [(*place, start) for place, start in starts.items() if place in end_offsets and place not in known]
    return tuple(sorted(new))


def of_plan(latest_offsets: Offsets, progress: Progress, end_offsets: Offsets) -> Offsets:
    """``latest_offsets`` without partitions that appeared after a plan with ``end_offsets`` was made."""
    known = known_offsets(progress)
    return {place: end for place, end in latest_offsets.items() if place in end_offsets or place in known}


class Reach(msgspec.Struct, frozen=True):
    """How far a batch reads."""

    end_offsets: Offsets
    """Exclusive."""
    full: bool
    """The topics had more than one batch takes."""


def reach_of(plan: Plan) -> Reach:
    """How far an interrupted batch had read."""
    return Reach({(topic, partition): end for topic, partition, end in plan.end_offsets}, plan.full)


def ends_now(source: Source, *, ddl_first: bool) -> Offsets:
    """Where the topics end now. ``ddl_first``: partitions with DDL are listed last, so they have every DDL that is
    before a row of the others."""
    end_offsets = source.end_offsets()
    if not ddl_first:
        return end_offsets
    return end_offsets | {place: end for place, end in source.end_offsets().items() if _has_ddl(place)}


def is_read(progress: Progress, end_offsets: Offsets) -> bool:
    """Whether the job has read to some offsets."""
    known = known_offsets(progress)
    return all(known.get(place, 0) >= end for place, end in end_offsets.items())


def choose_offsets(
    job: Job, source: Source, progress: Progress, targets: Offsets | None, *, ddl_first: bool = False
) -> Reach:
    """How far a new batch reads: to ``targets`` or to where the topics end now, cut to the size of a batch.

    ``ddl_first``: DDL is in the first partition of a topic only, and no watermark shows which rows of other partitions
    are behind it. So the others are read once the first ones are read to ``targets`` (``ends_now``).
    """
    end_offsets = source.end_offsets() if targets is None else targets
    starts = first_offsets(source, progress, end_offsets)
    end_offsets = _not_far_ahead(progress, end_offsets, WAITING_BATCHES * job.batch_rows)
    first = {place: end for place, end in end_offsets.items() if ddl_first and _has_ddl(place)}
    cut = source.cap(starts, first, job.batch_rows, job.batch_bytes) if first else {}
    room = job.batch_rows - sum(end - starts.get(place, 0) for place, end in cut.items())
    rest = {place: end for place, end in end_offsets.items() if place not in first}
    if cut == first and room > 0:
        cut |= source.cap(starts, rest, room, job.batch_bytes)
    else:
        cut |= {place: starts.get(place, 0) for place in rest}
    return Reach(cut, any(cut[place] < end for place, end in end_offsets.items()))


def _has_ddl(place: tuple[str, int]) -> bool:
    _, partition = place
    return partition == 0


def _not_far_ahead(progress: Progress, end_offsets: Offsets, most: int) -> Offsets:
    """Where to read to. If more than ``most`` rows wait, only partitions with the lowest watermark are read: rows of
    the other partitions could not be applied before theirs."""
    if sum(rows.waiting for rows in progress.pending) <= most:
        return end_offsets
    unread = [one for one in progress.partitions if end_offsets.get((one.topic, one.partition), 0) > one.offset]
    lowest = min((one.watermark for one in progress.partitions if not one.idle), default=0)
    slow = {(one.topic, one.partition) for one in unread if one.watermark <= lowest}
    if not slow:
        return end_offsets
    ahead = {(one.topic, one.partition): one.offset for one in progress.partitions}
    return {place: end if place in slow else ahead.get(place, end) for place, end in end_offsets.items()}


def lagging(source: Source, progress: Progress, targets: Offsets) -> Offsets | None:
    """In a run to an end: where to read to next; ``None``: the run is over.

    A partition is read further if its watermark is below the highest and messages came while others were read.
    """
    highest = max((state.watermark for state in progress.partitions), default=0)
    latest_offsets = source.end_offsets()
    more = {
        (state.topic, state.partition): latest_offsets[state.topic, state.partition]
        for state in progress.partitions
        if state.watermark < highest and latest_offsets.get((state.topic, state.partition), 0) > state.offset
    }
    more |= {place: end for place, end in latest_offsets.items() if place not in targets and end > 0}
    more |= latest_offsets if source.has_more else {}
    known = known_offsets(progress)
    more = {place: end for place, end in more.items() if end > known.get(place, 0)}
    return {**targets, **more} if more else None


def may_advance(job: Job, progress: Progress, *, bounded: bool, mode_known: bool, now: float) -> bool:
    """Whether time alone moves the resolved ts: a partition becomes idle, or the wait for a schema is over."""
    if progress.schema_wait_since and now - progress.schema_wait_since >= job.schema_timeout:
        return True
    if not mode_known and progress.pending and now - progress.hold.since >= job.idle_partition_timeout:
        return True
    timeout = 0.0 if bounded else job.idle_partition_timeout
    highest = max((state.watermark for state in progress.partitions), default=0)
    behind = [state for state in progress.partitions if state.watermark < highest and not state.idle]
    # A partition that was not at its end after the last batch (behind_since 0) is there now: nothing is left to read.
    return any(not state.behind_since or now - state.behind_since >= timeout for state in behind)
