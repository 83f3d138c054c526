"""How a laboratory with a real target reads a story's topics: from a real Kafka, or, far faster, from memory."""

from __future__ import annotations

from typing import Protocol, cast

from pyspark.sql import SparkSession

from tests.memory_sink.rows import MemoryRows
from tests.simulator.broker import Broker
from tests.simulator.job_lab import BrokerSource
from tests.simulator.kafka_mirror import Mirror
from tests.simulator.setup import JobSetup
from tests.support.kafka_broker import Broker as RealBroker
from ticdc_spark.changes.opening import Opening
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.changes.topic import TopicRows
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.sources.kafka import KafkaTopicSource


class Topics(Protocol):
    def sync(self) -> None:
        """Have the messages that the story has sent by now."""

    def source(self, setup: JobSetup) -> Source:
        """A source of a process of its own."""

    def rows(self, source: Source, opening: Opening) -> TopicRows:
        """The rows of a source."""


class TopicsInMemory:
    def __init__(self, broker: Broker, session: SparkSession | None) -> None:
        """``session``: has the sink's tasks; ``None``: the sink has none, and this process does everything."""
        self._broker, self._session = broker, session

    def sync(self) -> None:
        """They are the story's own."""

    def source(self, setup: JobSetup) -> Source:
        return cast(Source, BrokerSource(self._broker, setup))

    def rows(self, source: Source, opening: Opening) -> TopicRows:
        if self._session is None:
            return MemoryRows(source, opening)
        return SparkTopicRows(self._session, source, opening)


class TopicsInKafka:
    def __init__(self, broker: Broker, kafka: RealBroker, prefix: str, session: SparkSession) -> None:
        """``prefix``: of the names of the story's topics."""
        self._mirror, self._servers, self._session = Mirror(broker, kafka, prefix), kafka.servers, session

    def sync(self) -> None:
        self._mirror.sync()

    def source(self, setup: JobSetup) -> Source:
        # Topics of the job file may come later in stories; under their names they would have to be there.
        named = (f"\\Q{name}\\E" for name in setup.topics or ())
        rest = ".*" if setup.topics is None else f"({'|'.join(named)})"
        return KafkaTopicSource(
            self._session,
            self._servers,
            topic_pattern=f"\\Q{self._mirror.prefix}\\E{rest}",
            starting=setup.starting,
        )

    def rows(self, source: Source, opening: Opening) -> TopicRows:
        return SparkTopicRows(self._session, source, opening)
