"""Advance, timelines and commit of a batch in arrival mode, where there are no watermarks. Pure.

A batch goes up to its own end. A DDL waits for each partition of its topic: either for a copy of the DDL there, or for
the end that the partition had when the DDL was first seen. TiCDC sends a DDL after the rows before it, so these rows
are then all read. Changes with a higher commit_ts wait with the DDL. A change that is older than an applied DDL of its
table was sent before, so it is a replay. So is a DDL with the same commit_ts and the same SQL.

Marks have the number of the batch in place of a commit_ts, because it only rises.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import ClassVar

import msgspec

from ticdc_spark.config.values import ModeName
from ticdc_spark.model import Offsets, SchemaChange, TableName
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.modes.arrival_rows import apply_arrived
from ticdc_spark.replicate.modes.base import Advanced, Rules, ScannedBatch, SchemaWaits
from ticdc_spark.replicate.modes.next_progress import Applied, committed
from ticdc_spark.replicate.modes.waiting import describe_missing
from ticdc_spark.replicate.modes.watermark import read_partitions, seen_tables, waiting_rows
from ticdc_spark.replicate.plan.catch_up import database_of
from ticdc_spark.replicate.plan.ddl_actions import Create, action, names
from ticdc_spark.replicate.plan.freed_names import freed_names
from ticdc_spark.replicate.plan.holds import Bounds
from ticdc_spark.replicate.plan.names import model_of, tables_before_and_after
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.plan.timeline import DDL_STEPS, Ddl, DdlIdentity, Rows, Step, identity, timelines
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN, bound_of_schemas, is_block, known_schemas
from ticdc_spark.replicate.state.progress import (
    Counters,
    Hold,
    LastDdl,
    PartitionState,
    PendingRows,
    Progress,
    QueuedDdl,
)
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import (
    ControlEvent,
    DdlRead,
    MessageRejected,
    RowsRead,
    WatermarkRead,
    reject_of,
)

log = logging.getLogger(__name__)
EVERYTHING = 2**63 - 1
"""The bound of a batch that no DDL holds back."""


def advance_arrived(
    progress: Progress,
    scanned: ScannedBatch,
    rules: Rules,
    waits: SchemaWaits,
) -> Advanced:
    """Fold the control events of a batch into the progress. The result's ``resolved``: the commit_ts up to which the
    batch is applied."""
    end_offsets, latest_offsets = scanned.end_offsets, scanned.latest_offsets
    ordered = sorted(scanned.controls, key=lambda event: (event.topic, event.partition, event.offset, event.seq))
    read, _ = read_partitions(progress, ordered, end_offsets, latest_offsets, rules)
    ddls, replayed = _ddls(progress, ordered, read, latest_offsets)
    pending, replays, late = waiting_rows(progress, ordered)
    tables = seen_tables(progress.tables, ordered)
    schemas = {(known.schema, known.name, known.key): known for known in known_schemas(progress, ordered)}
    for known in waits.registered or ():
        schemas.setdefault((known.schema, known.name, known.key), known)
    bound, hold = _bound(ddls, progress, rules)
    missing: tuple[PendingRows, ...] = ()
    if waits.registered is None:
        named = {
            known.full_name
            for known in schemas.values()
            if known.key in (ANY_VERSION, VALID_THEN) or is_block(known.key)
        }
        named |= {table.full_name for table in tables if table.table is not None}

        @cache
        def after(bound: int) -> tuple[dict[TableName, int], frozenset[TableName]]:
            due = [ddl for ddl in ddls if ddl.change.commit_ts <= bound]
            return freed_names(tables, due, named), waits.named_after(due)

        def is_known(rows: PendingRows, bound: int) -> bool:
            name = rows.full_name
            if waits.skips_to_known(*name):
                return True
            freed, made = after(bound)
            # Rows behind the DDL that freed their name are of the next table, whatever is known of the former one.
            return rows.max_ts <= freed.get(name, rows.max_ts) and (name in named or name in made)

        bound, missing = bound_of_schemas(pending, bound, is_known)
    if missing:
        first = min(missing, key=lambda rows: rows.min_ts)
        hold = Hold(kind="schema", what=describe_missing(first), since=progress.schema_wait_since or rules.now)
    advanced = msgspec.structs.replace(
        progress,
        partitions=tuple(read[place] for place in sorted(read)),
        schemas=tuple(schemas.values()),
        ddls=ddls,
        pending=pending,
        tables=tables,
        hold=hold,
        schema_wait_since=(progress.schema_wait_since or rules.now) if missing else 0.0,
        counters=progress.counters + Counters(replays=replays + replayed),
    )
    rejects = tuple(reject_of(event) for event in ordered if isinstance(event, MessageRejected))
    return Advanced(progress=advanced, resolved=bound, rejects=rejects, late=late, missing=missing)


def _bound(ddls: Sequence[QueuedDdl], progress: Progress, rules: Rules) -> tuple[int, Hold]:
    """The commit_ts up to which rows and DDLs are applied: just before the first waiting DDL."""
    waiting = (ddl for ddl in ddls if ddl.waits or ddl.earlier)
    first = min(waiting, key=lambda ddl: ddl.change.commit_ts, default=None)
    if first is None:
        return EVERYTHING, Hold(kind="none", what="")
    where = "partitions " + ", ".join(str(partition) for partition, _ in first.waits)
    if not first.waits:
        where = "topics " + ", ".join(sorted({topic for topic, _, _ in first.earlier}))
    what = f"DDL at {first.change.commit_ts} in topic {first.topic}: {where} are not read that far yet"
    since = progress.hold.since if progress.hold.kind == "ddl" else rules.now
    return first.change.commit_ts - 1, Hold(kind="ddl", what=what, since=since)


def _ddls(
    progress: Progress,
    ordered: Sequence[ControlEvent],
    read: Mapping[tuple[str, int], PartitionState],
    latest_offsets: Offsets,
) -> tuple[tuple[QueuedDdl, ...], int]:
    """The queue with the batch's DDLs, each with the partitions that it still waits for; and the number of replays."""
    last_ddls = {last.full_name: last for last in progress.last_ddls}
    queue = {identity(ddl.change): ddl for ddl in progress.ddls}
    copies: dict[DdlIdentity, set[int]] = {}
    new: set[DdlIdentity] = set()
    replays = 0
    for event in ordered:
        if not isinstance(event, DdlRead):
            continue
        change = event.change
        before, after = tables_before_and_after(change)
        # A RENAME in a topic that is read late may be older than the last DDL of only one of its two names.
        named = {change.full_name, *(before | after if before - after and after - before else ())}
        if all(name in last_ddls and _was_applied(change, last_ddls[name]) for name in named):
            replays += 1
            continue
        if identity(change) not in queue:
            ends = sorted((part, end) for (topic, part), end in latest_offsets.items() if topic == event.topic)
            queue[identity(change)] = QueuedDdl(
                change=change, topic=event.topic, partition=event.partition, offset=event.offset, waits=tuple(ends)
            )
            new.add(identity(change))
        if event.topic == queue[identity(change)].topic:
            copies.setdefault(identity(change), set()).add(event.partition)
    if new and len({topic for topic, _ in latest_offsets}) > 1:
        behind = [queue[key] for key in new & _behind_other_topics(progress.tables, queue.values())]
        first = min(behind, key=lambda ddl: ddl.change.commit_ts, default=None)
        if first is not None:
            # It holds up all later ones, so that the state has one list of ends.
            every = tuple((*place, end) for place, end in sorted(latest_offsets.items()))
            queue[identity(first.change)] = msgspec.structs.replace(first, earlier=every)
    ddls = []
    for key, ddl in queue.items():
        waits = tuple(
            (partition, end)
            for partition, end in ddl.waits
            if partition not in copies.get(key, ()) and read[ddl.topic, partition].offset < end
        )
        earlier = tuple(
            (topic, partition, end)
            for topic, partition, end in ddl.earlier
            if (topic, partition) in read and read[topic, partition].offset < end
        )
        ddls.append(msgspec.structs.replace(ddl, waits=waits, earlier=earlier))
    return tuple(ddls), replays


def _behind_other_topics(tables: Iterable[TableState], ddls: Iterable[QueuedDdl]) -> set[DdlIdentity]:
    """The DDLs that may need an earlier DDL of another topic. A DDL is in the topic of its table, and a RENAME in that
    of the old name. So a DDL that names several tables may, and the first one of a table that no DDL made."""
    there = {one.full_name for one in tables if one.table is not None and not one.schema_keys and not one.is_gone}
    found = set()
    for ddl in in_order(ddls, there):
        before, after = tables_before_and_after(ddl.change)
        joins = bool(before - after and after - before) or model_of(ddl.change) is not None
        if joins or before - there or database_of(ddl.change):
            found.add(identity(ddl.change))
        there = there - before | after
    return found


def _was_applied(change: SchemaChange, last: LastDdl) -> bool:
    """Whether a DDL is at or before the last DDL of a name."""
    if change.commit_ts != last.commit_ts:
        return change.commit_ts < last.commit_ts
    return _digest(change.query) in last.queries


def _digest(query: str) -> str:
    return blake2b(query.encode(), digest_size=8).hexdigest()


def replay_below_last_ddl(progress: Progress) -> dict[TableName, int]:
    """The commit_ts up to which rows of a table are replays. Rows at the commit_ts of its last DDL may follow it."""
    return {last.full_name: last.commit_ts - 1 for last in progress.last_ddls if last.name}


def assign_marks(lines: Iterable[Sequence[Step]], at: int) -> list[list[Step]]:
    """Give the steps of timelines their marks, with ``at``, the number of the batch, in the order of each timeline."""
    found = []
    for line in lines:
        steps: list[Step] = []
        cut: dict[TableName, int] = {}
        for number, (step, after) in enumerate(zip(line, [*line[1:], None], strict=True), 1):
            if isinstance(step, Ddl):
                steps.append(msgspec.structs.replace(step, step=number * DDL_STEPS, at=at))
            else:
                # Where only milliseconds are known, rows may have that of their CREATE TABLE.
                is_new = isinstance(after, Ddl) and isinstance(after.action, Create)
                mark, upto = (at, number * DDL_STEPS), step.upto - is_new
                steps.append(msgspec.structs.replace(step, above=cut.get(step.table, -1), upto=upto, mark=mark))
                cut[step.table] = upto
        found.append(steps)
    return found


def committed_arrived(progress: Progress, batch: Applied) -> Progress:
    """The progress after a batch."""
    states, bound, ddls = batch.states, batch.resolved, batch.ddls
    last_ddls = {last.full_name: last for last in progress.last_ddls}
    for ddl in ddls:
        change = ddl.change
        for name in {change.full_name, *names(action(change), states)}:
            last = last_ddls.get(name) or LastDdl(schema=name[0], name=name[1], commit_ts=0)
            if change.commit_ts >= last.commit_ts:
                same = last.queries if change.commit_ts == last.commit_ts else ()
                queries = tuple(dict.fromkeys((*same, _digest(change.query))))
                last_ddls[name] = msgspec.structs.replace(last, commit_ts=change.commit_ts, queries=queries)
    last_ddl_ts = {name: last.commit_ts for name, last in last_ddls.items()}
    before = {table.full_name: table.applied for table in progress.tables}
    newest = max([progress.newest, progress.applied, *last_ddl_ts.values()])
    done = committed(progress, batch, newest=newest)
    tables = []
    for table in done.tables:
        name = table.full_name
        applied = max(states[name].applied, before.get(name, 0), last_ddl_ts.get(name, 0))
        tables.append(msgspec.structs.replace(table, applied=applied))
    read = [min(rows.max_ts, bound) for rows in progress.pending if rows.min_ts <= bound]
    return msgspec.structs.replace(
        done,
        applied=max([progress.applied, *read, *(ddl.change.commit_ts for ddl in ddls)]),
        tables=tuple(tables),
        last_ddls=tuple(last for _, last in sorted(last_ddls.items())),
    )


def _without_ddl(
    progress: Progress, controls: Sequence[ControlEvent], protocol: str
) -> tuple[Progress, Sequence[ControlEvent]]:
    if not PROTOCOLS[protocol].traits.hidden_deletes:
        return progress, controls
    left = [event for event in controls if not isinstance(event, DdlRead)]
    if progress.ddls or len(left) < len(controls):
        log.warning("DDL is skipped: deletes of %s have no commitTs, so their order is not known", protocol)
    return msgspec.structs.replace(progress, ddls=()), left


class ArrivalMode:
    """A batch is applied once it is read."""

    name: ClassVar[ModeName] = "arrival"
    resolves: ClassVar[bool] = False

    def understood(
        self, progress: Progress, controls: Sequence[ControlEvent], protocol: str
    ) -> tuple[Progress, Sequence[ControlEvent]]:
        """See ``Mode``. Removes DDL if deletes hide their commit_ts, as it is not known which deletes a DDL follows."""
        hides = any(event.summary.hidden for event in controls if isinstance(event, RowsRead))
        if any(isinstance(event, WatermarkRead) for event in controls) and not hides:
            log.warning("the topics have watermarks: a new job would run in mode watermark, which is exact")
        return _without_ddl(progress, controls, protocol)

    def advance(self, progress: Progress, scanned: ScannedBatch, rules: Rules, waits: SchemaWaits) -> Advanced:
        return advance_arrived(progress, scanned, rules, waits)

    def replay_below(self, progress: Progress) -> dict[TableName, int]:
        return replay_below_last_ddl(progress)

    def timelines(
        self,
        progress: Progress,
        states: Mapping[TableName, TableState],
        pending: Sequence[PendingRows],
        ddls: Sequence[QueuedDdl],
        resolved: int,
        bounds: Bounds,
    ) -> list[list[Step]]:
        return assign_marks(timelines(states, pending, ddls, resolved, bounds), progress.batch + 1)

    def apply_rows(self, work: TimelineWork, step: Rows) -> None:
        apply_arrived(work, step)

    def progress_after(self, progress: Progress, applied: Applied) -> Progress:
        return committed_arrived(progress, applied)
