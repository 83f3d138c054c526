"""The scan of new messages: it returns control events in full, and only summaries of row changes.

Rows stay in the topic. For each range of about ``CHUNK`` messages of a partition, the driver learns which tables have
rows there, how many, and their commit timestamps. It reads the rows when they are applied.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import add

import msgspec
import numpy as np
import pyarrow as pa

from ticdc_spark.changes.opening import Group, Messages, Opened, Opener, Opening, group_rows, of_batch
from ticdc_spark.changes.schema_blocks import Blocks
from ticdc_spark.ddl.known_names import KnownNames, Names
from ticdc_spark.model import Bootstrap, Envelope, Event, Rejected, SchemaChange, TableName, Watermark
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.rows import Numbers
from ticdc_spark.spark.decode.control import (
    OPS,
    BootstrapRead,
    ControlEvent,
    DdlRead,
    LeftOut,
    MessageRejected,
    MessageSkipped,
    RowCounts,
    RowsRead,
    SchemaIds,
    SchemaIdsRead,
    WatermarkRead,
)
from ticdc_spark.spark.tasks import ArrowTask, in_worker
from ticdc_spark.wire.confluent import head, schema_id

CHUNK = 16_384
"""Messages in one summary. If only its last rows wait, up to this many messages may be read in vain."""
EVENTS = pa.schema([("events", pa.binary())])
"""The result of a task: lists of control events in MessagePack."""
EVENTS_DDL = "events binary"
_HIGHEST = 2**63 - 1
_INSERT = OPS.index("insert")
_SAMPLED = 16
"""How many messages of a group are sampled for their size."""


class ScanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a scan. Sent to every task."""

    opening: Opening
    table_replay_below: dict[str, int] = {}
    """``schema NUL table`` to the commit_ts at or below which rows were applied before, or are late."""
    watermarks: dict[str, int] = {}
    """``topic NUL partition`` to the highest watermark read before."""
    bases: dict[str, int] = {}
    """``schema NUL table`` to the commit_ts of the table's full read: every row up to it is a replay."""
    has_watermarks: bool = True
    """Without watermarks, a row at or below ``table_replay_below``, its table's last DDL, is a replay."""
    names: Names = Names()
    """The known names of tables. Rows whose table differs from one only by case count under it."""


def table_id_key(schema: str, table: str) -> str:
    """Key of a table in ``ScanPlan.table_replay_below``."""
    return f"{schema}\0{table}"


def partition_key(topic: str, partition: int) -> str:
    """Key of a partition in ``ScanPlan.watermarks``."""
    return f"{topic}\0{partition}"


def scan(plan: ScanPlan) -> ArrowTask:
    """Return the function for ``mapInArrow`` from messages to ``EVENTS``."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opener, scanner = Opener(plan.opening), Scanner(plan)
        for batch in batches:
            messages = of_batch(batch)
            scanner.add(messages, opener.open(messages))
        yield pa.RecordBatch.from_arrays(
            [pa.array([msgspec.msgpack.encode(scanner.finish())], pa.binary())], schema=EVENTS
        )

    return in_worker(run)


_EVENTS_OF_TASK = msgspec.msgpack.Decoder(list[ControlEvent])


def read_events(encoded: Iterable[bytes]) -> list[ControlEvent]:
    """The control events that tasks returned."""
    return [event for one in encoded for event in _EVENTS_OF_TASK.decode(one)]


class Scanner:
    """Sums up messages."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan
        self._known = KnownNames(plan.names)
        self._names: dict[TableName, TableName] = {}
        self._found: list[ControlEvent] = []
        self._groups: dict[Group, RowCounts] = {}
        self._since = 0
        self._heads: dict[tuple[bytes | None, bytes | None], None] = {}
        opening = plan.opening
        of_row = PROTOCOLS[opening.protocol].row_tables() if opening.block_keys else None
        self._blocks = None if of_row is None else Blocks(of_row)

    def add(self, messages: Messages, opened: Opened) -> None:
        """Sum up messages and their events."""
        if self._plan.opening.schemas is not None:
            self._heads |= dict.fromkeys(zip(map(head, messages.keys), map(head, messages.values), strict=True))
        if self._blocks is not None:
            self._found += self._blocks.of(opened, messages, self._name)
        self._add_rows(messages, opened)
        self._found += (self._control(messages, at, seq, event) for at, seq, event in opened.others)
        self._since += len(messages.offsets)
        if self._since >= CHUNK:
            self._flush()

    def finish(self) -> list[ControlEvent]:
        """All control events of the added messages."""
        self._flush()
        place = {"topic": "", "partition": 0, "offset": -1, "seq": 0}
        for pair in self._heads:
            ids = SchemaIds(*(None if part is None else schema_id(part) for part in pair))
            self._found.append(SchemaIdsRead(**place, ids=ids))  # type: ignore[arg-type]
        self._heads = {}
        found, self._found = self._found, []
        return found

    def _flush(self) -> None:
        self._since = 0
        for (topic, partition, *sent, key), counts in self._groups.items():
            schema, table = self._name((sent[0], sent[1]))
            self._found.append(
                RowsRead(
                    topic=topic,
                    partition=partition,
                    offset=-1,
                    seq=0,
                    schema=schema,
                    table=table,
                    schema_key=key,
                    sent=(sent[0], sent[1]),
                    summary=counts,
                )
            )
        self._groups = {}

    def _name(self, sent: TableName) -> TableName:
        found = self._names.get(sent)
        if found is None:
            found = self._names[sent] = self._known.of_rows(sent)
        return found

    def _add_rows(self, messages: Messages, opened: Opened) -> None:
        origin, values, rows = opened.origin, messages.values, opened.rows
        offsets = np.asarray(messages.offsets, np.int64)
        places = offsets if isinstance(origin, range) else offsets[np.asarray(origin, np.int64)]
        ops = np.array([OPS.index(kind.op) for kind in rows.kinds], np.int64)
        for key, numbers in group_rows(messages, opened).items():
            counts = self._groups.get(key)
            if counts is None:
                counts = self._groups[key] = RowCounts()
            offsets_of_group = places[numbers]
            sample = [origin[number] for number in _sample(numbers)]
            size = _about_bytes(values, sample, len(numbers))
            counts.bytes += size
            count = len(numbers)
            if not isinstance(origin, range):  # some messages have several rows
                firsts = numbers[np.append(0, np.flatnonzero(np.diff(offsets_of_group)) + 1)]
                count, sample = len(firsts), [origin[number] for number in _sample(firsts)]
                size = _about_bytes(values, sample, count)
            counts.messages += count
            counts.message_bytes += size + _about_bytes(messages.keys, sample, count)
            found = np.bincount(ops[rows.kind_of[numbers]], minlength=len(OPS)).tolist()
            counts.ops = tuple(map(add, counts.ops, found))
            self._count(key, (rows.commit_ts[numbers], offsets_of_group), found[_INSERT], counts)

    def _count(self, key: Group, at: tuple[Numbers, Numbers], inserts: int, counts: RowCounts) -> None:
        """``at``: commit timestamps and offsets."""
        stamps, places = at
        schema, table = self._name((key[2], key[3]))
        lowest, replay_below = int(stamps.min()), replay_below_of(self._plan, schema, table)
        counts.hidden |= not lowest
        if lowest > replay_below:
            counts.take(len(stamps), lowest, int(stamps.max()), int(places.min()), int(places.max()))
            counts.inserts += inserts
            return
        passed = passed_of(self._plan, key[0], key[1], schema, table)
        for ts, offset in zip(stamps.tolist(), places.tolist(), strict=True):
            count_old(ts, offset, replay_below, passed, counts)

    def _control(self, messages: Messages, at: int, seq: int, event: Event) -> ControlEvent:
        topic, partition, offset = messages.topics[at], messages.partitions[at], messages.offsets[at]
        match event:
            case Watermark():
                return WatermarkRead(
                    topic=topic, partition=partition, offset=offset, seq=seq, commit_ts=event.commit_ts
                )
            case SchemaChange():
                return DdlRead(topic=topic, partition=partition, offset=offset, seq=seq, change=event)
            case Bootstrap():
                return BootstrapRead(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    seq=seq,
                    table=event.table,
                    commit_ts=event.commit_ts,
                )
            case LeftOut():
                return MessageSkipped(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    seq=seq,
                    reason=event.reason,
                    tables=event.tables,
                    commit_ts=event.commit_ts,
                )
            case Rejected():
                return MessageRejected(topic=topic, partition=partition, offset=offset, seq=seq, reason=event.reason)
            case Envelope():
                message = "a row change is no control event"
                raise AssertionError(message)


def _sample(numbers: Numbers) -> list[int]:
    return numbers[:: max(1, len(numbers) // _SAMPLED)].tolist()  # type: ignore[no-any-return]


def _about_bytes(cells: Sequence[bytes | None], sample: Sequence[int], count: int) -> int:
    """About the bytes of ``count`` cells, by some of them."""
    return sum(len(cells[at] or b"") for at in sample) * count // len(sample)


def replay_below_of(plan: ScanPlan, schema: str, table: str) -> int:
    """The commit_ts at or below which a row of a table was applied before, or is late."""
    return plan.table_replay_below.get(table_id_key(schema, table), 0 if plan.has_watermarks else -1)


def passed_of(plan: ScanPlan, topic: str, partition: int, schema: str, table: str) -> int:
    """The commit_ts below which the job had everything of a table before this batch: its partition was past it, or a
    full read of the table has it."""
    passed = plan.watermarks.get(partition_key(topic, partition), 0) if plan.has_watermarks else _HIGHEST
    return max(passed, plan.bases.get(table_id_key(schema, table), -1) + 1)


def count_old(ts: int, offset: int, replay_below: int, passed: int, counts: RowCounts) -> None:
    """Count a row of a group that has rows at or below ``replay_below``."""
    if ts > replay_below:
        counts.take(1, ts, ts, offset, offset)
    elif ts < passed:
        counts.replays += 1
    else:
        counts.take_late(ts, offset)
