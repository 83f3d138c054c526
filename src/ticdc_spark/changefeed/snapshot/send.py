"""The task: reads a range of a table, filters, dispatches, encodes and sends its rows, and awaits acknowledgement.

Rules, encoders and producer are the same as for the changes that follow.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from ticdc_spark.capture.binlog.uri import ServerUri
from ticdc_spark.capture.snapshot.present import read_range
from ticdc_spark.changefeed.actions import Place, SendRows
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.encoders import encoder
from ticdc_spark.changefeed.outbox import Outbox
from ticdc_spark.changefeed.producer import KafkaProducer
from ticdc_spark.changefeed.route import Placer
from ticdc_spark.changefeed.snapshot.fence import sending
from ticdc_spark.changefeed.snapshot.plan import Part, PartSent
from ticdc_spark.changefeed.topics import TopicFacts
from ticdc_spark.errors import TicdcSparkError
from ticdc_spark.model import RowChange
from ticdc_spark.protocols import protocol
from ticdc_spark.spark.tasks import SourceMoved
from ticdc_spark.streams.registering import KnownIds

_IN_FLIGHT = 20_000
"""The most rows that are handed to the producer and not acknowledged. Above this, no more are read."""


@dataclass(frozen=True, kw_only=True)
class SendJob:
    """The job of tasks: a wave."""

    changefeed: Changefeed
    rules: Router
    server: ServerUri
    parts: tuple[Part, ...]
    base: int
    """The rows' commit_ts."""
    facts: Mapping[str, TopicFacts]
    """Facts of every topic that rows go to."""
    ids: Mapping[tuple[str, str], int]
    """Ids of registered schemas."""
    folder: Path
    token: str

    def partitions(self, topic: str) -> int:
        """How many partitions of a topic are used."""
        return self.facts[topic].partitions

    def limit(self, topic: str) -> int:
        """How many bytes a message of a topic may take."""
        return self.facts[topic].max_message_bytes


def send_part(job: SendJob, number: int) -> PartSent:
    """Send a part. Errors are in the result."""
    try:
        with sending(job.folder, job.token):
            return _sent(job, job.parts[number])
    except SourceMoved as moved:
        return PartSent(moved=str(moved) or "it was altered")
    except TicdcSparkError as error:
        return PartSent(fault=type(error).__name__, text=str(error))


def _sent(job: SendJob, part: Part) -> PartSent:
    changefeed, table = job.changefeed, part.found.table
    placer = Placer(changefeed, job, job.rules)
    registry = KnownIds(job.ids) if protocol(changefeed.protocol).traits.registry else None
    producer = KafkaProducer(changefeed.kafka)
    try:
        outbox = Outbox(
            changefeed.protocol, partial(encoder, changefeed, registry, job.rules.topic), job.limit, producer
        )
        flow = _Flow(outbox, producer)
        for rows in read_range(job.server, part.found, part.of):
            by_place: dict[Place, list[RowChange]] = {}
            for place, change in placer.inserts(table, rows, job.base):
                by_place.setdefault(place, []).append(change)
            for place, changes in by_place.items():
                flow.send(place, changes)
            flow.settle(_IN_FLIGHT)
        flow.settle(0)
        counts = outbox.counts
        return PartSent(rows=outbox.rows, messages=outbox.messages, bytes=counts.bytes, counted=counts.rows)
    finally:
        producer.close(drop=True)


class _Flow:
    """Counts rows that are not acknowledged."""

    def __init__(self, outbox: Outbox, producer: KafkaProducer) -> None:
        self._outbox, self._producer = outbox, producer
        self._tickets = count(1)
        self._open: dict[int, int] = {}
        self._waiting = 0

    def send(self, place: Place, changes: list[RowChange]) -> None:
        ticket = next(self._tickets)
        self._open[ticket] = len(changes)
        self._waiting += len(changes)
        self._outbox.do(SendRows(ticket, place, changes))

    def settle(self, most: int) -> None:
        """Wait until at most ``most`` rows are not acknowledged. Raises: SinkFault"""
        heard = time.monotonic()
        self._producer.poll(0.0)
        while True:
            acknowledged, self._outbox.acknowledged[:] = [*self._outbox.acknowledged], []
            for ticket in acknowledged:
                self._waiting -= self._open.pop(ticket)
            if self._waiting <= most:
                return
            if acknowledged:
                heard = time.monotonic()
            self._producer.check_silence(heard)
            self._producer.poll(0.05)
