"""Reads topics one message at a time, without Spark and without a consumer group."""

import difflib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa

from ticdc_spark.errors import SourceChanged, SourceFault, UsageError
from ticdc_spark.model import Message, Offsets, TopicPartition
from ticdc_spark.topics.client_options import librdkafka_options
from ticdc_spark.topics.json_lines import ARROW_SCHEMA

Place: TypeAlias = int | datetime | str
"""An offset, an instant, ``beginning`` or ``end``."""

_ANSWER_SECONDS = 60.0
_METADATA_SECONDS = 10.0
_OUTAGE_SECONDS = 2.0
_FORGET_SECONDS = 20.0
_REPORT_SECONDS = 30.0
_LOG = logging.getLogger(__name__)
_CLIENT = _LOG.getChild("client")
"""librdkafka's log: about twenty lines a second while a broker does not answer."""
_CLIENT.addFilter(lambda record: _CLIENT.isEnabledFor(logging.DEBUG))


class TopicReader:
    """Reads topics without a group: nothing is committed at the broker."""

    def __init__(self, servers: str, options: Mapping[str, str]) -> None:
        """``options``: librdkafka's, or options of Java's client with an equivalent.

        Raises: UsageError that names an option that it does not accept.
        """
        import confluent_kafka  # slow to import, and most commands do not need it

        self._kafka: Any = confluent_kafka
        self._servers = servers
        settings: dict[str, Any] = {
            "group.id": "ticdc-spark-record",
            "bootstrap.servers": servers,
            "allow.auto.create.topics": "false",
            **librdkafka_options(options),
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            # Missing offsets must be an error, not a jump.
            "auto.offset.reset": "error",
            "error_cb": self._hear,
        }
        self._heard = ""
        self._faults: list[float] = []
        """Times of connection errors since the last message or report."""
        self._reported = float("-inf")
        self._refused = False
        """Whether a login or a certificate was refused. Retrying is then of no use."""
        self._settings = settings
        self._admin: Any = None
        try:
            self._consumer: Any = confluent_kafka.Consumer(settings, logger=_CLIENT)
        except confluent_kafka.KafkaException as error:
            raise UsageError(f"options of Kafka's client: {error.args[0].str()}") from error

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *error: object) -> None:
        self._consumer.close()

    def topics(self) -> list[str]:
        """All existing topics. Raises: SourceFault"""
        with self._asking():
            return sorted(self._all_topics())

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        """The partitions of the topics. Raises: SourceFault that names a missing topic."""
        with self._asking():
            every = self._all_topics()
        missing = [topic for topic in topics if topic not in every]
        if missing:
            near = difflib.get_close_matches(missing[0], list(every), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SourceFault(f"Kafka at {self._servers} has no topic {', '.join(map(repr, missing))}{hint}")
        return [(topic, number) for topic in dict.fromkeys(topics) for number in sorted(every[topic].partitions)]

    def places(self, partitions: Sequence[TopicPartition], place: Place) -> Offsets:
        """The offset of a place in each partition. A time means the first message at or after it, or the end."""
        if isinstance(place, int):
            return dict.fromkeys(partitions, place)
        limits = self._limits(partitions)
        if isinstance(place, str):
            return {p: limits[p][place == "end"] for p in partitions}
        millis = int(place.timestamp() * 1000)
        times = [self._kafka.TopicPartition(*p, millis) for p in partitions]
        with self._asking():
            found = self._consumer.offsets_for_times(times, timeout=30)
        return {p: at.offset if at.offset >= 0 else limits[p][1] for p, at in zip(partitions, found, strict=True)}

    def limits(self, partitions: Sequence[TopicPartition]) -> tuple[Offsets, Offsets]:
        """Each partition's first existing offset, and the one after its last. Raises: SourceFault"""
        found = self._limits(partitions)
        return {p: at[0] for p, at in found.items()}, {p: at[1] for p, at in found.items()}

    def ids(self, topics: Sequence[str], seconds: float = _ANSWER_SECONDS) -> dict[str, str]:
        """The ids of topics; missing topics, and topics without an id, are omitted. Raises: SourceFault"""
        from confluent_kafka import TopicCollection

        found: dict[str, str] = {}
        with self._asking():
            asked = self._admin_client().describe_topics(TopicCollection([*topics]), request_timeout=seconds)
            for topic, answer in asked.items():
                try:
                    found[topic] = str(answer.result().topic_id)
                except self._kafka.KafkaException as error:
                    if error.args[0].code() != self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
        return {topic: number for topic, number in found.items() if number.strip("A=")}  # zeros: before Kafka 2.8

    def compacted(self, topics: Sequence[str]) -> list[str]:
        """The topics for which the broker keeps only the newest message of a key, if it says so. A login may lack the
        right to ask, and brokers other than Kafka may not answer."""
        client, resource_of = self._admin_client(), self._kafka.admin.ConfigResource
        wanted = [resource_of(resource_of.Type.TOPIC, topic) for topic in topics]
        asked = client.describe_configs(wanted, request_timeout=_METADATA_SECONDS) if wanted else {}
        found = []
        for resource, answer in asked.items():
            try:
                settings = answer.result()
            except self._kafka.KafkaException as error:
                _LOG.debug("cannot read the settings of topic %s: %s", resource.name, error.args[0].str())
                continue
            policy = settings.get("cleanup.policy")
            if policy is not None and "compact" in (policy.value or ""):
                found.append(str(resource.name))
        return found

    def _admin_client(self) -> Any:
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            settings: dict[str, Any] = {**self._settings, "logger": _CLIENT}
            self._admin = AdminClient(settings)
        return self._admin

    def start(self, partitions: Sequence[TopicPartition], place: Place, held: Offsets, way_out: str = "") -> Offsets:
        """Where to resume: after the held messages, also at offset 0, else at ``place``.

        Raises: SourceChanged, with ``way_out``, if messages after the held ones are missing, or a topic ends before.
        """
        limits = self._limits(partitions)
        start = self.places(partitions, place)
        for partition in partitions:
            available, end = limits[partition]
            where = f"topic {partition[0]!r}, partition {partition[1]}"
            if partition in held:
                if held[partition] > end:
                    raise SourceChanged(
                        f"{where} ends at offset {end}, and was read up to {held[partition]}: it was created again, or "
                        f"restored to an older state. {way_out}"
                    )
                # Only a stored place may leave a gap; "beginning" moves with retention.
                lowest = 0 if isinstance(place, str) else start[partition]
                start[partition] = max(lowest, held[partition])
            if start[partition] < available:
                if partition in held:
                    raise SourceChanged(
                        f"{where} begins at offset {available}, and is to be read from {start[partition]} on: the "
                        f"messages between were removed before they were read. {way_out}"
                    )
                start[partition] = available
        return start

    def read(
        self,
        start: Offsets,
        end: Offsets | None,
        stopped: list[int],
        *,
        patient: bool,
    ) -> Iterator[Message]:
        """Read [start, end) of each partition. ``patient``: also wait for later messages."""
        for messages in self.batches(start, end, stopped, patient=patient):
            yield from messages

    def batches(
        self,
        start: Offsets,
        end: Offsets | None,
        stopped: list[int],
        *,
        patient: bool,
        at_most: int = 5000,
        wait: float = 0.5,
    ) -> Iterator[list[Message]]:
        """``read`` in lists. At least every ``wait`` seconds one is given, which may be empty."""
        for records in self._records(start, end, stopped, patient=patient, at_most=at_most, wait=wait):
            yield [_message(record) for record in records]

    def tables(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        """``read`` in batches of ``ARROW_SCHEMA``."""
        # A short wait, as each call at the end waits this long for more; and few messages, as they may be large.
        for records in self._records(start, end, [], patient=False, at_most=5000, wait=0.1):
            if records:
                yield _batch(records)

    def _records(
        self, start: Offsets, end: Offsets | None, stopped: list[int], *, patient: bool, at_most: int, wait: float
    ) -> Iterator[list[Any]]:
        """``batches`` of the client's own records."""
        kafka = self._kafka
        waiting = {p for p in start if end is None or start[p] < end[p]}
        if not waiting:
            return
        self._consumer.assign([kafka.TopicPartition(*p, start[p]) for p in waiting])
        heard = time.monotonic()
        while waiting and not stopped:
            with self._asking():
                messages = self._consumer.consume(at_most, timeout=wait)
            read: list[Any] = []
            answered = False
            for message in messages:
                partition = (message.topic(), message.partition())
                answered |= partition in waiting
                if message.error() is None:
                    if partition in waiting and (end is None or message.offset() < end[partition]):
                        read.append(message)
                    at = message.offset() + 1
                else:
                    at = self._position(message)
                if end is not None and partition in waiting and at >= end[partition]:
                    waiting.discard(partition)
            yield read
            if answered:
                heard = time.monotonic()
                self._faults = []
            elif (end is None or patient) and self._is_gone():
                _LOG.warning("Kafka at %s: %s; retrying", self._servers, self._heard)
            elif end is not None and not patient and time.monotonic() - heard > _ANSWER_SECONDS:
                raise SourceFault(f"Kafka at {self._servers} has sent nothing for {_ANSWER_SECONDS:.0f} s")

    def rest(self) -> None:
        """Stop fetching until the next read."""
        with self._asking():
            self._consumer.unassign()

    def _all_topics(self) -> Mapping[str, Any]:
        """All topics, as a request for one by name could create it. A refused login or certificate is not retried."""
        began = time.monotonic()
        while True:
            began_call = time.monotonic()
            try:
                return dict(self._consumer.list_topics(timeout=1).topics)
            except self._kafka.KafkaException:
                self._consumer.poll(0)
                given_up = time.monotonic() < began_call + 0.9  # not a timeout
                if self._refused or given_up or time.monotonic() > began + _METADATA_SECONDS:
                    raise

    def _position(self, message: Any) -> int:
        """The position of an end-of-partition event. The last offsets may have no messages."""
        error = message.error()
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            return int(message.offset())
        if error.retriable():
            return -1
        raise SourceFault(f"topic {message.topic()!r}, partition {message.partition()}: {error.str()}")

    def _limits(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        with self._asking():
            return {
                p: self._consumer.get_watermark_offsets(self._kafka.TopicPartition(*p), timeout=30) for p in partitions
            }

    def _hear(self, error: Any) -> None:
        """Keep the error of a broker's connection, as the error of a call does not name the cause."""
        kafka = self._kafka.KafkaError
        refused = error.code() in (kafka._AUTHENTICATION, kafka._SSL)
        if error.code() != kafka._ALL_BROKERS_DOWN and (refused or not self._refused):
            self._heard = error.str()
            self._refused = self._refused or refused
            self._faults.append(time.monotonic())

    def _is_gone(self) -> bool:
        """Whether errors have lasted long enough to report them, as the client retries silently. A single error may be
        an idle connection that was closed."""
        self._faults = [at for at in self._faults if time.monotonic() - at < _FORGET_SECONDS]
        if not self._faults or self._faults[-1] - self._faults[0] < _OUTAGE_SECONDS:
            return False
        self._faults = []
        due = time.monotonic() > self._reported + _REPORT_SECONDS
        if due:
            self._reported = time.monotonic()
        return due

    def _why(self, error: Any) -> str:
        """A summary of the connections' errors, for the error of a call."""
        kafka = self._kafka.KafkaError
        heard = f": {self._heard}" if self._heard else ""
        heard = heard.replace("ssl.ca.location", "ssl.ca.location (in a job file kafka.ssl.truststore.location)")
        unreachable = error.code() in (kafka._TRANSPORT, kafka._TIMED_OUT, kafka._ALL_BROKERS_DOWN)
        if not unreachable or self._refused or "Connect to" in heard or "resolve" in heard or "?" in heard:
            return heard
        return f"{heard}; does this listener require TLS, a login or a certificate (security.protocol)?"

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except self._kafka.KafkaException as error:
            self._consumer.poll(0)
            raise SourceFault(f"Kafka at {self._servers}: {error.args[0].str()}{self._why(error.args[0])}") from error


def _message(record: Any) -> Message:
    kind, millis = record.timestamp()
    return Message(
        topic=record.topic(),
        partition=record.partition(),
        offset=record.offset(),
        timestamp=millis if kind else None,
        key=record.key(),
        value=record.value(),
    )


def _batch(records: Sequence[Any]) -> pa.RecordBatch:
    times = [record.timestamp() for record in records]
    columns = [
        [record.topic() for record in records],
        [record.partition() for record in records],
        [record.offset() for record in records],
        [millis if kind else None for kind, millis in times],
        [record.key() for record in records],
        [record.value() for record in records],
    ]
    arrays = [pa.array(cells, field.type) for cells, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)
