"""Landing: messages to rows of the change log, as ``mapInArrow`` over a protocol's ``open_message``.

One pass does three things: it opens each message, drops row changes that are certainly replays (counted), and adds
one summary row a task, partition, table and schema key, so that the driver learns what it needs without a second pass.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.ddl.known_names import KnownNames, Names
from ticdc_spark.model import Bootstrap, Envelope, Event, Rejected, SchemaChange, Watermark
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.protocols.checksums import expected
from ticdc_spark.spark.decode.control import LeftOut, RowCounts, left_out
from ticdc_spark.spark.decode.log_schema import CONTROL_BUCKET, LOG_SCHEMA
from ticdc_spark.spark.decode.schema_events import (
    Blocks,
    Heads,
    block_rows,
    head,
    schema_id_rows,
)
from ticdc_spark.spark.tasks import ArrowTask, in_worker
from ticdc_spark.streams.claim_check import whole_messages


class LandingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a landing task must know; sent to every task."""

    protocol: str
    generation: int
    batch: int
    buckets: int
    table_replay_below: dict[str, int]
    """``schema NUL table`` to the commit_ts at and below which rows were applied before, or are late."""
    watermarks: dict[str, int]
    """``topic NUL partition`` to the highest watermark read before this batch."""
    skip: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, offset) of messages that are left out."""
    bases: dict[str, int] = {}
    """``schema NUL table`` to the commit_ts as of which a table was read in full: every row up to it is a replay."""
    arrival: bool = False
    """Without watermarks: a row at or below ``table_replay_below``, its table's last DDL, is a replay; others count."""
    claim_check_storage: str | None = None
    """Where the changefeed keeps rows that are too large for Kafka."""
    verify_checksum: bool = False
    """Whether the checksums that messages carry are kept for ``rows``: of the new image, and TiCDC's own verdict."""
    schemas: dict[int, str] | None = None
    """Registered schemas by id, for Avro. The pairs of ids that messages name come back as control events."""
    native: dict[str, str] = {}
    """How Debezium's own connector is configured."""
    block_keys: bool = False
    """Schema keys are hashes of schema blocks, whose tables come back as control events."""
    names: Names = Names()
    """The names of tables that are known, which rows get in place of the same in another case."""


_HIGHEST = 2**63 - 1
_GROUP = ["topic", "partition", "schema", "table", "schema_key"]
_Key = tuple[str, int, str, str, str]
_Summaries = dict[_Key, RowCounts]


def table_id_key(schema: str, table: str) -> str:
    """Key of a table in ``LandingPlan.table_replay_below``."""
    return f"{schema}\0{table}"


def bucket_of(schema: str, table: str, buckets: int) -> int:
    """The bucket of a table's rows in the log."""
    return crc32(table_id_key(schema, table).encode()) % buckets


def partition_key(topic: str, partition: int) -> str:
    """Key of a partition in ``LandingPlan.watermarks``."""
    return f"{topic}\0{partition}"


def land(plan: LandingPlan) -> ArrowTask:
    """Return the function for ``mapInArrow``: (topic, partition, offset, timestamp, key, value) to the log."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        protocol = decoder(plan.protocol, plan.schemas, plan.native, block_keys=plan.block_keys)
        open_message = protocol.open_message
        stored = None if plan.claim_check_storage is None else ClaimCheckStorage(plan.claim_check_storage)
        buckets = _Buckets(plan.buckets)
        summaries: _Summaries = {}
        heads: dict[Heads, None] = {}
        of_row = PROTOCOLS[plan.protocol].row_tables() if plan.block_keys else None
        blocks = None if of_row is None else Blocks(of_row)
        known = KnownNames(plan.names)
        for batch in batches:
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            if plan.schemas is not None:
                heads |= dict.fromkeys(zip(map(head, keys), map(head, values), strict=True))
            opened: list[Sequence[Event]] = [open_message(key, value) for key, value in zip(keys, values, strict=True)]
            if plan.skip:
                opened = _without(plan.skip, batch, opened)
            envelopes, origin, seqs, others = split_events(opened)
            if any(event.claim_check for event in envelopes):
                whole = whole_messages(protocol, opened, None if stored is None else stored.fetch)
                envelopes, origin, seqs, others = split_events(whole)
            envelopes = with_known_names(envelopes, known)
            if blocks is not None and (new_blocks := blocks.of(envelopes, origin, values)):
                yield block_rows(plan.generation, plan.batch, new_blocks)
            if envelopes:
                rows = _log_rows(plan, batch, envelopes, origin, seqs, buckets)
                yield _sort_out(plan, rows, summaries)
            if others:
                yield _controls(plan, batch, others, keys, values)
        if heads:
            yield schema_id_rows(plan.generation, plan.batch, heads)
        if summaries:
            yield _summary_rows(plan, summaries)

    return in_worker(run)


def _without(
    skip: Sequence[tuple[str, int, int]], batch: pa.RecordBatch, opened: list[Sequence[Event]]
) -> list[Sequence[Event]]:
    places = zip(*(batch.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
    wanted = set(skip)
    return [[left_out(events)] if at in wanted else events for at, events in zip(places, opened, strict=True)]


class _Buckets(dict[tuple[str, str], int]):
    """(schema, table) to its bucket, computed once a task."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def __missing__(self, key: tuple[str, str]) -> int:
        bucket = self[key] = bucket_of(*key, self.count)
        return bucket


_Places = list[int] | None
_Others = list[tuple[int, int, Event]]


def split_events(opened: list[Sequence[Event]]) -> tuple[list[Envelope], _Places, _Places, _Others]:
    """Part a batch in two.

    Returns: its row changes, the message each comes from (``None``: all, in order), its place there (``None``: each is
    the first); and all that is no row change, each with its message and place.
    """
    if all(map((1).__eq__, map(len, opened))):
        events = [event for (event,) in opened]
        others: _Others = [(at, 0, event) for at, event in enumerate(events) if type(event) is not Envelope]
        if not others:
            return events, None, None, others  # type: ignore[return-value]
        origin = [at for at, event in enumerate(events) if type(event) is Envelope]
        return [events[at] for at in origin], origin, None, others  # type: ignore[misc]
    places = [(at, seq, event) for at, events in enumerate(opened) for seq, event in enumerate(events)]
    rows = [(at, seq, event) for at, seq, event in places if type(event) is Envelope]
    others = [place for place in places if type(place[2]) is not Envelope]
    return [row for *_, row in rows], [at for at, *_ in rows], [seq for _, seq, _ in rows], others


def with_known_names(events: list[Envelope], known: KnownNames) -> list[Envelope]:
    """Row changes under the names by which their tables are known."""
    named = {(event.schema, event.table) for event in events}
    other = {name: found for name in named if (found := known.of_rows(name)) != name}
    if not other:
        return events
    return [
        event
        if (to := other.get((event.schema, event.table))) is None
        else msgspec.structs.replace(event, schema=to[0], table=to[1])
        for event in events
    ]


def _log_rows(
    plan: LandingPlan,
    batch: pa.RecordBatch,
    events: Sequence[Envelope],
    origin: list[int] | None,
    seqs: list[int] | None,
    buckets: _Buckets,
) -> pa.RecordBatch:
    count = len(events)
    places = batch.select(["topic", "partition", "offset"])
    if origin is not None:
        places = places.take(pa.array(origin, pa.int64()))
    columns = [
        pa.repeat(pa.scalar(plan.generation, pa.int32()), count),
        pa.repeat(pa.scalar(plan.batch, pa.int64()), count),
        pa.array([buckets[event.schema, event.table] for event in events], pa.int32()),
        pa.repeat(pa.scalar("row"), count),
        *places.columns,
        pa.repeat(pa.scalar(0, pa.int32()), count) if seqs is None else pa.array(seqs, pa.int32()),
        pa.array([event.op for event in events], pa.string()),
        pa.array([event.schema for event in events], pa.string()),
        pa.array([event.table for event in events], pa.string()),
        pa.array([event.table_id for event in events], pa.int64()),
        pa.array([event.schema_key for event in events], pa.string()),
        pa.array([event.commit_ts for event in events], pa.int64()),
        pa.array([event.partial for event in events], pa.bool_()),
        pa.array([event.key for event in events], pa.binary()),
        pa.array([event.before for event in events], pa.binary()),
        pa.array([event.after for event in events], pa.binary()),
        pa.nulls(count, pa.string()),
        *_checksums(events, verify=plan.verify_checksum),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LOG_SCHEMA)


def _checksums(events: Sequence[Envelope], *, verify: bool) -> tuple[pa.Array, pa.Array]:
    if not verify:
        return pa.nulls(len(events), pa.int64()), pa.nulls(len(events), pa.bool_())
    sums = [expected(event.checksum, partial=event.partial)[1] for event in events]
    marks = [None if event.checksum is None else event.checksum.corrupted for event in events]
    return pa.array(sums, pa.int64()), pa.array(marks, pa.bool_())


def _sort_out(plan: LandingPlan, rows: pa.RecordBatch, summaries: _Summaries) -> pa.RecordBatch:
    """Count the rows of each group; leave out certain replays and name the rows that may be late."""
    inserts = pc.cast(pc.equal(rows.column("op"), "insert"), pa.int64())
    groups = (
        pa.Table.from_batches([rows])
        .append_column("inserts", inserts)
        .group_by(_GROUP)
        .aggregate([("commit_ts", "min"), ("commit_ts", "max"), ("commit_ts", "count"), ("inserts", "sum")])
    )
    for group in groups.to_pylist():
        key: _Key = tuple(group[name] for name in _GROUP)
        summary = summaries.setdefault(key, RowCounts())
        replay_below = replay_below_of(plan, key[2], key[3])
        summary.hidden |= not group["commit_ts_min"]
        if group["commit_ts_min"] > replay_below:
            summary.rows += group["commit_ts_count"]
            summary.inserts += group["inserts_sum"]
            summary.min_ts = min(summary.min_ts, group["commit_ts_min"])
            summary.max_ts = max(summary.max_ts, group["commit_ts_max"])
        else:
            rows = _sort_out_old(plan, rows, key, replay_below, summary)
    return rows


def replay_below_of(plan: LandingPlan, schema: str, table: str) -> int:
    """The commit_ts at or below which a row of a table was applied before, or is late."""
    return plan.table_replay_below.get(table_id_key(schema, table), -1 if plan.arrival else 0)


def passed_of(plan: LandingPlan, topic: str, partition: int, schema: str, table: str) -> int:
    """The commit_ts below which everything of a table was there before this batch: its partition had passed it, or a
    full read of the table has it."""
    passed = _HIGHEST if plan.arrival else plan.watermarks.get(partition_key(topic, partition), 0)
    return max(passed, plan.bases.get(table_id_key(schema, table), -1) + 1)


def kind_of(ts: int, replay_below: int, passed: int, summary: RowCounts) -> Literal["row", "late"] | None:
    """What a row is in a group that has rows at or below ``replay_below``; counts it.

    Returns: ``None`` for a certain replay, which does not stay in the log.
    """
    if ts > replay_below:
        summary.rows += 1
        summary.min_ts = min(summary.min_ts, ts)
        summary.max_ts = max(summary.max_ts, ts)
        return "row"
    if ts < passed:
        summary.replays += 1
        return None
    summary.late += 1
    return "late"


def _sort_out_old(
    plan: LandingPlan, rows: pa.RecordBatch, key: _Key, replay_below: int, summary: RowCounts
) -> pa.RecordBatch:
    """Sort out one group that has rows at or below ``replay_below``: its partition may have passed them before."""
    kinds, stamps = (rows.column(name).to_pylist() for name in ("kind", "commit_ts"))
    passed = passed_of(plan, *key[:4])
    mine = pc.and_(
        pc.equal(rows.column("schema_key"), key[4]),
        pc.and_(pc.equal(rows.column("schema"), key[2]), pc.equal(rows.column("table"), key[3])),
    )
    here = pc.and_(pc.equal(rows.column("topic"), key[0]), pc.equal(rows.column("partition"), key[1]))
    keep = [True] * len(kinds)
    for at, is_mine in enumerate(pc.and_(mine, here).to_pylist()):
        if not is_mine:
            continue
        kind = kind_of(stamps[at], replay_below, passed, summary)
        if kind is None:
            keep[at] = False
        else:
            kinds[at] = kind
    place = rows.schema.get_field_index("kind")
    named = rows.set_column(place, rows.schema.field(place), pa.array(kinds, pa.string()))
    return named.filter(pa.array(keep))


def _controls(
    plan: LandingPlan, batch: pa.RecordBatch, others: _Others, keys: list[bytes | None], values: list[bytes | None]
) -> pa.RecordBatch:
    """Rows of everything in a batch that is no row change."""
    topics, partitions, offsets = (batch.column(name) for name in ("topic", "partition", "offset"))
    found = [
        _control(
            plan, (topics[at].as_py(), partitions[at].as_py(), offsets[at].as_py(), seq), event, keys[at], values[at]
        )
        for at, seq, event in others
    ]
    return pa.RecordBatch.from_pylist(found, schema=LOG_SCHEMA)


def _control(
    plan: LandingPlan, place: tuple[str, int, int, int], event: Event, key: bytes | None, value: bytes | None
) -> dict[str, object]:
    topic, partition, offset, seq = place
    row: dict[str, object] = {
        "generation": plan.generation,
        "batch": plan.batch,
        "slot": CONTROL_BUCKET,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "seq": seq,
        "commit_ts": 0,
        "schema": "",
        "table": "",
        "control": msgspec.json.encode(event).decode(),
    }
    match event:
        case Watermark():
            return row | {"kind": "watermark", "commit_ts": event.commit_ts}
        case SchemaChange():
            return row | {"kind": "ddl", "commit_ts": event.commit_ts, "schema": event.schema, "table": event.name}
        case Bootstrap():
            return row | {"kind": "bootstrap", "schema": event.table.schema, "table": event.table.name}
        case LeftOut():
            return row | {"kind": "skipped", "commit_ts": event.commit_ts, "key": key, "after": value}
        case Rejected():
            return row | {"kind": "rejected", "key": key, "after": value}
        case Envelope():
            message = "a row change is no control event"
            raise AssertionError(message)


def _summary_rows(plan: LandingPlan, summaries: _Summaries) -> pa.RecordBatch:
    rows = [
        {
            "generation": plan.generation,
            "batch": plan.batch,
            "slot": CONTROL_BUCKET,
            "kind": "summary",
            "offset": -1,
            "seq": 0,
            "commit_ts": summary.min_ts,
            "control": msgspec.json.encode(summary).decode(),
        }
        | dict(zip(_GROUP, key, strict=True))
        for key, summary in summaries.items()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LOG_SCHEMA)
