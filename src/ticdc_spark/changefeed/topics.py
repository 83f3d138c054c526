"""The topics of a changefeed: their partitions and message sizes. Missing topics are created."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ticdc_spark.changefeed.clients import connection
from ticdc_spark.changefeed.config.settings import DEFAULT_PARTITIONS, KafkaTarget
from ticdc_spark.errors import SinkFault, UsageError

_LOG = logging.getLogger(__name__)
_CLIENT = _LOG.getChild("client")
_CLIENT.addFilter(lambda record: _CLIENT.isEnabledFor(logging.DEBUG))
_SPARE = 128
"""Bytes of ``max.message.bytes`` that TiCDC reserves for what the broker adds."""
_WAIT = 30.0
_SAY_AFTER = 2.0
"""Seconds after which a warning says that Kafka has not answered."""
T = TypeVar("T")


class TopicFacts(msgspec.Struct, frozen=True):
    """What a changefeed must know about a topic."""

    partitions: int
    """How many partitions are used."""
    real_partitions: int
    max_message_bytes: int
    """The smaller of ``max-message-bytes`` and the topic's own limit."""


class Topics:
    """Looks each topic up once, and creates missing ones."""

    def __init__(self, kafka: KafkaTarget, *, create: bool = True) -> None:
        """``create``: whether missing topics are created. Otherwise Kafka only validates their creation."""
        import confluent_kafka  # slow to import, and most commands do not need it
        from confluent_kafka import admin

        self._target = kafka
        self._create = create
        self._where = ",".join(kafka.servers)
        self._found: dict[str, TopicFacts] = {}
        self._lock = threading.Lock()
        self._error: type[Exception] = confluent_kafka.KafkaException
        self._module: Any = admin
        self._down = confluent_kafka.KafkaError._ALL_BROKERS_DOWN
        self._heard = ""
        try:
            options: dict[str, Any] = {**connection(kafka), "error_cb": self._hear}
            self._admin: Any = admin.AdminClient(options, logger=_CLIENT)
        except (self._error, ValueError, TypeError) as error:
            raise UsageError(f"the Kafka client cannot be made: {error.args[0]}") from error
        self.missing: list[str] = []
        """Topics that were missing, and were created or would be."""

    def facts(self, topic: str) -> TopicFacts:
        """Look a topic up, and create it if it is missing.

        Raises: SinkFault; UsageError for a topic that is missing with ``auto-create-topic = false``, and for a
        ``partition-num`` or ``replication-factor`` that does not fit.
        """
        found = self._found.get(topic)
        if found is None:
            with self._lock:  # a backlog is prepared by another thread
                found = self._found.get(topic)
                if found is None:
                    found = self._look_up(topic)
                    self._found = {**self._found, topic: found}
        return found

    def partitions(self, topic: str) -> int:
        """How many partitions of a topic are used."""
        return self.facts(topic).partitions

    def limit(self, topic: str) -> int:
        """How many bytes a message of a topic may take."""
        return self.facts(topic).max_message_bytes

    def used(self) -> dict[str, int]:
        """The partitions of every topic that was looked up."""
        return {topic: facts.partitions for topic, facts in self._found.items()}

    def say_growth(self) -> None:
        """Warn about topics that have more partitions than when they were looked up. The new ones are not used."""
        known = self._list()
        for topic, facts in self._found.items():
            real = len(known[topic].partitions) if topic in known else 0
            if real > facts.real_partitions:
                _LOG.warning(
                    "topic %r has %d partitions now; %d are used until the changefeed is started again",
                    topic,
                    real,
                    facts.partitions,
                )
                self._found = {**self._found, topic: msgspec.structs.replace(facts, real_partitions=real)}

    def _look_up(self, topic: str) -> TopicFacts:
        target = self._target
        known = self._list()
        if topic in known:
            return self._existing(topic, known[topic].partitions)
        if not target.auto_create_topic:
            raise UsageError(f"Kafka at {self._where} has no topic {topic!r}, and auto-create-topic is false")
        self.missing.append(topic)
        count = target.partition_num or DEFAULT_PARTITIONS
        broker = self._config("BROKER", str(self._broker()))
        least = int(broker.get("min.insync.replicas") or 1)
        self._check_replicas(topic, target.replication_factor, least, "replication-factor")
        if not self._create:
            self._ask_for(topic, count, only_validate=True)
            return TopicFacts(count, count, self._limit(broker.get("message.max.bytes")))
        self._make(topic, count)
        config = self._config("TOPIC", topic)
        return TopicFacts(count, count, self._limit(config.get("max.message.bytes")))

    def _existing(self, topic: str, partitions: Any) -> TopicFacts:
        real, wanted = len(partitions), self._target.partition_num
        config = self._config("TOPIC", topic)
        replicas = min((len(partition.replicas) for partition in partitions.values()), default=1)
        self._check_replicas(topic, replicas, int(config.get("min.insync.replicas") or 1), "its replication")
        limit = self._limit(config.get("max.message.bytes"))
        if wanted is None or wanted == real:
            return TopicFacts(real, real, limit)
        if wanted > real:
            raise UsageError(f"partition-num is {wanted}, but topic {topic!r} has {real} partitions")
        _LOG.warning(
            "topic %r has %d partitions; only the first %d are used (partition-num): the others get no watermarks",
            topic,
            real,
            wanted,
        )
        return TopicFacts(wanted, real, limit)

    def _check_replicas(self, topic: str, replicas: int, least: int, what: str) -> None:
        if self._target.required_acks == -1 and replicas < least:
            raise UsageError(
                f"topic {topic!r}: {what} is {replicas}, but min.insync.replicas is {least}: with required-acks = -1 "
                "no message would be acknowledged"
            )

    def _limit(self, of_topic: str | None) -> int:
        own = self._target.max_message_bytes
        return own if of_topic is None else min(own, int(of_topic) - _SPARE)

    def _ask_for(self, topic: str, count: int, *, only_validate: bool = False) -> None:
        """``only_validate``: Kafka checks the request, and creates nothing."""
        replicas = self._target.replication_factor
        new = self._module.NewTopic(topic, num_partitions=count, replication_factor=replicas)
        options = {"operation_timeout": _WAIT, "validate_only": only_validate}
        try:
            self._asked(lambda: self._admin.create_topics([new], **options)[topic].result(_WAIT))
        except SinkFault as error:
            raise SinkFault(
                f"{error} (creating topic {topic!r} with {count} partitions, replication-factor {replicas})"
            ) from error

    def _make(self, topic: str, count: int) -> None:
        self._ask_for(topic, count)
        replicas = self._target.replication_factor
        deadline = time.monotonic() + _WAIT
        while time.monotonic() < deadline:
            found = self._list().get(topic)
            if found is not None and len(found.partitions) == count and _is_led(found):
                _LOG.info("topic %r was created: %d partitions, replication factor %d", topic, count, replicas)
                return
            time.sleep(0.05)
        raise SinkFault(f"topic {topic!r} was created, but has no leaders after {_WAIT:.0f} s")

    def _list(self) -> dict[str, Any]:
        # Every topic: asking for one by name could create it.
        timeout = max(1.0, self._target.dial_timeout)
        topics: dict[str, Any] = self._asked(lambda: self._admin.list_topics(timeout=timeout)).topics
        return topics

    def _broker(self) -> int:
        brokers: dict[int, Any] = self._asked(lambda: self._admin.list_topics(timeout=_WAIT)).brokers
        return min(brokers)

    def _config(self, kind: str, name: str) -> dict[str, str]:
        """The configuration of a topic or broker; empty if it must not be read."""
        resource = self._module.ConfigResource
        asked = resource(getattr(resource.Type, kind), name)
        try:
            entries = self._asked(lambda: self._admin.describe_configs([asked])[asked].result(_WAIT))
        except SinkFault as error:
            _LOG.warning("the configuration of %s %s cannot be read: %s", kind.lower(), name, error)
            return {}
        return {key: entry.value for key, entry in entries.items()}

    def _asked(self, question: Callable[[], T]) -> T:
        slow = threading.Timer(_SAY_AFTER, _LOG.warning, ("waiting for Kafka at %s", self._where))
        slow.daemon = True
        slow.start()
        try:
            return question()
        except self._error as error:
            self._admin.poll(0)
            reason = error.args[0].str() if hasattr(error.args[0], "str") else str(error)
            heard = f": {self._heard or 'does this listener require TLS, or a login?'}"
            raise SinkFault(f"Kafka at {self._where}: {reason}{heard}") from error
        finally:
            slow.cancel()

    def _hear(self, error: Any) -> None:
        if error.code() != self._down:  # ``_down`` does not name the cause
            self._heard = error.str()


def _is_led(found: Any) -> bool:
    return all(partition.leader >= 0 and partition.error is None for partition in found.partitions.values())
