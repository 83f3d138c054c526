"""The Kafka producer: sends messages to partitions in order, and tracks their acknowledgements."""

from __future__ import annotations

import logging
import time
from typing import Any

from ticdc_spark.changefeed.clients import producing
from ticdc_spark.changefeed.config.settings import KafkaTarget
from ticdc_spark.errors import SinkFault, UnsendableChange, UsageError

_STUCK = 1800.0
"""Seconds without an acknowledgement after which a run gives up, as TiCDC's changefeed-error-stuck-duration."""
_LOG = logging.getLogger(__name__)
_CLIENT = _LOG.getChild("client")
"""librdkafka's log: about twenty lines a second while a broker does not answer."""
_CLIENT.addFilter(lambda record: _CLIENT.isEnabledFor(logging.DEBUG))
_SAY_AGAIN = 30.0


class ProducerLost(SinkFault):
    """The producer has given up. A new one can resume from the stored state."""


class KafkaProducer:
    """Sends messages and keeps the order of each partition. Use it from one thread."""

    def __init__(self, kafka: KafkaTarget) -> None:
        """Does not connect yet. Raises: UsageError for options that librdkafka does not accept."""
        import confluent_kafka  # slow to import, and most commands do not need it

        self._kafka: Any = confluent_kafka
        self._where = ",".join(kafka.servers)
        self._failed: Any = None
        self._failed_topic = ""
        self._heard = ""
        self._said = float("-inf")
        try:
            self._producer: Any = confluent_kafka.Producer({**producing(kafka), "error_cb": self._hear}, logger=_CLIENT)
        except (confluent_kafka.KafkaException, ValueError, TypeError) as error:
            raise UsageError(f"the Kafka producer cannot be made: {_text(error)}") from error

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, receipt: Receipt) -> None:
        """Queue a message. Waits if the queue is full. Raises: SinkFault"""
        while True:
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=receipt)
                return
            except BufferError:
                self.poll(0.1)
            except self._kafka.KafkaException as error:
                raise self._fault(error.args[0], topic) from error

    def poll(self, timeout: float) -> None:
        """Take acknowledgements. Raises: SinkFault for a message that was given up; UnsendableChange if too large."""
        self._producer.poll(timeout)
        if self._failed is not None:
            raise self._fault(self._failed, self._failed_topic)

    def receipt(self, ticket: int, messages: int, into: list[int]) -> Receipt:
        """A counter of a ticket's acknowledgements. When all have arrived, it appends the ticket to ``into``."""
        return Receipt(self, ticket, messages, into)

    def fail(self, error: Any, topic: str) -> None:
        """Note that a message was given up."""
        if self._failed is None:
            self._failed, self._failed_topic = error, topic

    @property
    def heard(self) -> str:
        """The last error of a connection, for error texts."""
        return self._heard

    def check_silence(self, since: float) -> None:
        """Check that the broker still acknowledges. ``since``: the last acknowledgement, by ``time.monotonic``.

        Raises: SinkFault if the last one is too long ago.
        """
        if time.monotonic() - since > _STUCK:
            raise SinkFault(f"Kafka at {self._where} has acknowledged nothing for {_STUCK:.0f} s: {self._heard}")

    def close(self, *, drop: bool) -> None:
        """Close the connections. ``drop``: and discard queued messages."""
        if drop:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._producer.flush(5)

    def _fault(self, error: Any, topic: str) -> Exception:
        kafka = self._kafka.KafkaError
        if error.code() == kafka.MSG_SIZE_TOO_LARGE:
            return UnsendableChange(f"topic {topic!r}: the broker refuses a message as too large: {error.str()}")
        if error.code() in (kafka.UNKNOWN_TOPIC_OR_PART, kafka._UNKNOWN_TOPIC, kafka._UNKNOWN_PARTITION):
            return SinkFault(
                f"topic {topic!r} at {self._where}: {error.str()}; was it deleted, or recreated with fewer partitions?"
            )
        if error.code() in (kafka.TOPIC_AUTHORIZATION_FAILED, kafka.CLUSTER_AUTHORIZATION_FAILED):
            return SinkFault(f"topic {topic!r} at {self._where}: {error.str()}")
        return ProducerLost(f"Kafka at {self._where}, topic {topic!r}: {error.str()}")

    def _hear(self, error: Any) -> None:
        kafka = self._kafka.KafkaError
        if error.fatal():
            self.fail(error, "")
        if error.code() != kafka._ALL_BROKERS_DOWN:
            self._heard = error.str()
        now = time.monotonic()
        if now - self._said > _SAY_AGAIN:
            self._said = now
            _LOG.warning("Kafka at %s: %s; retrying", self._where, error.str())


class Receipt:
    """Counts acknowledgements of the messages of one ticket."""

    __slots__ = ("_into", "_left", "_producer", "_ticket")

    def __init__(self, producer: KafkaProducer, ticket: int, messages: int, into: list[int]) -> None:
        self._producer, self._ticket, self._left, self._into = producer, ticket, messages, into

    def __call__(self, error: Any, message: Any) -> None:
        if error is not None:
            self._producer.fail(error, message.topic())
            return
        self._left -= 1
        if not self._left:
            self._into.append(self._ticket)


def _text(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.str() if hasattr(first, "str") else str(first)
