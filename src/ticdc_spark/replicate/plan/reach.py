"""How far back partitions reach whose first messages were not read: retention had removed them, or the job began after
them. Pure.

A table that begins empty, by its CREATE or a TRUNCATE, equals the source only if none of its rows can be among these
messages. Each such partition must have a watermark or a DDL up to that moment among the messages that were read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ticdc_spark.model import Offsets, TableName
from ticdc_spark.replicate.state.progress import PartitionState, Progress
from ticdc_spark.replicate.state.table import TableState, lose_first_rows
from ticdc_spark.spark.decode.control import ControlEvent, DdlRead, WatermarkRead

Place = tuple[str, int]
NOT_YET = 2**63 - 1
"""How far a partition reaches back if nothing of it was read yet. 0: it was read from its beginning."""


def partitions_at(offsets: Offsets) -> tuple[PartitionState, ...]:
    """Partitions that are read from these offsets on."""
    return tuple(
        PartitionState(topic=topic, partition=partition, offset=offset, reaches=NOT_YET if offset > 0 else 0)
        for (topic, partition), offset in sorted(offsets.items())
    )


def with_new_partitions(progress: Progress, starts: Offsets, end_offsets: Offsets) -> Progress:
    """Note the partitions that a batch begins to read and whose first messages are gone: they do not begin at offset
    0. A topic that was created again while it was not read has another id (``plan.source_check``)."""
    known = {(state.topic, state.partition) for state in progress.partitions}
    new = [
        PartitionState(topic=place[0], partition=place[1], offset=starts.get(place, 0), reaches=NOT_YET)
        for place in sorted(end_offsets)
        if place not in known and starts.get(place, 0) > 0
    ]
    return msgspec.structs.replace(progress, partitions=(*progress.partitions, *new)) if new else progress


def reached(events: Sequence[ControlEvent], state: PartitionState) -> int:
    """How far back a partition reaches whose first messages were not read, after a batch: to its first watermark, or to
    a DDL before that. ``events``: of the partition, in order; ``state``: as it was before.

    What comes later shows nothing: it may be sent again, and count as a replay in tables that have passed it. Nor do
    rows: others may have overtaken them.
    """
    shown = [state.reaches]
    for event in () if state.watermark else events:
        if isinstance(event, DdlRead):
            shown.append(event.change.commit_ts)
        elif isinstance(event, WatermarkRead):
            shown.append(event.commit_ts)
            break
    return min(shown)


def by_place(controls: Iterable[ControlEvent]) -> dict[Place, list[ControlEvent]]:
    """Control events by their partition."""
    found: dict[Place, list[ControlEvent]] = {}
    for event in controls:
        found.setdefault((event.topic, event.partition), []).append(event)
    return found


def with_end_of_gone(
    states: Mapping[Place, PartitionState], latest_offsets: Offsets, newest: int
) -> dict[Place, PartitionState]:
    """Partitions after a batch; once all are read to their ends, what is gone of one is not newer than what was read.
    ``newest``: the highest commit_ts of that."""
    if not any(state.reaches == NOT_YET and not state.gone_until for state in states.values()):
        return dict(states)
    if any(state.offset < latest_offsets.get(place, state.offset) for place, state in states.items()):
        return dict(states)
    return {
        place: msgspec.structs.replace(state, gone_until=newest)
        if state.reaches == NOT_YET and not state.gone_until
        else state
        for place, state in states.items()
    }


def without_beginning(
    before: Progress, states: Mapping[TableName, TableState], partitions: Sequence[PartitionState]
) -> dict[TableName, TableState]:
    """Tables after a batch. If a table may lack rows from before the first messages, its state is that of a table which
    began with these. ``before``: the progress before the batch; ``partitions``: after it."""
    found, cut = dict(states), [state for state in partitions if state.reaches]
    if not cut:
        return found
    known = before.states()
    old = {(state.topic, state.partition) for state in before.partitions}
    new = [state for state in cut if (state.topic, state.partition) not in old]
    for name, state in states.items():
        if not state.is_clean:
            continue
        if _is_same(known.get(name), state):
            lacks = any(one.topic in state.topics and one.reaches > state.emptied + 1 for one in new)
        else:
            renamed = bool(state.was) and _is_same(known.get(state.was[-1]), state)
            since = state.ddl_ts if renamed else state.emptied
            others = {topic for at, other in states.items() if at != name for topic in other.topics}
            lacks = any(_may_lack(state, since, one, others if state.was else None) for one in cut)
        if lacks:
            found[name] = lose_first_rows(state)
    return found


def _is_same(was: TableState | None, state: TableState) -> bool:
    """Whether a table was known to equal the source before, under this name or another."""
    return was is not None and was.is_clean and was.emptied == state.emptied


def _may_lack(state: TableState, since: int, one: PartitionState, others: Collection[str] | None) -> bool:
    """Whether rows of a table from after ``since`` may be gone with a partition's first messages. ``others``: where the
    table was renamed, so that its own topic may not be known, the topics of the other tables."""
    if one.reaches <= since + 1:
        return False  # A watermark comes before all that is not smaller.
    # Its rows may have gone to any topic; one in which nothing at all is left may be of long ago.
    if one.reaches != NOT_YET or not state.topics or one.topic in state.topics:
        return True
    return others is not None and one.topic not in others and not 0 < one.gone_until <= since
