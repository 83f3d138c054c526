"""Open messages in a task: turn bytes into events, and row changes into columns of raw images."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.config.job import Route
from ticdc_spark.config.routes import Routes, compiled
from ticdc_spark.config.shards import key_of_shard
from ticdc_spark.model import Envelope, Event, Message, Watermark
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.checksums import expected
from ticdc_spark.protocols.rows import Numbered, Numbers, RowKind, Rows, RowsDecoder, joined, rows_of
from ticdc_spark.spark.decode.control import left_out
from ticdc_spark.spark.decode.raw import ABOUT, RawRows, picked
from ticdc_spark.streams.claim_check import whole_messages

WORTHWHILE = 64
"""If the fast path opens at least this many messages at once, only the next one is opened in another way."""


WATERMARK = "watermark"
"""The op of a row that represents a watermark, if watermarks are requested."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """How to open the messages of a job. Sent to every task."""

    protocol: str
    native: dict[str, str] = {}
    """The configuration of Debezium's own connector."""
    schemas: dict[int, str] | None = None
    """Registered schemas by id (Avro)."""
    block_keys: bool = False
    """Whether schema keys are hashes of schema blocks (Debezium)."""
    claim_check_storage: str | None = None
    """Where the changefeed keeps rows that are too large for Kafka."""
    verify_checksum: bool = False
    """Whether the checksums in messages are kept."""
    left_out: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, offset) of messages to skip."""
    routes: tuple[Route, ...] = ()
    """Rules that merge tables; empty if no rule does."""


class Messages(NamedTuple):
    """Messages as columns, all of the same length."""

    topics: Sequence[str]
    partitions: Sequence[int]
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]

    def slice(self, first: int, end: int) -> "Messages":
        """A range of the messages."""
        topics, partitions, offsets, keys, values = self
        return Messages(
            topics[first:end], partitions[first:end], offsets[first:end], keys[first:end], values[first:end]
        )


NO_MESSAGES = Messages([], [], [], [], [])
"""No messages."""


def of_batch(batch: pa.RecordBatch) -> Messages:
    """The messages of an Arrow batch with the columns of a source."""
    names = ("topic", "partition", "offset", "key", "value")
    return Messages(*(_cells(batch.column(name)) for name in names))


def _cells(column: pa.Array) -> Sequence[Any]:
    if len(column) and column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_integer(column.type):
        return column.to_numpy().tolist()  # type: ignore[no-any-return]
    if pa.types.is_string(column.type) and _has_one_value(column):
        return [column[0].as_py()] * len(column)  # one object, which is fast to compare
    return column.to_pylist()  # type: ignore[no-any-return]


def _has_one_value(column: pa.Array) -> bool:
    return len(column) > 0 and not column.null_count and bool(pc.all(pc.equal(column, column[0])).as_py())


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
    """The events of some messages: row changes, and all other events."""

    rows: Rows
    origin: Sequence[int]
    """For each row, the number of its message."""
    seqs: Sequence[int] | None
    """For each row, its place in its message; ``None``: each is the first."""
    others: list[tuple[int, int, Event]]
    """Each with the number of its message and its place there."""
    messages: int = 0
    """The number of messages."""


class Opener:
    """Opens messages for one task."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._protocol = decoder(opening.protocol, opening.schemas, opening.native, block_keys=opening.block_keys)
        self._many = self._protocol if isinstance(self._protocol, RowsDecoder) and not opening.left_out else None
        self._some = 1
        """How many messages are opened one by one before the fast path is tried again: more after each failed try."""
        self._skip = frozenset(opening.left_out)
        self._routes = compiled(opening.routes) if opening.routes else None
        storage = opening.claim_check_storage
        self._fetch = None if storage is None else ClaimCheckStorage(storage).fetch

    def open(self, messages: Messages) -> Opened:
        """The events of messages. Raises: SourceFault when a claim check cannot be fetched"""
        opened = self._opened(messages)
        return opened if self._routes is None else opened._replace(rows=_merged(self._routes, opened.rows))

    def _opened(self, messages: Messages) -> Opened:
        if self._many is None:
            return self._open(messages)
        values, size = messages.values, len(messages.values)
        parts: list[Opened] = []
        at = 0
        while at < size:
            rows = self._many.open_rows(values[at:] if at else values)
            if len(rows):
                parts.append(Opened(rows, range(len(rows)), None, [], len(rows)))
                at += len(rows)
            if at < size:
                self._some = 1 if len(rows) >= WORTHWHILE else self._some * 8
                parts.append(self._open(messages.slice(at, at + self._some)))
                at += self._some
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _open(self, messages: Messages) -> Opened:
        """Open messages one by one."""
        open_message = self._protocol.open_message
        events: list[Sequence[Event]] = list(map(open_message, messages.keys, messages.values))
        if self._skip:
            places = zip(messages.topics, messages.partitions, messages.offsets, strict=True)
            events = [[left_out(one)] if at in self._skip else one for at, one in zip(places, events, strict=True)]
        rows, origin, seqs, others = _split(events)
        if any(event.claim_check for event in rows):
            rows, origin, seqs, others = _split(whole_messages(self._protocol, events, self._fetch))
        return Opened(rows_of(rows), origin, seqs, others, len(events))


def _merged(routes: Routes, rows: Rows) -> Rows:
    """Turn rows of shards into rows of their merged table."""
    kinds = [_of_merged(routes, kind) for kind in rows.kinds]
    return rows if kinds == list(rows.kinds) else Rows(kinds, rows.kind_of, rows.commit_ts, rows.columns)


def _of_merged(routes: Routes, kind: RowKind) -> RowKind:
    shard = (kind.schema, kind.table)
    merged = routes.merged(shard)
    if merged is None:
        return kind
    return kind._replace(schema=merged[0], table=merged[1], schema_key=key_of_shard(kind.schema_key, shard))


def _joined(parts: Sequence[Opened]) -> Opened:
    """Join the events of consecutive messages."""
    if not parts:
        return Opened(rows_of([]), [], None, [])
    origin: list[int] = []
    seqs: list[int] = []
    others: list[tuple[int, int, Event]] = []
    first = 0
    for part in parts:
        origin += (first + at for at in part.origin)
        seqs += [0] * len(part.rows) if part.seqs is None else part.seqs
        others += ((first + at, seq, event) for at, seq, event in part.others)
        first += part.messages
    return Opened(joined([part.rows for part in parts]), origin, seqs if any(seqs) else None, others, first)


Split = tuple[list[Envelope], Sequence[int], list[int] | None, list[tuple[int, int, Event]]]
"""As ``Opened``."""


def _split(opened: Sequence[Sequence[Event]]) -> Split:
    if all(map((1).__eq__, map(len, opened))):
        events = [event for (event,) in opened]
        others: list[tuple[int, int, Event]] = [
            (at, 0, event) for at, event in enumerate(events) if type(event) is not Envelope
        ]
        if not others:
            return events, range(len(events)), None, others  # type: ignore[return-value]
        origin = [at for at, event in enumerate(events) if type(event) is Envelope]
        return [events[at] for at in origin], origin, None, others  # type: ignore[misc]
    places = [(at, seq, event) for at, events in enumerate(opened) for seq, event in enumerate(events)]
    rows = [(at, seq, event) for at, seq, event in places if type(event) is Envelope]
    others = [place for place in places if type(place[2]) is not Envelope]
    return [row for *_, row in rows], [at for at, *_ in rows], [seq for _, seq, _ in rows], others


Group = tuple[str, int, str, str, str]
"""Topic, partition, schema, table and schema key of rows."""


def group_rows(messages: Messages, opened: Opened) -> dict[Group, Numbers]:
    """The numbers of rows by their group, in order."""
    rows, topics, partitions = opened.rows, messages.topics, messages.partitions
    if not len(rows):
        return {}
    tables: Numbered[tuple[str, str, str]] = Numbered()
    places: Numbered[tuple[str, int]] = Numbered()
    codes = np.array(tables.of((kind.schema, kind.table, kind.schema_key) for kind in rows.kinds))[rows.kind_of]
    if _is_one(topics) and _is_one(partitions):
        places.of(iter([(topics[0], partitions[0])]))
    else:
        place_of = np.array(places.of(zip(topics, partitions, strict=True)))[np.asarray(opened.origin)]
        codes += place_of * len(tables)
    # Sorting is fastest with small numbers.
    order = np.argsort(codes.astype(np.min_scalar_type(len(tables) * len(places))), kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    named = [(*place, *table) for place in places for table in tables]
    return {named[codes[numbers[0]]]: numbers for numbers in np.split(order, ends)}


def raw_watermarks(messages: Messages, opened: Opened, is_wanted: Callable[[str, int, int], bool]) -> RawRows:
    """Watermarks as rows without images, each with its commit_ts. ``is_wanted``: by topic, partition and offset."""
    found = []
    for at, seq, event in opened.others:
        topic, partition, offset = messages.topics[at], messages.partitions[at], messages.offsets[at]
        if isinstance(event, Watermark) and is_wanted(topic, partition, offset):
            place = {"topic": topic, "partition": partition, "offset": offset, "seq": seq}
            found.append({**place, "op": WATERMARK, "commit_ts": event.commit_ts})
    nothing = [None] * len(found)
    return RawRows(pa.RecordBatch.from_pylist(found, schema=ABOUT), nothing, nothing)


def raw_rows(messages: Messages, opened: Opened, chosen: Iterable[int], *, verify: bool, ids: bool = False) -> RawRows:
    """Some of the rows, with raw images. ``chosen``: their numbers; ``verify``: add their checksums; ``ids``: add their
    physical ids."""
    rows, numbers = opened.rows, np.asarray(chosen, np.int64)
    listed: list[int] = numbers.tolist()
    origin = _array(opened.origin)[numbers]
    kind_of, kinds = pa.array(rows.kind_of[numbers]), rows.kinds
    cells: dict[str, Any] = {
        "topic": _taken(messages.topics, origin),
        "partition": _taken(messages.partitions, origin),
        "offset": picked(messages.offsets, origin.tolist()),
        "seq": _taken([0] if opened.seqs is None else opened.seqs, numbers),
        "op": pa.array([kind.op for kind in kinds], pa.string()).take(kind_of),
        "schema_key": pa.array([kind.schema_key for kind in kinds], pa.string()).take(kind_of),
        "commit_ts": rows.commit_ts[numbers],
        "partial": pa.array([kind.partial for kind in kinds], pa.bool_()).take(kind_of),
    }
    before, after, table_ids, checksums = rows.columns
    if verify and checksums is not None:
        sums = [checksums[at] for at in listed]
        partial = [kinds[at].partial for at in rows.kind_of[numbers]]
        cells["checksum"] = [expected(one, partial=some)[1] for one, some in zip(sums, partial, strict=True)]
        cells["corrupted"] = [None if one is None else one.corrupted for one in sums]
    if ids:
        cells["table_id"] = [table_ids[at] for at in listed]
    arrays = [_arrow(cells.get(field.name), field.type, len(listed)) for field in ABOUT]
    about = pa.RecordBatch.from_arrays(arrays, schema=ABOUT)
    return RawRows(about, picked(before, listed), picked(after, listed))


def _arrow(cells: Any, kind: pa.DataType, size: int) -> pa.Array:
    if cells is None:
        return pa.nulls(size, kind)
    if isinstance(cells, _Same):
        return pa.repeat(pa.scalar(cells.value, kind), size)
    return cells if isinstance(cells, pa.Array) else pa.array(cells, kind)


class _Same(NamedTuple):
    """A column with the same value in every row."""

    value: object


def _taken(cells: Sequence[object], numbers: Numbers) -> _Same | Sequence[object]:
    return _Same(cells[0]) if cells and _is_one(cells) else picked(cells, numbers.tolist())


def _array(numbers: Sequence[int]) -> Numbers:
    return np.arange(len(numbers)) if isinstance(numbers, range) else np.asarray(numbers, np.int64)


def _is_one(cells: Sequence[object]) -> bool:
    """Whether all cells are equal."""
    return cells.count(cells[0]) == len(cells)
