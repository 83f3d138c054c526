"""The Kafka source: Spark's batch reader, between offsets that the loop chose.

Kafka's own client inside Spark's JVM lists offsets. So every ``kafka.…`` option has the same meaning for listing and
reading, and no second client has to be configured.
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
"""The assumed size of a message if there is no sample."""

_CLOCKS_DIFFER_MS = 600_000
"""How much the clock of a producer or broker may be behind the database's clock."""

_SAMPLED_PARTITIONS = 16
"""The longest backlogs are sampled; messages of other partitions are assumed to have the same size."""


class KafkaTopicSource:
    """Reads topics by name, or by a Java regular expression that must match the whole name.

    ``options``: of Spark's Kafka source; ``kafka.…`` is passed to Kafka's client. Several threads may use it,
    one at a time.
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
        """The first offset that the broker still has, by partition.

        Raises: SourceFault naming a topic that does not exist, unless topics are given by a pattern.
        """
        return self._ask(lambda consumer: self._offsets(consumer.beginningOffsets(self._partitions(consumer))))

    def end_offsets(self) -> Offsets:
        """The offset after the last message (with ``read_committed``: after the last stable one), by partition."""
        return self._ask(lambda consumer: self._offsets(consumer.endOffsets(self._partitions(consumer))))

    def notes(self, read: Offsets) -> dict[tuple[str, str], str]:
        """See ``Source``. The topics' ids change when a topic is deleted and created again."""
        topics = sorted({topic for topic, _ in read})
        ids = self._ask(lambda _: self._ids(topics))
        return {(name, f"the id of topic {name}"): number for name, number in ids.items()}

    def recall(self, memory: str) -> None:
        """See ``Source``. Nothing to do: the offsets are the broker's own."""

    def memory(self, offsets: Offsets, needed: Iterable[Stretch]) -> str:
        return ""

    def retention(self) -> dict[str, float]:
        """See ``Source``. From ``retention.ms`` of each topic."""
        try:
            return self._ask(lambda consumer: self._retention({at.topic() for at in self._partitions(consumer)}))
        except (SourceFault, UsageError) as error:
            _LOG.debug("how long topics keep messages is not known: %s", error)
            return {}

    @property
    def unread(self) -> str:
        return ""

    def publish(self, offsets: Offsets) -> None:
        """See ``Source``. Commits offsets of the consumer group."""
        if self._group is None:
            return
        try:
            self._ask(lambda _: self._commit_offsets(offsets))
        except (SourceFault, UsageError) as error:
            _LOG.warning("offsets of consumer group %s cannot be committed: %s", self._group, error)

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        """Cut a backlog by offsets. The size of messages is estimated by a small sample at ``start`` of each
        partition."""
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
        """Read with Spark's batch Kafka source, which splits large partitions over the cores."""
        spark = session or self._spark
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        if not first:
            # A plan with the same columns that needs no broker.
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
            # Kafka uses -1 for messages without a timestamp.
            f.nullif(f.unix_millis("timestamp"), f.lit(-1).cast("bigint")).alias("timestamp"),
            "key",
            "value",
        )

    def read_here(self, start: Offsets, end: Offsets) -> pa.Table | None:
        """See ``Source``. Uses librdkafka, if it is installed and accepts the options."""
        if not self._direct.is_of_use:
            return None  # before listing the offsets, which ``read`` does as well
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        if not is_small(sum(end[partition] - offset for partition, offset in first.items())):
            return None
        with self._lock:
            return self._direct.read(first, end)

    def read_parts(self, start: Offsets, end: Offsets) -> Parts | None:
        """See ``Source``. Also uses librdkafka."""
        if not self._direct.is_of_use:
            return None
        first = check_start(start, end, self.beginning_offsets(), self.end_offsets())
        with self._lock:
            return self._direct.parts(first, end, self._spark.sparkContext.defaultParallelism)

    def close(self) -> None:
        """Close the clients here and in the JVM."""
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
                # PySpark's form of Java's IllegalArgumentException: an invalid pattern or topic name.
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
        # A missing topic must stay missing: otherwise the broker would create it for the reader.
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
                hint = "create it, or remove it from `topics` under [source] if its tables are dropped"
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
        """The average size of a message's key and value in bytes, from the first few of each partition."""
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
    """The JSON for Spark's source: topic to partition to offset, or topic to a list of partitions for ``assign``."""
    topics: dict[str, Any] = {}
    for (topic, partition), offset in offsets.items():
        if offset is None:
            topics.setdefault(topic, []).append(partition)
        else:
            topics.setdefault(topic, {})[str(partition)] = offset
    return msgspec.json.encode(topics).decode()


def _reason(error: Py4JJavaError) -> str:
    """The innermost cause on one line, because Kafka's outer exceptions do not name it."""
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
"""The most likely cause of errors for which Kafka's client names none."""
