"""After the state was lost: whether the topics reach back to what the tables had applied. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import Offsets, TableName, TopicPartition
from ticdc_spark.replicate.modes.arrival import batch_ordinal
from ticdc_spark.replicate.modes.base import LandedBatch
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.plan.reach import NOT_YET, first_watermarks, lowest
from ticdc_spark.replicate.state.conditions import without_first_rows
from ticdc_spark.replicate.state.notes import Doubt, DoubtedTable
from ticdc_spark.replicate.state.progress import Progress, TableState
from ticdc_spark.spark.decode.control import ControlEvent, DdlRead, RowsRead


def check_unproven(progress: Progress, landed: LandedBatch) -> Progress:
    """After the state was lost, what is left of a partition must reach back to what had been applied.

    Raises: SourceChanged
    """
    if progress.doubt is not None:
        progress = msgspec.structs.replace(progress, doubt=_with_read(progress, landed.controls))
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


def doubt_of(tables: Iterable[tuple[TableState, int]], beginning: Offsets) -> Doubt:
    """``tables``: each with the commit_ts that it has everything up to, unless somebody replaced it by an older copy.

    Returns: the tables of a lake whose state was lost that count as equal to the source: the topic of one may have been
    created anew, while those of the others reach back."""
    found = ((table, reached) for table, reached in tables if table.clean and not table.dropped)
    return Doubt(
        tables=tuple(
            DoubtedTable(schema=table.schema, name=table.name, reached=max(reached, table.mark[0]))
            for table, reached in found
        ),
        cut=any(beginning.values()),
    )


def doubted_tables(progress: Progress) -> frozenset[TableName]:
    """The tables that may still turn out not to be equal to the source."""
    return frozenset((one.schema, one.name) for one in (progress.doubt.tables if progress.doubt else ()))


def unread_topics(table: TableState, beginning: Offsets, generation: int) -> tuple[str, ...]:
    """The topics that a table came from and that are not read any more, by its stamp: what comes of it may stand there,
    so that no watermark of the others bounds it. ``generation``: that of the job now that its state was lost."""
    if table.dropped or is_arrival(table, generation):
        return ()  # Each row says how old it is, and no watermark bounds a table.
    read = {topic for topic, _ in beginning}
    return tuple(topic for topic in table.topics if topic not in read)


def is_arrival(table: TableState, generation: int) -> bool:
    """Whether a table was written in arrival mode, in which marks are no commit_ts."""
    return table.mark[0] < batch_ordinal(generation + 1, 0)


def _with_read(progress: Progress, controls: Sequence[ControlEvent]) -> Doubt | None:
    """What is left to doubt after messages: not the tables of which one was read that they had applied."""
    doubt = progress.doubt
    assert doubt is not None, "there is something to doubt"
    topics = dict(doubt.topics)
    for (topic, _), ts in lowest(controls, progress.partitions).items():
        # Of its partitions one is enough, as they are deleted together; another may have been added since.
        topics[topic] = min(ts, topics.get(topic, ts))
    firsts = first_watermarks(controls, progress.partitions)
    own: dict[TableName, int] = {}
    for event in controls:
        first = firsts.get((event.topic, event.partition), NOT_YET)
        if isinstance(event, RowsRead):
            ts, names = (0 if event.summary.replays else event.summary.min_ts), {(event.schema, event.table)}
            is_early = event.summary.old_at < first or first == NOT_YET
        elif isinstance(event, DdlRead):
            ts, names, is_early = event.change.commit_ts, tables_of(event.change), event.offset < first
        else:
            continue
        # What is sent again behind the first watermark counts as a replay: it shows no more than that does.
        shown = ts if is_early else max(ts, topics.get(event.topic, ts) - 1)
        for name in names:
            own[name] = min(shown, own.get(name, shown))
    left = tuple(one for one in doubt.tables if own.get((one.schema, one.name), one.reached + 1) > one.reached)
    return msgspec.structs.replace(doubt, tables=left, topics=tuple(sorted(topics.items()))) if left else None


def is_doubt_over(progress: Progress) -> bool:
    """Whether every partition was read again beyond ``replay_below``."""
    return all(state.watermark > progress.replay_below or state.idle for state in progress.partitions)


def mark_doubted(states: Mapping[TableName, TableState], progress: Progress) -> dict[TableName, TableState]:
    """Tables after a batch: unverified where no message of theirs was read that they had applied, and a topic of theirs
    does not reach back to it. Where no topic of theirs is known, any does for it, and theirs may be gone: unless first
    messages were removed, some of theirs would have been there. ``progress``: with what the batch read."""
    marked, doubt = dict(states), progress.doubt
    if doubt is None or not is_doubt_over(progress):
        return marked
    lows = dict(doubt.topics)
    every = {state.topic for state in progress.partitions}
    for one in doubt.tables:
        state = marked.get((one.schema, one.name))
        if state is None or not state.clean or state.emptied > one.reached:
            continue
        later = any(lows.get(topic, one.reached + 2) > one.reached + 1 for topic in state.topics or every)
        if later or not (state.topics or doubt.cut):
            marked[one.schema, one.name] = without_first_rows(state)
    return marked


def _oldest(place: TopicPartition, landed: LandedBatch) -> list[int]:
    """What shows how far back a partition reaches, in a batch that read its first messages: its watermarks, and what
    comes before the first of them. What is sent again behind it counts as a replay."""
    here = [event for event in landed.controls if (event.topic, event.partition) == place]
    first = first_watermarks(here, ()).get(place, NOT_YET)
    oldest = list(lowest(here, ()).values())
    for event in here:
        if isinstance(event, RowsRead) and event.summary.old_at < first:
            oldest.append(0)
        elif isinstance(event, RowsRead) and first == NOT_YET:
            oldest.append(event.summary.min_ts)
    return oldest
