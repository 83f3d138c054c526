"""What a job could not read: decoded if possible, or sent to a topic for other programs."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ticdc_spark.config.job import Job, KafkaSource
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.model import Envelope, Message, Rejected
from ticdc_spark.protocols import decoder
from ticdc_spark.replicate.run.preflight import security
from ticdc_spark.streams.event_lines import EventLine, event_line
from ticdc_spark.streams.reader import Found

log = logging.getLogger(__name__)
Letter = Mapping[str, Any]
"""A dead letter with the columns of ``sinks.iceberg.dead_letters.DEAD_LETTER_DDL``."""
_TIMEOUT = 60.0
_NEW_TOPIC_MS = "5000"
"""How long a topic that the brokers do not know may still be a new one."""
"""Seconds for a broker to acknowledge exported letters."""


def at_place(letters: Sequence[Letter], topic: str, partition: int, offset: int) -> list[Letter]:
    """The letters of one message. Raises: UsageError if there is none"""
    found = [one for one in letters if (one["topic"], one["partition"], one["offset"]) == (topic, partition, offset)]
    if not found:
        raise UsageError(
            f"{topic}/{partition}/{offset} is not a dead letter of this job; `ticdc-spark dead-letters` lists them"
        )
    return found


def opened(letter: Letter, protocol: str) -> list[EventLine]:
    """The events of a letter's message. Rows have their values as they were sent, if those are JSON."""
    message = Message(
        topic=letter["topic"],
        partition=letter["partition"],
        offset=letter["offset"],
        key=letter["key"],
        value=letter["value"],
        timestamp=None,
    )
    found = []
    for seq, event in enumerate(decoder(protocol).open_message(message.key, message.value)):
        if isinstance(event, Envelope):
            reason = letter["reason"] if seq == letter["seq"] else "another row of the message"
            found.append(event_line(Found(message, seq, Rejected(reason), event)))
        else:
            found.append(event_line(Found(message, seq, event)))
    return found


def export(job: Job, letters: Sequence[Letter], topic: str) -> int:
    """Send each message once to a topic of the job's Kafka cluster, with Kafka Connect's headers for dead letters.

    Returns: the number of messages.

    Headers ``__connect.errors.``: ``topic``, ``partition``, ``offset`` of the message; ``connector.name``, the job;
    ``stage``, ``decode`` or the table; ``exception.message``, the reason.
    Raises: UsageError if the source is not Kafka, or the job reads the topic; SinkFault
    """
    import confluent_kafka  # the import is slow, and most commands do not need it

    source = job.source
    if not isinstance(source, KafkaSource):
        raise UsageError(f'{job.file}: dead letters are exported to the Kafka of [source], but its kind is "files"')
    if topic in {one["topic"] for one in letters} | set(source.topics or ()):
        raise UsageError(f"{topic}: the job reads this topic; export to another one")
    failed: list[str] = []

    def report(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error.str())

    once = {(one["topic"], one["partition"], one["offset"]): one for one in reversed(letters)}
    # Options of a consumer, or of Java alone, mean nothing to a producer.
    options = {"bootstrap.servers": source.bootstrap_servers, **security(source)}
    own = {
        "enable.idempotence": "true",
        "allow.auto.create.topics": "false",
        "message.timeout.ms": _milliseconds(),
        "topic.metadata.propagation.max.ms": _NEW_TOPIC_MS,
    }
    try:
        producer: Any = confluent_kafka.Producer({**options, **own}, logger=log)
        for letter in sorted(once.values(), key=lambda one: (one["topic"], one["partition"], one["offset"])):
            producer.produce(topic, letter["value"], letter["key"], headers=_headers(job, letter), on_delivery=report)
            producer.poll(0)
        producer.flush(_TIMEOUT)
    except (confluent_kafka.KafkaException, BufferError, ValueError) as error:
        raise SinkFault(f"dead letters cannot be sent to {topic} at {source.bootstrap_servers}: {error}") from error
    if failed:
        raise SinkFault(
            f"{len(failed)} of {len(once)} dead letters were not accepted by {topic} at {source.bootstrap_servers}: "
            f"{failed[0]}. Create the topic if it does not exist, and export again"
        )
    return len(once)


def _milliseconds() -> str:
    return str(int(_TIMEOUT * 1000))


def _headers(job: Job, letter: Letter) -> list[tuple[str, bytes]]:
    values = {
        "topic": letter["topic"],
        "partition": letter["partition"],
        "offset": letter["offset"],
        "connector.name": job.name,
        "stage": letter["stage"],
        "exception.message": letter["reason"],
    }
    return [(f"__connect.errors.{name}", str(value).encode()) for name, value in values.items()]
