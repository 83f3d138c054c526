"""The third task of a stretch: send the messages of some target partitions, each partition's in order.

Each task has its own idempotent producer. It sends only while this process owns the changefeed (``snapshot.fence``).
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from ticdc_spark.changefeed.backlog.files import Messages, read_messages_of
from ticdc_spark.changefeed.config.settings import KafkaTarget
from ticdc_spark.changefeed.producer import KafkaProducer
from ticdc_spark.changefeed.snapshot.fence import sending
from ticdc_spark.errors import TicdcSparkError

_IN_FLIGHT = 20_000
"""The most messages that are handed to the producer and not acknowledged."""


class SendJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job of tasks: all parts."""

    kafka: KafkaTarget
    parts: tuple[tuple[Messages, ...], ...]
    """Each partition is in one part, with its blocks in order."""
    folder: Path
    """The changefeed's state folder."""
    token: str


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a part."""

    messages: int = 0
    """How many messages were acknowledged."""
    fault: str = ""
    """The name of the error's class."""
    text: str = ""


def send_part(job: SendJob, number: int) -> Sent:
    """Send a part. Errors are in the result."""
    try:
        with sending(job.folder, job.token):
            return _sent(job, job.parts[number])
    except TicdcSparkError as error:
        return Sent(fault=type(error).__name__, text=str(error))


def _sent(job: SendJob, blocks: tuple[Messages, ...]) -> Sent:
    producer = KafkaProducer(job.kafka)
    waiting: dict[int, int] = {}
    acknowledged: list[int] = []
    try:
        for ticket, block in enumerate(blocks):
            receipt = producer.receipt(ticket, block.count, acknowledged)
            waiting[ticket] = block.count
            for key, value in read_messages_of(block):
                producer.send(block.topic, block.partition, key, value, receipt)
            _settle(producer, waiting, acknowledged, _IN_FLIGHT)
        _settle(producer, waiting, acknowledged, 0)
        return Sent(messages=sum(block.count for block in blocks))
    finally:
        producer.close(drop=True)


def _settle(producer: KafkaProducer, waiting: dict[int, int], acknowledged: list[int], most: int) -> None:
    """Wait until at most ``most`` messages are not acknowledged. ``waiting``: by ticket. Raises: SinkFault"""
    heard = time.monotonic()
    producer.poll(0.0)
    while True:
        if acknowledged:
            heard = time.monotonic()
        for ticket in acknowledged:
            del waiting[ticket]
        acknowledged.clear()
        if sum(waiting.values()) <= most:
            return
        producer.check_silence(heard)
        producer.poll(0.05)
