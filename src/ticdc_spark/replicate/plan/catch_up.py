"""Tables that are behind when they are first seen: their own partitions decide how far each may go. Pure.

The job's resolved ts does not bound them, since it was past their first message when that came. The watermarks of
their topics do. If a partition's watermark was past such a message too, only a higher watermark bounds them.
"""

from collections.abc import Callable, Mapping, Sequence

from ticdc_spark.model import SchemaChange, TableName
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.replicate.plan.ddl_actions import DropDatabase, action
from ticdc_spark.replicate.plan.holds import Bounds
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.state.notes import CatchUp
from ticdc_spark.replicate.state.progress import PartitionState, PendingRows, Progress, QueuedDdl
from ticdc_spark.spark.decode.control import ControlEvent, DdlRead, RowsRead, WatermarkRead

Place = tuple[str, int]


def catching_up(
    progress: Progress,
    controls: Sequence[ControlEvent],
    partitions: Sequence[PartitionState],
    resolved: int,
    blocked: Mapping[TableName, int] | None = None,
    *,
    ended: bool,
) -> tuple[CatchUp, ...]:
    """The tables that are behind after a batch.

    ``progress``: before the batch; ``controls``: by partition, in the order of their offsets; ``partitions``: after the
    batch; ``resolved``: how far the other tables go; ``blocked``: tables with rows or DDLs that need an unknown schema,
    each with the commit_ts of the first; ``ended``: a run to an end has read everything, so no more messages come in
    the topics that are read.
    """
    passed, events = _passed(progress, controls)
    places = [(state.topic, state.partition) for state in partitions]
    applied = {table.full_name: table.applied for table in progress.tables}
    behind: dict[TableName, dict[Place, int]] = {
        one.full_name: {(topic, at): need for topic, at, need in one.needs} for one in progress.catching_up
    }
    for name, ts, here, need in events:
        need = max(need, passed.get(here, 0))
        if name not in behind and (name in applied or not (ts <= progress.applied or ts < need)):
            continue
        needs = behind.setdefault(name, {})
        needs |= {place: needs.get(place, 0) for place in places if place[0] == here[0]}
        if ts < need:
            needs[here] = max(needs.get(here, 0), need)
    topics = {topic for topic, _ in places}
    lacking = {one.full_name: one.lacks for one in progress.catching_up if one.lacks > applied.get(one.full_name, 0)}
    went_on = {name for name, ts in _gone_on(progress, applied, controls).items() if ts <= lacking.get(name, ts)}
    lacking = {name: ts for name, ts in lacking.items() if name not in went_on}
    for name, needs in behind.items():
        own = {topic for topic, _ in needs}
        needs |= {place: needs.get(place, 0) for place in places if place[0] in own}
        if name in went_on:
            # Its messages now come in these topics, so a topic from a former name no longer matters.
            behind[name] = {place: need for place, need in needs.items() if place[0] in topics}
    if ended:
        behind = {name: needs for name, needs in behind.items() if any(topic not in topics for topic, _ in needs)}
    until = {name: ts - 1 for name, ts in (blocked or {}).items()}
    behind = {**{name: {} for name in until}, **behind}
    found = tuple(
        CatchUp(
            schema=name[0],
            name=name[1],
            needs=tuple(sorted((*place, need) for place, need in needs.items())),
            until=until.get(name),
            lacks=lacking.get(name, 0),
        )
        for name, needs in behind.items()
    )
    reached = {(state.topic, state.partition): state for state in partitions}
    # A table is behind even while nothing is resolved: an idle partition may let the other tables advance at once.
    furthest = max(progress.applied, resolved, 1)
    return tuple(one for one in found if _is_left_out(one, reached) or _bound(one, reached) < furthest)


def _is_left_out(one: CatchUp, reached: Mapping[Place, PartitionState]) -> bool:
    """Whether a topic of a table is not read. The table waits for that topic, however far the other tables go."""
    return any((topic, partition) not in reached for topic, partition, _ in one.needs)


def _gone_on(
    progress: Progress, applied: Mapping[TableName, int], controls: Sequence[ControlEvent]
) -> dict[TableName, int]:
    """The tables that have rows, or a DDL of their own, newer than what they have applied, and the commit_ts of the
    first of them."""
    found = [((rows.schema, rows.name), rows.min_ts) for rows in progress.pending]
    for event in controls:
        if isinstance(event, RowsRead) and event.summary.rows:
            found.append(((event.schema, event.table), event.summary.min_ts))
        elif isinstance(event, DdlRead):
            found.append(((event.change.schema, event.change.name), event.change.commit_ts))
    first: dict[TableName, int] = {}
    for name, ts in found:
        if ts > applied.get(name, 0):
            first[name] = min(ts, first.get(name, ts))
    return first


def _passed(
    progress: Progress, controls: Sequence[ControlEvent]
) -> tuple[dict[Place, int], list[tuple[TableName, int, Place, int]]]:
    """Find the watermarks after which partitions went back to older messages, and the messages that name tables.

    Returns: a watermark for each partition, which is at least the one before the batch. And a tuple for each table in
    rows or in a DDL: (table, lowest commit_ts, partition, watermark of the partition before it). That watermark is 0
    for rows, whose place is not known.
    """
    high = {(state.topic, state.partition): state.watermark for state in progress.partitions}
    passed = dict(high)
    events: list[tuple[TableName, int, Place, int]] = []
    copied = {identity(ddl.change) for ddl in progress.ddls}
    for event in controls:
        here = (event.topic, event.partition)
        if isinstance(event, WatermarkRead):
            if event.commit_ts < high.get(here, 0):
                passed[here] = max(passed.get(here, 0), high[here])
            high[here] = max(event.commit_ts, high.get(here, 0))
        elif isinstance(event, RowsRead) and event.summary.rows:
            events.append(((event.schema, event.table), event.summary.min_ts, here, 0))
        elif isinstance(event, DdlRead):
            ts = event.change.commit_ts
            if ts < high.get(here, 0):
                passed[here] = max(passed.get(here, 0), high[here])
            if identity(event.change) in copied:
                continue
            copied.add(identity(event.change))
            events += [(name, ts, here, high.get(here, 0)) for name in sorted(tables_of(event.change))]
    return passed, events


def with_drops(
    progress: Progress, controls: Sequence[ControlEvent], ddls: Sequence[QueuedDdl], pending: Sequence[PendingRows]
) -> tuple[QueuedDdl, ...]:
    """Queue each DROP DATABASE again that was applied, or passed, before older messages of its tables came.

    ``ddls``, ``pending``: including those of the batch.
    """
    drops = (*progress.dropped_databases, *_passed_drops(progress, controls))
    if not drops:
        return tuple(ddls)
    first: dict[str, int] = {}
    events = [(name[0], ddl.change.commit_ts) for ddl in ddls for name in tables_of(ddl.change)]
    for schema, ts in (*events, *((rows.schema, rows.min_ts) for rows in pending if not rows.late)):
        first[schema] = min(ts, first.get(schema, ts))
    queue = {identity(ddl.change): ddl for ddl in ddls}
    for drop in drops:
        if first.get(database_of(drop.change), drop.change.commit_ts) < drop.change.commit_ts:
            queue.setdefault(identity(drop.change), drop)
    return tuple(queue.values())


def _passed_drops(progress: Progress, controls: Sequence[ControlEvent]) -> list[QueuedDdl]:
    """The DROP DATABASEs in a batch that the job is past: copies, or sent late together with the tables they drop."""
    return [
        QueuedDdl(change=event.change, topic=event.topic, partition=event.partition, offset=event.offset)
        for event in controls
        if isinstance(event, DdlRead) and event.change.commit_ts <= progress.applied and database_of(event.change)
    ]


def with_dropped(drops: Sequence[QueuedDdl], applied: Sequence[QueuedDdl], oldest: int) -> tuple[QueuedDdl, ...]:
    """The DROP DATABASEs to remember after a batch that applied some DDLs. ``oldest``: those from before this time are
    forgotten, milliseconds since the epoch."""
    found = {database_of(drop.change): drop for drop in drops}
    found |= {name: ddl for ddl in applied if (name := database_of(ddl.change))}
    return tuple(ddl for ddl in found.values() if tso_physical_ms(ddl.change.commit_ts) >= oldest)


def database_of(change: SchemaChange) -> str:
    """The database that a DROP DATABASE names; ``""`` for any other DDL."""
    act = action(change)
    return act.name if isinstance(act, DropDatabase) else ""


def bounds_behind(progress: Progress) -> Bounds:
    """How far tables may go that catch up, or that wait for a full read from a dump of some commit_ts."""
    bounds = bounds_of_late(progress)
    for wanted in progress.wanted:
        if wanted.at:
            name = wanted.full_name
            bounds[name] = min(wanted.at, bounds.get(name, wanted.at))
    return bounds


def waits_for_schema(progress: Progress) -> Callable[[QueuedDdl], bool]:
    """Return a function: whether a DDL waits with a table whose schema is not known."""
    until = {one.full_name: one.until for one in progress.catching_up if one.until is not None}
    return lambda ddl: any(
        until.get(name, ddl.change.commit_ts) < ddl.change.commit_ts for name in tables_of(ddl.change)
    )


def bounds_of_late(progress: Progress) -> Bounds:
    """For each table that catches up, the commit_ts up to which all its messages were read."""
    reached = {(state.topic, state.partition): state for state in progress.partitions}
    return {one.full_name: _bound(one, reached) for one in progress.catching_up}


def _bound(one: CatchUp, reached: Mapping[Place, PartitionState]) -> int:
    highest = max((state.watermark for state in reached.values()), default=0)
    marks = []
    for topic, partition, need in one.needs:
        state = reached.get((topic, partition))
        if state is None:
            return 0  # The topic is not read.
        # A topic whose table was dropped or renamed away gets no newer watermark, and becomes idle in the end.
        passed = highest if state.idle else state.watermark
        marks.append(passed if passed > need or state.idle else 0)
    bounds = [max(0, min(marks) - 1)] if marks else []
    return min([*bounds, *(() if one.until is None else (one.until,))], default=highest)
