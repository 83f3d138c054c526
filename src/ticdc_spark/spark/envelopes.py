"""Landing: messages to rows of the change log, as ``mapInArrow`` over a protocol's ``open_message``.

One pass does three things: it opens each message, drops row changes that are certainly replays (counted), and adds
one summary row a task, partition, table and schema key, so that the driver learns what it needs without a second pass.
"""

from collections.abc import Callable, Iterator
from zlib import crc32

import msgspec
import pyarrow as pa

from ticdc_spark.model import Bootstrap, Envelope, Event, Rejected, SchemaChange, Watermark
from ticdc_spark.protocols import decoder

CONTROL_SLOT = -1
"""The log's slot of everything that the driver reads; rows of tables are in slots from 0."""

LOG_SCHEMA = pa.schema(
    [
        ("generation", pa.int32()),
        ("batch", pa.int64()),
        ("slot", pa.int32()),
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("seq", pa.int32()),
        ("op", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("table_id", pa.int64()),
        ("schema_key", pa.string()),
        ("commit_ts", pa.int64()),
        ("partial", pa.bool_()),
        ("key", pa.binary()),
        ("before", pa.binary()),
        ("after", pa.binary()),
        ("control", pa.string()),
    ]
)
"""The change log. ``kind``: row, late (a row at or below its table's floor that may be late), ddl, watermark,
bootstrap, rejected, summary. ``control``: JSON of what the kind carries. A rejected message keeps its bytes in
``key`` and ``after``. ``seq`` counts the events of one message."""

LOG_DDL = ", ".join(
    f"`{field.name}` {kind}"
    for field, kind in zip(
        LOG_SCHEMA,
        "int bigint int string string int bigint int string string string bigint string bigint boolean binary binary binary string".split(),
        strict=True,
    )
)
"""The same in Spark's words."""


class LandingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a landing task must know; sent to every task."""

    protocol: str
    generation: int
    batch: int
    slots: int
    floors: dict[str, int]
    """``schema NUL table`` to the commit_ts up to which the table is applied."""
    watermarks: dict[str, int]
    """``topic NUL partition`` to the highest watermark read before this batch."""


class Summary(msgspec.Struct):
    """What one task saw of one (partition, table, schema key)."""

    rows: int = 0
    """Above the table's floor."""
    min_ts: int = 0
    max_ts: int = 0
    replays: int = 0
    bytes: int = 0


_Key = tuple[str, int, str, str, str]


def table_id_key(schema: str, table: str) -> str:
    """Key of a table in ``LandingPlan.floors``."""
    return f"{schema}\0{table}"


def partition_key(topic: str, partition: int) -> str:
    """Key of a partition in ``LandingPlan.watermarks``."""
    return f"{topic}\0{partition}"


def land(plan: LandingPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for ``mapInArrow``: batches of (topic, partition, offset, timestamp, key, value) to the log."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_message = decoder(plan.protocol).open_message
        sorter = _Sorter(plan)
        for batch in batches:
            topics, partitions, offsets, keys, values = (
                batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "key", "value")
            )
            rows = _Rows(plan)
            for topic, partition, offset, key, value in zip(topics, partitions, offsets, keys, values, strict=True):
                for seq, event in enumerate(open_message(key, value)):
                    if type(event) is Envelope:
                        kind = sorter.kind(topic, partition, event)
                        if kind is not None:
                            rows.add_row(kind, sorter.slot(event.schema, event.table), topic, partition, offset, seq, event)
                    else:
                        rows.add_control(topic, partition, offset, seq, event, key, value)
            if rows.kind:
                yield rows.batch()
        summary = sorter.summaries()
        if summary is not None:
            yield summary

    return run


class _Sorter:
    """Tells a new row from a replay and counts both, for one task."""

    def __init__(self, plan: LandingPlan) -> None:
        self.plan = plan
        self.seen: dict[_Key, Summary] = {}
        self.slots: dict[tuple[str, str], int] = {}

    def slot(self, schema: str, table: str) -> int:
        key = (schema, table)
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = crc32(table_id_key(schema, table).encode()) % self.plan.slots
        return found

    def kind(self, topic: str, partition: int, event: Envelope) -> str | None:
        """``row``, ``late``, or ``None`` for a certain replay: its partition had passed its commit_ts before."""
        key = (topic, partition, event.schema, event.table, event.schema_key)
        summary = self.seen.get(key)
        if summary is None:
            summary = self.seen[key] = Summary()
        ts = event.commit_ts
        if ts <= self.plan.floors.get(f"{event.schema}\0{event.table}", 0):
            if ts < self.plan.watermarks.get(partition_key(topic, partition), 0):
                summary.replays += 1
                return None
            return "late"
        if not summary.rows or ts < summary.min_ts:
            summary.min_ts = ts
        if ts > summary.max_ts:
            summary.max_ts = ts
        summary.rows += 1
        return "row"

    def summaries(self) -> pa.RecordBatch | None:
        if not self.seen:
            return None
        rows = _Rows(self.plan)
        for (topic, partition, schema, table, schema_key), summary in self.seen.items():
            envelope = Envelope("upsert", schema, table, summary.min_ts, schema_key=schema_key)
            rows.add_row("summary", CONTROL_SLOT, topic, partition, -1, 0, envelope)
            rows.control[-1] = msgspec.json.encode(summary).decode()
        return rows.batch()


class _Rows:
    """Column lists of the log's rows."""

    def __init__(self, plan: LandingPlan) -> None:
        self.plan = plan
        self.slot: list[int] = []
        self.kind: list[str] = []
        self.place: list[tuple[str, int, int, int]] = []
        self.events: list[Envelope] = []
        self.control: list[str | None] = []

    def add_row(
        self, kind: str, slot: int, topic: str, partition: int, offset: int, seq: int, event: Envelope
    ) -> None:
        self.slot.append(slot)
        self.kind.append(kind)
        self.place.append((topic, partition, offset, seq))
        self.events.append(event)
        self.control.append(None)

    def add_control(
        self, topic: str, partition: int, offset: int, seq: int, event: Event, key: bytes | None, value: bytes | None
    ) -> None:
        match event:
            case Watermark(commit_ts):
                self.add_row("watermark", CONTROL_SLOT, topic, partition, offset, seq, Envelope("upsert", "", "", commit_ts))
            case SchemaChange():
                envelope = Envelope("upsert", event.schema, event.name, event.commit_ts)
                self.add_row("ddl", CONTROL_SLOT, topic, partition, offset, seq, envelope)
                self.control[-1] = encode_control(event)
            case Bootstrap(table):
                envelope = Envelope("upsert", table.schema, table.name, 0)
                self.add_row("bootstrap", CONTROL_SLOT, topic, partition, offset, seq, envelope)
                self.control[-1] = encode_control(event)
            case Rejected():
                envelope = Envelope("upsert", "", "", 0, key=key, after=value)
                self.add_row("rejected", CONTROL_SLOT, topic, partition, offset, seq, envelope)
                self.control[-1] = encode_control(event)
            case Envelope():
                self.add_row("row", CONTROL_SLOT, topic, partition, offset, seq, event)

    def batch(self) -> pa.RecordBatch:
        count = len(self.kind)
        topics, partitions, offsets, seqs = zip(*self.place, strict=True)
        events = self.events
        columns = [
            pa.repeat(pa.scalar(self.plan.generation, pa.int32()), count),
            pa.repeat(pa.scalar(self.plan.batch, pa.int64()), count),
            pa.array(self.slot, pa.int32()),
            pa.array(self.kind, pa.string()),
            pa.array(topics, pa.string()),
            pa.array(partitions, pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array(seqs, pa.int32()),
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
            pa.array(self.control, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=LOG_SCHEMA)


def encode_control(event: SchemaChange | Bootstrap | Rejected) -> str:
    """Write a control event for the log's ``control`` column; bytes in it become base64."""
    return msgspec.json.encode(event).decode()
