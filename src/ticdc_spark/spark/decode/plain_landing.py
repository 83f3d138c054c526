"""Landing in plain Python: the same rows and control events that ``spark.decode.envelopes.land`` makes of messages.

For logs in memory, whose batches are small: there the ways into Arrow and back cost more than the work itself. What
only some sources have (registered schemas, schema blocks, claim checks) goes through ``land`` all the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from ticdc_spark.ddl.known_names import KnownNames
from ticdc_spark.model import Bootstrap, Envelope, Event, Message, Op, Rejected, SchemaChange, Watermark
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.checksums import expected
from ticdc_spark.spark.decode.control import (
    BootstrapRead,
    Control,
    ControlEvent,
    DdlRead,
    MessageRejected,
    RowCounts,
    RowsRead,
    WatermarkRead,
    read_control,
)
from ticdc_spark.spark.decode.envelopes import (
    LandingPlan,
    kind_of,
    land,
    passed_of,
    replay_below_of,
    split_events,
    with_known_names,
)
from ticdc_spark.spark.decode.log_files import CONTROL_COLUMNS
from ticdc_spark.spark.decode.log_schema import CONTROL_BUCKET

MESSAGES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


class LoggedRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row change in a log. The fields are columns of ``LOG_SCHEMA``."""

    kind: str
    """``row``, or ``late``."""
    topic: str
    partition: int
    offset: int
    seq: int
    op: Op
    schema: str
    table: str
    schema_key: str
    commit_ts: int
    partial: bool
    before: bytes | None
    after: bytes | None
    checksum: int | None
    corrupted: bool | None


Landed: TypeAlias = tuple[list[LoggedRow], list[ControlEvent]]
_Group: TypeAlias = tuple[str, int, str, str, str]


def land_messages(messages: Sequence[Message], plan: LandingPlan) -> Landed:
    """Open messages: the rows to log, and the control events."""
    if plan.schemas is not None or plan.block_keys or plan.skip:
        return land_by_arrow(messages, plan)
    protocol = decoder(plan.protocol, None, plan.native)
    events, origin, seqs, others = split_events([protocol.open_message(one.key, one.value) for one in messages])
    if any(event.claim_check for event in events):
        return land_by_arrow(messages, plan)
    events = with_known_names(events, KnownNames(plan.names))
    sent = messages if origin is None else [messages[at] for at in origin]
    found = [_logged(plan, *one) for one in zip(events, sent, seqs or [0] * len(events), strict=True)]
    rows, summaries = _sort_out(plan, found)
    controls = [_control(messages[at], seq, event) for at, seq, event in others]
    controls += [_summary(*group, summary) for group, summary in summaries.items()]
    return rows, controls


def land_by_arrow(messages: Sequence[Message], plan: LandingPlan) -> Landed:
    """The same through ``land``."""
    found = [row for part in land(plan)(_batches(messages)) for row in part.to_pylist()] if messages else []
    rows = [
        LoggedRow(**{name: row[name] for name in LoggedRow.__struct_fields__})
        for row in found
        if row["slot"] != CONTROL_BUCKET
    ]
    controls = [
        read_control(Control(**{name: row[name] for name in CONTROL_COLUMNS}))
        for row in found
        if row["slot"] == CONTROL_BUCKET
    ]
    return rows, controls


def _batches(messages: Sequence[Message]) -> Iterator[pa.RecordBatch]:
    columns = [[getattr(message, name) for message in messages] for name in MESSAGES.names]
    yield pa.RecordBatch.from_arrays(
        [pa.array(cells, kind.type) for cells, kind in zip(columns, MESSAGES, strict=True)], schema=MESSAGES
    )


def _logged(plan: LandingPlan, event: Envelope, message: Message, seq: int) -> LoggedRow:
    checksum = corrupted = None
    if plan.verify_checksum:
        checksum = expected(event.checksum, partial=event.partial)[1]
        corrupted = None if event.checksum is None else event.checksum.corrupted
    return LoggedRow(
        kind="row",
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        seq=seq,
        op=event.op,
        schema=event.schema,
        table=event.table,
        schema_key=event.schema_key,
        commit_ts=event.commit_ts,
        partial=event.partial,
        before=event.before,
        after=event.after,
        checksum=checksum,
        corrupted=corrupted,
    )


def _sort_out(plan: LandingPlan, rows: list[LoggedRow]) -> tuple[list[LoggedRow], dict[_Group, RowCounts]]:
    """Count the rows of each group; leave out certain replays and name the rows that may be late."""
    groups: dict[_Group, list[LoggedRow]] = {}
    for row in rows:
        groups.setdefault((row.topic, row.partition, row.schema, row.table, row.schema_key), []).append(row)
    summaries: dict[_Group, RowCounts] = {}
    sorted_out: dict[int, LoggedRow | None] = {}
    for group, mine in groups.items():
        topic, partition, schema, table, _ = group
        stamps = [row.commit_ts for row in mine]
        lowest, replay_below = min(stamps), replay_below_of(plan, schema, table)
        summary = summaries[group] = RowCounts(hidden=not lowest)
        if lowest > replay_below:
            summary.rows, summary.min_ts, summary.max_ts = len(mine), lowest, max(stamps)
            summary.inserts = sum(row.op == "insert" for row in mine)
            continue
        passed = passed_of(plan, topic, partition, schema, table)
        for row in mine:
            kind = kind_of(row.commit_ts, replay_below, passed, summary)
            if kind != "row":
                sorted_out[id(row)] = None if kind is None else msgspec.structs.replace(row, kind=kind)
    if not sorted_out:
        return rows, summaries
    changed = (sorted_out.get(id(row), row) for row in rows)
    return [row for row in changed if row is not None], summaries


def _control(message: Message, seq: int, event: Event) -> ControlEvent:
    place: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "seq": seq,
    }
    match event:
        case Watermark():
            return WatermarkRead(**place, commit_ts=event.commit_ts)
        case SchemaChange():
            return DdlRead(**place, change=event)
        case Bootstrap():
            return BootstrapRead(**place, table=event.table)
        case Rejected():
            return MessageRejected(**place, reason=event.reason)
        case Envelope():
            message_ = "a row change is no control event"
            raise AssertionError(message_)


def _summary(topic: str, partition: int, schema: str, table: str, key: str, summary: RowCounts) -> RowsRead:
    return RowsRead(
        topic=topic, partition=partition, offset=-1, seq=0, schema=schema, table=table, schema_key=key, summary=summary
    )
