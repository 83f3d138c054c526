"""Tables that are first seen behind the others: how far each may go by its own partitions. Pure.

The job's resolved ts does not bound them: it had passed them before their first message came. Their topics' watermarks
do, and in a partition that had passed such messages, too, only a watermark higher than that.
"""

from collections.abc import Iterable, Mapping, Sequence

from ticdc_spark.replicate.plan.holds import Bounds
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.state.progress import CatchUp, PartitionState, Progress
from ticdc_spark.sinks.base import TableName
from ticdc_spark.spark.decode.control import ControlEvent, DdlRead, RowsRead

Place = tuple[str, int]


def catching_up(
    progress: Progress, controls: Sequence[ControlEvent], partitions: Iterable[PartitionState], *, bounded: bool
) -> tuple[CatchUp, ...]:
    """The tables that are behind after a batch. ``progress``: before it; ``partitions``: after it. ``bounded``: a run
    to an end, where a partition that is read to its end gets no newer watermark."""
    before = {(state.topic, state.partition): state.watermark for state in progress.partitions}
    places = [(state.topic, state.partition) for state in partitions]
    known = {(table.schema, table.name) for table in progress.tables}
    behind: dict[TableName, dict[Place, int]] = {
        (one.schema, one.name): {(topic, at): need for topic, at, need in one.needs} for one in progress.catching_up
    }
    for event in controls:
        for name, ts in _stamped(event):
            late = progress.replay_below < ts <= progress.applied
            if name not in behind and (name in known or not late):
                continue
            needs = behind.setdefault(name, {})
            needs |= {place: needs.get(place, 0) for place in places if place[0] == event.topic}
            here = (event.topic, event.partition)
            if ts < before.get(here, 0):
                needs[here] = max(needs.get(here, 0), before[here])
    found = tuple(
        CatchUp(schema=schema, name=name, needs=tuple(sorted((*place, need) for place, need in needs.items())))
        for (schema, name), needs in behind.items()
    )
    reached = {(state.topic, state.partition): state for state in partitions}
    return tuple(one for one in found if _bound(one, reached, bounded=bounded) < progress.applied)


def bounds_behind(progress: Progress, *, bounded: bool) -> Bounds:
    """How far the tables that catch up may go."""
    reached = {(state.topic, state.partition): state for state in progress.partitions}
    return {(one.schema, one.name): _bound(one, reached, bounded=bounded) for one in progress.catching_up}


def _bound(one: CatchUp, reached: Mapping[Place, PartitionState], *, bounded: bool) -> int:
    highest = max((state.watermark for state in reached.values()), default=0)
    marks = []
    for topic, partition, need in one.needs:
        state = reached.get((topic, partition))
        if state is None:
            continue
        passed = highest if state.idle and (bounded or not need) else state.watermark
        marks.append(passed if passed > need or (state.idle and bounded) else 0)
    return max(0, min(marks, default=0) - 1)


def _stamped(event: ControlEvent) -> list[tuple[TableName, int]]:
    """The tables that an event is about, with the lowest commit_ts of what it brings."""
    if isinstance(event, RowsRead) and event.summary.rows:
        return [((event.schema, event.table), event.summary.min_ts)]
    if isinstance(event, DdlRead):
        return [(name, event.change.commit_ts) for name in tables_of(event.change)]
    return []


__all__ = ["bounds_behind", "catching_up"]
