"""A topic as a source of changes: in Kafka or recorded, in any protocol with watermarks.

Rows become transactions again by their commitTs. A protocol without watermarks or without commitTs is refused, as its
rows cannot be sorted: Avro, Debezium in Avro, and canal-json and Debezium without the TiDB extension.

A recorded topic is read from its beginning to its end. Messages above its last watermark are incomplete, and not given.
Kafka is followed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from ticdc_spark.capture.base import Captured, CaptureState, Resolved
from ticdc_spark.capture.reorder import Partition, PartitionAt, Reordering, StreamPosition
from ticdc_spark.capture.resume import WAY_OUT, checked, with_all
from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.config.secrets import is_secret_key, remember
from ticdc_spark.errors import SchemaMissing, SourceFault, UsageError
from ticdc_spark.protocols import canonical, protocol
from ticdc_spark.protocols.base import Decoder, ReadOptions
from ticdc_spark.streams.decoders import decoder_of
from ticdc_spark.streams.detect import ENOUGH, detected
from ticdc_spark.streams.reader import EventReader
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.manifest import ends as ends_of
from ticdc_spark.topics.manifest import list_recorded, spans
from ticdc_spark.topics.messages import recorded_messages
from ticdc_spark.topics.same_topics import TopicWatch

_EACH = 0.9
"""Seconds between two ``Resolved`` of a topic without new messages."""
IDLE = 60.0
"""A partition that is read to its end no longer counts after this many seconds without a newer watermark."""
_SCHEMA_TIMEOUT = 60.0
MOST_WAITING = 100_000
"""The most rows that wait for a watermark. With more, partitions that are ahead of others are not read."""
_LOOK_FOR_PARTITIONS = 30.0
_LOG = logging.getLogger(__name__)


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """The topics and how to read them: ``path``, or ``servers`` and ``topics``."""

    path: Path | None = None
    servers: str | None = None
    topics: tuple[str, ...] = ()
    client: Mapping[str, str] = {}
    """Options of librdkafka, or of Kafka's Java client."""
    first: Literal["beginning", "end"] = "beginning"
    """Where a new changefeed starts reading Kafka."""
    protocol: str | None = None
    schema_registry: str | None = None
    registry_options: Mapping[str, str] = {}
    """Options of the registry's client."""
    source_timezone: str | None = None
    claim_check_storage: str | None = None
    upstream: str | None = None
    """The database for looking up rows that were sent with their keys only."""
    verify_checksum: bool = False


class StreamCapture:
    """A ``Capture`` of topics."""

    def __init__(self, stream: Stream) -> None:
        """Raises: UsageError unless exactly one source is given."""
        if (stream.path is None) == (stream.servers is None) or (stream.servers is None) != (not stream.topics):
            raise UsageError("a stream is read from a recorded topic, or from Kafka with the names of topics")
        self._stream = stream
        self._stopped: list[int] = []

    @property
    def stream(self) -> Stream:
        """The topics and how to read them."""
        return self._stream

    @property
    def retries(self) -> int:
        return 0

    @property
    def is_bounded(self) -> bool:
        """Whether reading ends by itself, as for a recorded topic."""
        return self._stream.path is not None

    def begin(self) -> CaptureState:
        """See ``Capture``. Raises: UsageError for a protocol that cannot be detected, or has no watermarks."""
        stream = self._stream
        name = canonical(stream.protocol) if stream.protocol else self._detect()
        if protocol(name).traits.watermarks == "never":
            raise UsageError(f"{name} has no watermarks, so rows cannot be sorted by commitTs")
        position = StreamPosition(name)
        if stream.servers is not None:
            with TopicReader(stream.servers, dict(stream.client)) as kafka:
                position = checked(kafka, with_all(kafka, stream.topics, position))
                if stream.first == "end":
                    ends = kafka.places([at.place for at in position.partitions], "end")
                    parts = (PartitionAt(*partition, offset, offset, 0) for partition, offset in ends.items())
                    position = msgspec.structs.replace(position, partitions=tuple(parts))
        return CaptureState(position=position.text(), commit_ts=0)

    def read(self, state: CaptureState) -> Iterator[Captured]:
        """See ``Capture``. Ends at the end of a recorded topic."""
        with self.reader(StreamPosition.parse(state.position).protocol) as (decoder, reader):
            if self._stream.path is not None:
                yield from self._recorded(self._stream.path, decoder, reader, state)
            else:
                yield from self._kafka(decoder, reader, state)

    def close(self) -> None:
        self._stopped.append(1)

    def _detect(self) -> str:
        stream = self._stream
        if stream.path is not None:
            return detected(recorded_messages(stream.path), ENOUGH)[0]
        assert stream.servers is not None
        with TopicReader(stream.servers, dict(stream.client)) as kafka:
            partitions = kafka.partitions(stream.topics)
            start, end = kafka.start(partitions, "beginning", {}), kafka.places(partitions, "end")
            return detected(kafka.read(start, end, self._stopped, patient=False), ENOUGH)[0]

    @contextmanager
    def reader(self, name: str) -> Iterator[tuple[Decoder, EventReader]]:
        """What opens messages of a protocol and reads their events, by the source's options.

        Raises: UsageError, RegistryFault
        """
        stream = self._stream
        options = ReadOptions(source_timezone=stream.source_timezone, verify_checksum=stream.verify_checksum)
        storage = stream.claim_check_storage
        with ExitStack() as stack:
            decoder, schemas = stack.enter_context(
                decoder_of(name, stream.schema_registry, {}, stream.registry_options)
            )
            lookup = None
            if stream.upstream is not None:
                from ticdc_spark.clients.upstream import Upstream

                lookup = stack.enter_context(Upstream(stream.upstream)).lookup
            fetch = ClaimCheckStorage(storage).fetch if storage is not None else None
            yield decoder, EventReader(decoder, options, schemas=schemas, fetch=fetch, lookup=lookup)

    def _recorded(self, path: Path, decoder: Decoder, reader: EventReader, state: CaptureState) -> Iterator[Captured]:
        ends = ends_of(spans(list_recorded(path)))
        order = Reordering(decoder, reader, state, ends)
        for partition, part in order.parts.items():
            part.idle = part.next >= ends[partition]
        resolved = order.state.commit_ts
        for message in recorded_messages(path, start=order.start()):
            if self._stopped:
                return
            order.take(message)
            part = order.parts[message.topic, message.partition]
            part.idle = part.next >= ends[message.topic, message.partition]
            if order.resolved() > resolved:
                yield from order.release()
                resolved = order.resolved()
        yield from order.release()
        if order.blocked is not None:
            raise SchemaMissing(f"{order.blocked}, which is nowhere in {path}")
        if order.waiting:
            _LOG.warning(
                "%s: %d rows and DDLs above the last watermark (%d) were not read: others of their commitTs may be "
                "missing",
                path,
                order.waiting,
                order.resolved() + 1,
            )

    def _kafka(self, decoder: Decoder, reader: EventReader, state: CaptureState) -> Iterator[Captured]:
        stream = self._stream
        assert stream.servers is not None
        with TopicReader(stream.servers, dict(stream.client)) as kafka:
            position = checked(kafka, with_all(kafka, stream.topics, StreamPosition.parse(state.position)))
            state = msgspec.structs.replace(state, position=position.text())
            order = Reordering(decoder, reader, state, [at.place for at in position.partitions])
            try:
                yield from self._followed(kafka, order, TopicWatch(kafka, position.ids or {}, WAY_OUT))
            except SourceFault:
                with suppress(SourceFault):  # show the first error, unless these are other topics
                    checked(kafka, StreamPosition.parse(order.position()))
                raise

    def _followed(self, kafka: TopicReader, order: Reordering, watch: TopicWatch) -> Iterator[Captured]:
        clock = _Clock()
        while not self._stopped:
            wanted = _wanted(order)
            start = order.start()
            start = kafka.start(wanted, "beginning", {place: start[place] for place in wanted}, WAY_OUT)
            for messages in kafka.batches(start, None, self._stopped, patient=True, at_most=1000, wait=0.1):
                for message in messages:
                    order.take(message)
                watch.look(order.start())
                yield from self._released(order, clock)
                if clock.due("idle", 5.0):
                    clock.note_idle(order, kafka)
                if clock.due("partitions", _LOOK_FOR_PARTITIONS):
                    new = [at for at in kafka.partitions(self._stream.topics) if at not in order.parts]
                    if new:
                        order.add(new)
                        break  # read again, with these partitions
                if _is_to_change(order, wanted):
                    break

    def _released(self, order: Reordering, clock: _Clock) -> Iterator[Captured]:
        moved = order.resolved() > clock.resolved
        if moved or order.blocked is not None or clock.due("resolved", _EACH):
            clock.resolved = order.resolved()
            for captured in order.release():
                if isinstance(captured, Resolved):
                    clock.reset("resolved")
                    if not captured.commit_ts:
                        continue  # no partition has shown a watermark yet
                yield captured
        if order.blocked is None:
            clock.reset("schema")
        elif clock.due("schema", _SCHEMA_TIMEOUT):
            raise SchemaMissing(
                f"{order.blocked}, which did not arrive within {_SCHEMA_TIMEOUT:.0f} s; start again once the "
                "source has sent a BOOTSTRAP or DDL of the table"
            )


def _wanted(order: Reordering) -> list[Partition]:
    """The partitions to read: all, or if many rows wait, only the ones for whose watermarks they wait.

    The other partitions wait in Kafka. Otherwise, if one partition is far behind, all others would be in memory.
    """
    behind = order.laggards() if order.waiting > MOST_WAITING else []
    return (_last(order, behind) if order.waiting > 2 * MOST_WAITING else behind) or [*order.parts]


def _last(order: Reordering, behind: list[Partition]) -> list[Partition]:
    least = min((order.parts[at].watermark for at in behind), default=0)
    return [at for at in behind if order.parts[at].watermark == least]


def _is_to_change(order: Reordering, read: list[Partition]) -> bool:
    """Whether to read other partitions than these. All are read again only after half of the rows are given."""
    if len(read) == len(order.parts):
        return order.waiting > MOST_WAITING and len(_wanted(order)) < len(read)
    behind = order.laggards()
    return order.waiting < MOST_WAITING // 2 or not {*read} <= {*behind} or not {*_last(order, behind)} <= {*read}


class _Clock:
    """Remembers when something was last done."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self.resolved = -1
        self._behind: dict[Partition, tuple[int, float]] = {}

    def due(self, what: str, seconds: float) -> bool:
        """Whether it is due again. If so, the time is noted."""
        now = time.monotonic()
        if now - self._last.setdefault(what, now) < seconds:
            return False
        self._last[what] = now
        return True

    def reset(self, what: str) -> None:
        """Note that it is done now."""
        self._last[what] = time.monotonic()

    def note_idle(self, order: Reordering, kafka: TopicReader) -> None:
        """Let partitions no longer count that are read to their ends, without a newer watermark for long."""
        now = time.monotonic()
        behind = {at: order.parts[at].watermark for at in order.laggards()}
        self._behind = {
            at: self._behind[at] if at in self._behind and self._behind[at][0] == watermark else (watermark, now)
            for at, watermark in behind.items()
        }
        old = [at for at, (_, since) in self._behind.items() if now - since > IDLE]
        for at, end in kafka.places(old, "end").items() if old else ():
            if order.parts[at].next >= end:
                order.parts[at].idle = True
                _LOG.warning("topic %r, partition %d has had no watermark for %.0f s; ignoring it", *at, IDLE)


def open_stream(text: str) -> StreamCapture:
    """The capture of a source by its name on the command line.

    ``kafka://host:port[,host:port]/topic[,topic]?key=value``, or the path of a recorded topic, which may be followed
    by ``?key=value``. Keys: ``protocol``, ``schema-registry``, ``source-timezone``, ``claim-check-storage``,
    ``upstream``, ``verify-checksum``, ``from`` (``beginning`` or ``end``, Kafka only); ``schema-registry.…``,
    an option of the registry's client. Other keys of Kafka, with a dot in the name, are options of its client.

    Raises: UsageError that names the key.
    """
    from urllib.parse import parse_qsl

    base, _, query = text.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    client = {key: given.pop(key) for key in [*given] if "." in key}
    for key in filter(is_secret_key, client):
        remember(client[key])
    prefix = "schema-registry."
    registry = {key.removeprefix(prefix): client.pop(key) for key in [*client] if key.startswith(prefix)}
    fields = {"protocol", "schema-registry", "source-timezone", "claim-check-storage", "upstream", "verify-checksum"}
    kafka = base.startswith("kafka://")
    for key in given:
        if key not in fields and not (kafka and key == "from"):
            raise UsageError(f"source {base}: there is no option {key!r}; allowed: {', '.join(sorted(fields))}")
    verify = given.pop("verify-checksum", "false")
    if verify not in ("true", "false"):
        raise UsageError(f"source {base}: verify-checksum is {verify!r}; allowed: true, false")
    first = given.pop("from", "beginning")
    if first not in ("beginning", "end"):
        raise UsageError(f"source {base}: from is {first!r}; allowed: beginning, end")
    where: dict[str, object] = {"path": Path(base.removeprefix("file://"))}
    if kafka:
        servers, _, topics = base.removeprefix("kafka://").partition("/")
        where = {"servers": servers, "topics": tuple(filter(None, topics.split(","))), "client": client, "first": first}
        if not servers or not where["topics"]:
            raise UsageError(f"source {base}: write kafka://host:port/topic")
    elif client:
        raise UsageError(f"source {base}: {next(iter(client))} belongs to kafka://")
    elif not Path(base.removeprefix("file://")).exists():
        raise SourceFault(f"source {base}: there is no such recorded topic; Kafka is kafka://host:port/topic")
    options = {key.replace("-", "_"): value for key, value in given.items()}
    more = {"verify_checksum": verify == "true", "registry_options": registry}
    return StreamCapture(msgspec.convert({**options, **where, **more}, Stream))
