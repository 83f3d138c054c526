"""Advance: compute how far all tables may go from the control events of a batch. Pure.

resolved = the minimum of the partitions' watermarks, minus 1. A watermark W only guarantees that everything **below** W
was sent, and it often equals the commit_ts of a DDL that is still to come.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec

from ticdc_spark.config.values import ModeName
from ticdc_spark.model import Offsets, SchemaChange, TableName
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.rows import apply_rows
from ticdc_spark.replicate.modes.base import Advanced, Rules, ScannedBatch, SchemaWaits
from ticdc_spark.replicate.modes.next_progress import Applied, committed
from ticdc_spark.replicate.modes.waiting import describe_missing, held_by_reads, held_by_schemas, schema_needs
from ticdc_spark.replicate.plan.catch_up import catching_up, with_drops
from ticdc_spark.replicate.plan.doomed import without_doomed
from ticdc_spark.replicate.plan.holds import Bounds
from ticdc_spark.replicate.plan.late_ddl import late_for, with_late
from ticdc_spark.replicate.plan.merging import seen_shards
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.plan.reach import by_place, reached, with_end_of_gone
from ticdc_spark.replicate.plan.timeline import Rows, Step, identity, timelines
from ticdc_spark.replicate.schemas.history import known_schemas, without_blocks
from ticdc_spark.replicate.state.progress import Counters, Hold, PartitionState, PendingRows, Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import (
    BootstrapRead,
    ControlEvent,
    DdlRead,
    MessageRejected,
    RowsRead,
    WatermarkRead,
    reject_of,
    table_of,
)


def advance(
    progress: Progress,
    scanned: ScannedBatch,
    rules: Rules,
    waits: SchemaWaits,
) -> Advanced:
    """Fold the control events of one batch into the progress."""
    end_offsets, latest_offsets = scanned.end_offsets, scanned.latest_offsets
    ordered = sorted(scanned.controls, key=lambda event: (event.topic, event.partition, event.offset, event.seq))
    read, regressions = read_partitions(progress, ordered, end_offsets, latest_offsets, rules)
    schemas = known_schemas(progress, ordered)
    ddls, known = _ddls(progress, ordered)
    pending, replays, late = waiting_rows(progress, ordered)
    ddls = with_drops(progress, ordered, ddls, pending)
    tables = seen_tables(known, ordered)
    partitions, resolved, hold = _resolve(progress, read, latest_offsets, rules)
    if rules.until_ts is not None:
        resolved = min(resolved, rules.until_ts)
    begun = msgspec.structs.replace(progress, schemas=schemas, ddls=ddls, pending=pending, tables=tables)
    begun = msgspec.structs.replace(begun, shards=seen_shards(progress.shards, ordered))
    begun = without_doomed(begun, max(resolved, progress.applied), waits.keeps)
    passed_before, needs = resolved < progress.applied, schema_needs(begun, waits)
    resolved, missing = held_by_schemas(needs, resolved)
    # A table that catches up waits for schemas by itself, even below the current bound of other tables.
    now = held_by_schemas(needs, progress.applied)[1] if passed_before else missing
    if missing:
        hold = Hold(kind="schema", what=describe_missing(missing[0]), since=progress.schema_wait_since or rules.now)
    furthest = max(resolved, rules.floor)
    blocked = held_by_reads(needs, max(furthest, progress.applied))
    for rows in now:
        if rows.min_ts <= progress.applied:
            blocked[rows.full_name] = min(rows.min_ts, blocked.get(rows.full_name, rows.min_ts))
    ended = rules.bounded and all(end_offsets.get(place, 0) >= end for place, end in latest_offsets.items())
    advanced = msgspec.structs.replace(
        begun,
        partitions=partitions,
        catching_up=catching_up(progress, ordered, partitions, furthest, blocked, ended=ended),
        hold=hold,
        schema_wait_since=(progress.schema_wait_since or rules.now) if missing else 0.0,
        counters=progress.counters + Counters(replays=replays, regressions=regressions),
        newest=max([progress.newest, *(event.summary.max_ts for event in ordered if isinstance(event, RowsRead))]),
    )
    rejects = tuple(reject_of(event) for event in ordered if isinstance(event, MessageRejected))
    return Advanced(
        progress=advanced,
        resolved=max(resolved, progress.applied),
        rejects=rejects,
        late=late,
        missing=missing,
    )


def due(ddls: Iterable[QueuedDdl], resolved: int, tables: Iterable[TableState] = ()) -> list[QueuedDdl]:
    """The DDLs to apply, in order. ``tables``: before these DDLs."""
    live = [table.full_name for table in tables if not table.is_gone]
    return in_order((ddl for ddl in ddls if ddl.change.commit_ts <= resolved), live)


def read_partitions(
    progress: Progress, controls: Sequence[ControlEvent], end_offsets: Offsets, latest_offsets: Offsets, rules: Rules
) -> tuple[dict[tuple[str, int], PartitionState], int]:
    """Partitions with their new offsets and watermarks, and how often a watermark fell."""
    states = {(state.topic, state.partition): state for state in progress.partitions}
    for topic, partition in [*end_offsets, *latest_offsets]:
        fresh = PartitionState(topic=topic, partition=partition, offset=0)
        states.setdefault((topic, partition), fresh)
    marks: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], int] = {}
    regressions = 0
    for event in controls:
        if isinstance(event, WatermarkRead):
            place = (event.topic, event.partition)
            highest = marks.get(place, states[place].watermark)
            # Count each fall once, however long it lasts: a restart causes one fall, two changefeeds cause many.
            regressions += event.commit_ts < last.get(place, highest)
            last[place] = event.commit_ts
            marks[place] = max(highest, event.commit_ts)
    of_cut = by_place(controls) if any(state.reaches for state in states.values()) else {}
    for place, state in states.items():
        reaches = reached(of_cut.get(place, ()), state) if state.reaches else 0
        watermark, end = marks.get(place, state.watermark), end_offsets.get(place, state.offset)
        heard = place in marks  # a lower one counts too: a changefeed that sends again reaches the old watermark later
        states[place] = msgspec.structs.replace(
            state,
            offset=end,
            end=latest_offsets.get(place, end),
            watermark=watermark,
            reaches=reaches,
            # New messages may come from a partition that awoke, whose next watermark is on its way: they restart
            # the time, but only once, since messages of others, without watermarks, must not hold back all forever.
            behind_since=0.0 if heard or (end > state.offset and not state.stirred) else state.behind_since,
            stirred=not heard and (state.stirred or (end > state.offset and state.behind_since > 0)),
        )
    rows = (event.summary.max_ts for event in controls if isinstance(event, RowsRead))
    newest = max((progress.newest, *rows, *(state.watermark for state in states.values())))
    return with_end_of_gone(states, latest_offsets, newest), regressions


def _resolve(
    progress: Progress, states: Mapping[tuple[str, int], PartitionState], latest_offsets: Offsets, rules: Rules
) -> tuple[tuple[PartitionState, ...], int, Hold]:
    """The minimum over partitions. A partition that is consumed to its end without a newer watermark counts as highest
    once it is idle."""
    highest = max((state.watermark for state in states.values()), default=0)
    marked: list[PartitionState] = []
    lowest: PartitionState | None = None
    for place in sorted(states):
        state = states[place]
        at_end = state.offset >= latest_offsets.get(place, state.offset)
        behind = state.watermark < highest and at_end
        since = (state.behind_since or rules.now) if behind else 0.0
        idle = behind and (rules.bounded or rules.now - since >= rules.idle_timeout)
        marked.append(msgspec.structs.replace(state, idle=idle, behind_since=since))
        if not idle and (lowest is None or state.watermark < lowest.watermark):
            lowest = state
    watermark = highest if lowest is None else lowest.watermark
    hold = Hold(kind="none", what="")
    if lowest is not None and (watermark < highest or not highest):
        unread = latest_offsets.get((lowest.topic, lowest.partition), lowest.offset) - lowest.offset
        why = f"{unread} messages to read" if unread > 0 else "no newer watermark yet"
        what = f"partition {lowest.partition} of topic {lowest.topic}: watermark {watermark}, {why}"
        if not highest:
            what = "no partition has had a watermark yet (canal-json and debezium need enable-tidb-extension)"
        since = progress.hold.since if progress.hold.kind == "partition" else rules.now
        hold = Hold(kind="partition", what=what, since=since)
    return tuple(marked), watermark - 1, hold


def _ddls(progress: Progress, controls: Sequence[ControlEvent]) -> tuple[tuple[QueuedDdl, ...], tuple[TableState, ...]]:
    """The queue with the DDLs of a batch, and the tables, marked if a DDL came too late for them. ``controls``: in the
    order of their offsets."""
    queue = {identity(ddl.change): ddl for ddl in progress.ddls}
    states = progress.states()
    for event in controls:
        if not isinstance(event, DdlRead):
            continue
        change = event.change
        late = late_for(progress, change, event.topic, states)
        if not late and _is_replay(progress, change, states):
            continue
        ddl = QueuedDdl(change=change, topic=event.topic, partition=event.partition, offset=event.offset)
        queue.setdefault(identity(change), ddl)
        states |= {name: with_late(states[name], change) for name in late}
    return tuple(queue.values()), tuple(states.values())


def _is_replay(progress: Progress, change: SchemaChange, states: Mapping[TableName, TableState]) -> bool:
    """Whether a DDL was applied before. A DDL at or below ``applied`` may still be new to a table that was never seen,
    because its topic was added or found later. Rows of such a table count from the beginning, too."""
    ts = change.commit_ts
    if ts > progress.applied:
        return False
    return not any(name not in states or states[name].applied < ts for name in tables_of(change))


def waiting_rows(progress: Progress, controls: Sequence[ControlEvent]) -> tuple[tuple[PendingRows, ...], int, int]:
    """The waiting rows, including the batch's; and the numbers of replays and of rows that may be late."""
    new: list[PendingRows] = []
    replays = late = 0
    for event in controls:
        if not isinstance(event, RowsRead):
            continue
        counts = event.summary
        replays += counts.replays
        late += counts.late
        if counts.rows:
            new.append(
                PendingRows(
                    schema=event.schema,
                    name=event.table,
                    schema_key=event.schema_key,
                    rows=counts.rows,
                    inserts=counts.inserts,
                    min_ts=counts.min_ts,
                    max_ts=counts.max_ts,
                    topic=event.topic,
                    partition=event.partition,
                    first=counts.first,
                    end=counts.end,
                    sent=None if event.sent == (event.schema, event.table) else event.sent,
                    bytes=counts.bytes,
                )
            )
    return (*progress.pending, *new), replays, late


def seen_tables(tables: Iterable[TableState], controls: Sequence[ControlEvent]) -> tuple[TableState, ...]:
    """Record the topics of known tables. A new table gets its state when it is applied."""
    topics: dict[tuple[str, str], set[str]] = {}
    for event in controls:
        name = table_of(event)
        if name is not None and isinstance(event, RowsRead | DdlRead | BootstrapRead):
            topics.setdefault(name, set()).add(event.topic)
    return tuple(
        msgspec.structs.replace(table, topics=tuple(sorted({*table.topics, *topics[table.full_name]})))
        if table.full_name in topics
        else table
        for table in tables
    )


class WatermarkMode:
    """Every table equals the source up to the lowest watermark."""

    name: ClassVar[ModeName] = "watermark"
    resolves: ClassVar[bool] = True

    def understood(
        self, progress: Progress, controls: Sequence[ControlEvent], protocol: str
    ) -> tuple[Progress, Sequence[ControlEvent]]:
        """See ``Mode``. Removes schema blocks, since DDL says which schema is valid."""
        return without_blocks(progress, controls)

    def advance(self, progress: Progress, scanned: ScannedBatch, rules: Rules, waits: SchemaWaits) -> Advanced:
        return advance(progress, scanned, rules, waits)

    def replay_below(self, progress: Progress) -> dict[TableName, int]:
        return {table.full_name: table.applied for table in progress.tables}

    def timelines(
        self,
        progress: Progress,
        states: Mapping[TableName, TableState],
        pending: Sequence[PendingRows],
        ddls: Sequence[QueuedDdl],
        resolved: int,
        bounds: Bounds,
    ) -> list[list[Step]]:
        return timelines(states, pending, ddls, resolved, bounds)

    def apply_rows(self, work: TimelineWork, step: Rows) -> None:
        apply_rows(work, step)

    def progress_after(self, progress: Progress, applied: Applied) -> Progress:
        return committed(progress, applied)
