"""The Kafka source: Spark's batch reader between offsets that the loop chose.

Offsets are listed by Kafka's own client inside Spark's JVM, so that every ``kafka.…`` option means the same in
listing and in reading, and no second client has to be configured.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.model import Offsets, TopicPartition
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.spark.sources.base import KeyValue, OffsetRange, Stretch, check_start, fair_cut
from ticdc_spark.spark.sources.direct_reads import DirectReads
from ticdc_spark.spark.sources.faults import keys_and_values
from ticdc_spark.spark.tasks import Parts, is_small

R = TypeVar("R")
_LOG = logging.getLogger(__name__)

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})

_ASSUMED_BYTES = 1024
"""A message's size where no sample could be taken."""

_CLOCKS_DIFFER_MS = 600_000
"""How much the clock of a producer or broker may be behind that of the database."""

_SAMPLED_PARTITIONS = 16
"""The longest backlogs are sampled; the others' messages are taken to be of the same size."""


class KafkaTopicSource:
    """Reads topics, by name or by a Java regular expression that the whole name must match.

    ``options`` are those of Spark's Kafka source: ``kafka.…`` goes to Kafka's client. Safe to use from several
    threads, one at a time.
    """

    has_more = False
    is_recorded = False

    def __init__(
        self,
        spark: SparkSession,
        bootstrap_servers: str,
        *,
        topics: Sequence[str] = (),
        topic_pattern: str | None = None,
        options: Mapping[str, str] | None = None,
        starting: Literal["earliest", "latest"] = "earliest",
        group: str | None = None,
    ) -> None:
        """``group``: the consumer group that ``publish`` commits to."""
        self._spark = spark
        self._servers = bootstrap_servers
        self._topics = tuple(topics)
        self._pattern = topic_pattern
        self._starting, self._group = starting, group
        self._options = {"kafka.bootstrap.servers": bootstrap_servers, **(options or {})}
        self._direct = DirectReads(bootstrap_servers, self._options)
        self._lock = threading.RLock()
        self._opened: Any = None
        self._admin: Any = None

    def starting(self) -> Offsets:
        return self.end_offsets() if self._starting == "latest" else self.beginning_offsets()

    def first_messages(self, start: Offsets, end: Offsets, limit: int) -> list[KeyValue]:
        return keys_and_values(self.read(start, end), limit)

    def beginning_offsets(self) -> Offsets:
        """First offset that the broker still has, by partition.

        Raises: SourceFault naming a topic that is not there, unless topics come from a pattern.
        """
        return self._ask(lambda consumer: self._offsets(consumer.beginningOffsets(self._partitions(consumer))))

    def end_offsets(self) -> Offsets:
        """Offset after the last message (with ``read_committed``: the last stable one), by partition."""
        return self._ask(lambda consumer: self._offsets(consumer.endOffsets(self._partitions(consumer))))

    def notes(self, read: Offsets) -> dict[tuple[str, str], str]:
        """See ``Source``: the topics' ids, which change when one is deleted and created again."""
        topics = sorted({topic for topic, _ in read})
        ids = self._ask(lambda _: self._ids(topics))
        return {(name, f"the id of topic {name}"): number for name, number in ids.items()}

    def recall(self, memory: str) -> None:
        """See ``Source``: the offsets are the broker's own."""

    def memory(self, offsets: Offsets, needed: Iterable[Stretch]) -> str:
        return ""

    def retention(self) -> dict[str, float]:
        """See ``Source``: by ``retention.ms`` of each topic."""
        try:
            return self._ask(lambda consumer: self._retention({at.topic() for at in self._partitions(consumer)}))
        except (SourceFault, UsageError) as error:
            _LOG.debug("how long topics keep messages is not known: %s", error)
            return {}

    def publish(self, offsets: Offsets) -> None:
        """See ``Source``: as offsets of the consumer group."""
        if self._group is None:
            return
        try:
            self._ask(lambda _: self._commit_offsets(offsets))
        except (SourceFault, UsageError) as error:
            _LOG.warning("offsets of consumer group %s cannot be committed: %s", self._group, error)

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        """Cut a backlog by offsets; a message's bytes come from a small sample at ``start`` of each partition."""
        behind = {p: (start.get(p, 0), last) for p, last in end.items() if start.get(p, 0) < last}
        if not behind:
            return dict(end)
        longest = sorted(behind, key=lambda p: behind[p][0] - behind[p][1])[:_SAMPLED_PARTITIONS]
        sizes = self._ask(lambda consumer: self._sample(consumer, {p: behind[p][0] for p in longest}))
        usual = sum(sizes.values()) / len(sizes) if sizes else _ASSUMED_BYTES
        backlog = {
            p: [OffsetRange(first, last, last - first, (last - first) * sizes.get(p, usual))]
            for p, (first, last) in behind.items()
        }
        return fair_cut(backlog, end, max_rows, max_bytes)

    def offsets_since(self, commit_ts: int) -> Offsets:
        millis = max(0, tso_physical_ms(commit_ts) - _CLOCKS_DIFFER_MS)
        beginning, ends = self.beginning_offsets(), self.end_offsets()

        def ask(consumer: Any) -> Offsets:
            jvm: Any = self._spark._jvm
            times = jvm.java.util.HashMap()
            for place in beginning:
                times.put(jvm.org.apache.kafka.common.TopicPartition(*place), millis)
            found = consumer.offsetsForTimes(times)
            return {
                (at.topic(), at.partition()): ends[at.topic(), at.partition()] if one is None else int(one.offset())
                for at, one in found.items()
            }

        return beginning | self._ask(ask)

    def read(self, start: Offsets, end: Offsets, session: SparkSession | None = None) -> DataFrame:
        """Read with Spark's batch Kafka source; large partitions are split over the cores."""
        spark = session or self._spark
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        if not first:
            # A plan of the same columns that needs no broker.
            return spark.range(0).selectExpr(
                "'' AS topic", "0 AS partition", "id AS offset", "id AS timestamp", "X'' AS key", "X'' AS value"
            )
        defaults = {
            "includeHeaders": "false",
            "failOnDataLoss": "true",
            "minPartitions": str(spark.sparkContext.defaultParallelism),
        }
        reader = (
            spark.read.format("kafka")
            .options(**defaults)
            .options(**self._options)
            .option("assign", _by_topic(dict.fromkeys(first)))
            .option("startingOffsets", _by_topic(first))
            .option("endingOffsets", _by_topic({partition: end[partition] for partition in first}))
        )
        return reader.load().select(
            "topic",
            "partition",
            "offset",
            # Kafka has -1 where a message has no timestamp.
            f.nullif(f.unix_millis("timestamp"), f.lit(-1).cast("bigint")).alias("timestamp"),
            "key",
            "value",
        )

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table | None:
        """See ``Source``: by librdkafka, where it is installed and takes the options."""
        if not self._direct.is_of_use:
            return None  # before the offsets are listed, which read does, too
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        if not is_small(sum(end[partition] - offset for partition, offset in first.items())):
            return None
        with self._lock:
            return self._direct.read(first, end)

    def read_parts(self, start: Offsets, end: Offsets) -> Parts | None:
        """See ``Source``: by librdkafka, too."""
        if not self._direct.is_of_use:
            return None
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        with self._lock:
            return self._direct.parts(first, end, self._spark.sparkContext.defaultParallelism)

    def close(self) -> None:
        """Close the clients, here and in the JVM."""
        with self._lock:
            self._direct.close()
            if self._opened is not None:
                self._opened.close()
                self._opened = None
            if self._admin is not None:
                self._admin.close()
                self._admin = None

    def _ask(self, question: Callable[[Any], R]) -> R:
        with self._lock:
            try:
                if self._opened is None:
                    self._opened = self._open()
                return question(self._opened)
            except Py4JJavaError as error:
                raise SourceFault(f"Kafka at {self._servers}: {_reason(error)}") from error
            except PySparkException as error:
                # PySpark's form of Java's IllegalArgumentException: a pattern or a topic's name that cannot be.
                raise UsageError(f"Kafka at {self._servers}: {error}") from error

    def _open(self) -> Any:
        jvm: Any = self._spark._jvm
        serialization = jvm.org.apache.kafka.common.serialization
        return jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
            self._properties(), serialization.ByteArrayDeserializer(), serialization.ByteArrayDeserializer()
        )

    def _properties(self) -> Any:
        jvm: Any = self._spark._jvm
        properties = jvm.java.util.Properties()
        # An absent topic must stay absent: the broker would create it for a reader that asks.
        defaults = {"allow.auto.create.topics": "false", "default.api.timeout.ms": "30000", "client.id": "ticdc-spark"}
        client = {k.removeprefix("kafka."): v for k, v in self._options.items() if k.startswith("kafka.")}
        for name, value in {**defaults, **client, **_SAMPLE_OPTIONS}.items():
            properties.setProperty(name, value)
        return properties

    def _partitions(self, consumer: Any) -> Any:
        """A Java list of the TopicPartitions that exist now."""
        jvm: Any = self._spark._jvm
        every = consumer.listTopics()
        if self._pattern is not None:
            pattern = jvm.java.util.regex.Pattern.compile(self._pattern)
            topics = [name for name in every if name not in _INTERNAL and pattern.matcher(name).matches()]
        else:
            topics = list(self._topics)
            missing = [name for name in topics if name not in every]
            if missing:
                names = ", ".join(map(repr, missing))
                hint = "create it, or take it out of `topics` under [source] if its tables are dropped"
                raise SourceFault(f"Kafka at {self._servers} has no topic {names}: {hint}")
        found = jvm.java.util.ArrayList()
        for topic in topics:
            for info in every[topic]:
                found.add(jvm.org.apache.kafka.common.TopicPartition(topic, info.partition()))
        return found

    def _admin_client(self) -> Any:
        if self._admin is None:
            jvm: Any = self._spark._jvm
            self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(self._properties())
        return self._admin

    def _retention(self, topics: Iterable[str]) -> dict[str, float]:
        config: Any = self._spark._jvm.org.apache.kafka.common.config  # type: ignore[union-attr]
        wanted = self._spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        for topic in sorted(topics):
            wanted.add(config.ConfigResource(config.ConfigResource.Type.TOPIC, topic))
        described = self._admin_client().describeConfigs(wanted).all().get()
        found = {resource.name(): settings.get("retention.ms") for resource, settings in described.items()}
        millis = {topic: int(entry.value()) for topic, entry in found.items() if entry is not None and entry.value()}
        return {topic: one / 1000 for topic, one in millis.items() if one >= 0}

    def _commit_offsets(self, offsets: Offsets) -> None:
        jvm: Any = self._spark._jvm
        kafka, found = jvm.org.apache.kafka, jvm.java.util.HashMap()
        for place, offset in offsets.items():
            found.put(kafka.common.TopicPartition(*place), kafka.clients.consumer.OffsetAndMetadata(offset))
        self._admin_client().alterConsumerGroupOffsets(self._group, found).all().get()

    def _ids(self, topics: Sequence[str]) -> dict[str, str]:
        known = self._admin_client().listTopics().namesToListings().get()
        return {name: str(known[name].topicId()) for name in topics if name in known}

    @staticmethod
    def _offsets(listed: Any) -> Offsets:
        return {(at.topic(), at.partition()): int(offset) for at, offset in listed.items()}

    def _sample(self, consumer: Any, start: Offsets) -> dict[TopicPartition, float]:
        """Average bytes of a message's key and value, from the first few of each partition."""
        jvm: Any = self._spark._jvm
        at = {p: jvm.org.apache.kafka.common.TopicPartition(*p) for p in start}
        found: dict[TopicPartition, float] = {}
        for partition, first in start.items():
            alone = jvm.java.util.Collections.singletonList(at[partition])
            consumer.assign(alone)
            consumer.seek(at[partition], first)
            records = consumer.poll(jvm.java.time.Duration.ofMillis(1000))
            sizes = [
                max(0, record.serializedKeySize()) + max(0, record.serializedValueSize())
                for record in records.records(at[partition])
            ]
            if sizes:
                found[partition] = sum(sizes) / len(sizes)
        consumer.unsubscribe()
        return found


_SAMPLE_OPTIONS = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "max.poll.records": "20",
    "max.partition.fetch.bytes": "262144",
    "fetch.max.bytes": "262144",
}


def _by_topic(offsets: Mapping[TopicPartition, int | None]) -> str:
    """The JSON that Spark's source takes: topic to partition to offset, or to a list of partitions for ``assign``."""
    topics: dict[str, Any] = {}
    for (topic, partition), offset in offsets.items():
        if offset is None:
            topics.setdefault(topic, []).append(partition)
        else:
            topics.setdefault(topic, {})[str(partition)] = offset
    return msgspec.json.encode(topics).decode()


def _reason(error: Py4JJavaError) -> str:
    """The innermost cause in one line: Kafka's outer exceptions do not name it."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    name = cause.getClass().getSimpleName()
    return f"{name}: {cause.getMessage()}{_QUESTIONS.get(name, '')}"


_QUESTIONS = {
    "SunCertPathBuilderException": "; does kafka.ssl.truststore.location hold the authority of the brokers' "
    "certificates?",
    "TimeoutException": "; does this listener require TLS, a login or a certificate (kafka.security.protocol)?",
}
"""What is most likely wrong where Kafka's client does not name it."""
