"""Opening messages in a task: bytes to events, and the row changes among them as columns of raw images."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.model import Envelope, Event, Message, Watermark
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.checksums import expected
from ticdc_spark.spark.decode.control import left_out
from ticdc_spark.streams.claim_check import whole_messages

RAW_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("seq", pa.int32()),
        ("op", pa.string()),
        ("schema_key", pa.string()),
        ("commit_ts", pa.int64()),
        ("partial", pa.bool_()),
        ("before", pa.binary()),
        ("after", pa.binary()),
        ("checksum", pa.int64()),
        ("corrupted", pa.bool_()),
        ("table_id", pa.int64()),
    ]
)
"""Row changes of one table with raw images. ``seq`` counts the events of one message. ``table_id`` is the physical one,
where it is asked for."""


WATERMARK = "watermark"
"""The op of what stands for a watermark, where they are asked for."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """How the messages of a job are opened; sent to every task."""

    protocol: str
    native: dict[str, str] = {}
    """How Debezium's own connector is configured."""
    schemas: dict[int, str] | None = None
    """Registered schemas by id (Avro)."""
    block_keys: bool = False
    """Schema keys are hashes of schema blocks (Debezium)."""
    claim_check_storage: str | None = None
    """Where the changefeed keeps rows that are too large for Kafka."""
    verify_checksum: bool = False
    """Whether the checksums that messages carry are kept."""
    left_out: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, offset) of messages that are left out."""


class Messages(NamedTuple):
    """Messages as columns, all of the same length."""

    topics: Sequence[str]
    partitions: Sequence[int]
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


NO_MESSAGES = Messages([], [], [], [], [])
"""Not one."""


def of_batch(batch: pa.RecordBatch) -> Messages:
    """The messages of an Arrow batch with the columns of a source."""
    names = ("topic", "partition", "offset", "key", "value")
    return Messages(*(batch.column(name).to_pylist() for name in names))


def of_messages(messages: Sequence[Message]) -> Messages:
    """Messages as columns."""
    return Messages(
        [one.topic for one in messages],
        [one.partition for one in messages],
        [one.offset for one in messages],
        [one.key for one in messages],
        [one.value for one in messages],
    )


class Opened(NamedTuple):
    """The events of some messages: row changes apart from all others."""

    rows: list[Envelope]
    origin: Sequence[int]
    """The message that each row comes from."""
    seqs: list[int] | None
    """The place of each row in its message; ``None``: each is the first."""
    others: list[tuple[int, int, Event]]
    """Each with its message and its place there."""


class Opener:
    """Opens messages for one task."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._protocol = decoder(opening.protocol, opening.schemas, opening.native, block_keys=opening.block_keys)
        self._skip = frozenset(opening.left_out)
        storage = opening.claim_check_storage
        self._fetch = None if storage is None else ClaimCheckStorage(storage).fetch

    def open(self, messages: Messages) -> Opened:
        """The events of messages. Raises: SourceFault where a claim check cannot be fetched"""
        open_message = self._protocol.open_message
        events: list[Sequence[Event]] = list(map(open_message, messages.keys, messages.values))
        if self._skip:
            places = zip(messages.topics, messages.partitions, messages.offsets, strict=True)
            events = [[left_out(one)] if at in self._skip else one for at, one in zip(places, events, strict=True)]
        opened = _split(events)
        if any(event.claim_check for event in opened.rows):
            opened = _split(whole_messages(self._protocol, events, self._fetch))
        return opened


def _split(opened: Sequence[Sequence[Event]]) -> Opened:
    if all(map((1).__eq__, map(len, opened))):
        events = [event for (event,) in opened]
        others: list[tuple[int, int, Event]] = [
            (at, 0, event) for at, event in enumerate(events) if type(event) is not Envelope
        ]
        if not others:
            return Opened(events, range(len(events)), None, others)  # type: ignore[arg-type]
        origin = [at for at, event in enumerate(events) if type(event) is Envelope]
        return Opened([events[at] for at in origin], origin, None, others)  # type: ignore[misc]
    places = [(at, seq, event) for at, events in enumerate(opened) for seq, event in enumerate(events)]
    rows = [(at, seq, event) for at, seq, event in places if type(event) is Envelope]
    others = [place for place in places if type(place[2]) is not Envelope]
    return Opened([row for *_, row in rows], [at for at, *_ in rows], [seq for _, seq, _ in rows], others)


Group = tuple[str, int, str, str, str]
"""Topic, partition, schema, table and schema key of rows."""


def group_rows(messages: Messages, opened: Opened) -> dict[Group, list[int]]:
    """The numbers of rows by what they have in common, each in order."""
    topics, partitions = messages.topics, messages.partitions
    groups: dict[Group, list[int]] = {}
    for number, (row, at) in enumerate(zip(opened.rows, opened.origin, strict=True)):
        key = (topics[at], partitions[at], row.schema, row.table, row.schema_key)
        if key in groups:
            groups[key].append(number)
        else:
            groups[key] = [number]
    return groups


def raw_watermarks(messages: Messages, opened: Opened, is_wanted: Callable[[str, int, int], bool]) -> pa.RecordBatch:
    """The watermarks as ``RAW_SCHEMA``, each with its own commit_ts. ``is_wanted``: by topic, partition and offset."""
    found = []
    for at, seq, event in opened.others:
        topic, partition, offset = messages.topics[at], messages.partitions[at], messages.offsets[at]
        if isinstance(event, Watermark) and is_wanted(topic, partition, offset):
            place = {"topic": topic, "partition": partition, "offset": offset, "seq": seq}
            found.append({**place, "op": WATERMARK, "commit_ts": event.commit_ts})
    return pa.RecordBatch.from_pylist(found, schema=RAW_SCHEMA)


def raw_rows(
    messages: Messages, opened: Opened, chosen: Iterable[int], *, verify: bool, ids: bool = False
) -> pa.RecordBatch:
    """Some of the rows as ``RAW_SCHEMA``. ``chosen``: their numbers; ``verify``: with their checksums; ``ids``: with
    their physical ids."""
    numbers = list(chosen)
    rows = [opened.rows[at] for at in numbers]
    origin = [opened.origin[at] for at in numbers]
    sums: list[int | None] = [None] * len(rows)
    marks: list[bool | None] = [None] * len(rows)
    if verify:
        sums = [expected(row.checksum, partial=row.partial)[1] for row in rows]
        marks = [None if row.checksum is None else row.checksum.corrupted for row in rows]
    columns: list[Sequence[object]] = [
        [messages.topics[at] for at in origin],
        [messages.partitions[at] for at in origin],
        [messages.offsets[at] for at in origin],
        [0] * len(rows) if opened.seqs is None else [opened.seqs[at] for at in numbers],
        [row.op for row in rows],
        [row.schema_key for row in rows],
        [row.commit_ts for row in rows],
        [row.partial for row in rows],
        [row.before for row in rows],
        [row.after for row in rows],
        sums,
        marks,
        [row.table_id for row in rows] if ids else [None] * len(rows),
    ]
    arrays = [pa.array(cells, field.type) for cells, field in zip(columns, RAW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)
