"""A story's broker on a real one: topics, partitions and messages as the story's are, brought up to date on request."""

from __future__ import annotations

import time

from confluent_kafka import KafkaException, Producer

from tests.simulator.broker import Broker, Place
from tests.support.kafka_broker import Broker as RealBroker

_KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "CreateTime"}
"""A story's time is not that of the broker, which would remove its messages."""


class Mirror:
    """The topics of one story on a real broker, each under its name with a prefix."""

    def __init__(self, story: Broker, real: RealBroker, prefix: str) -> None:
        self.story, self.real, self.prefix = story, real, prefix
        self._ids: dict[str, int] = {}
        self._partitions: dict[str, int] = {}
        self._firsts: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._producer = Producer({"bootstrap.servers": real.servers, "linger.ms": 0, "log_level": 0})

    def sync(self) -> None:
        """Make the real broker what the story's is now."""
        for name, topic in self.story.topics.items():
            if self._ids.get(name) != topic.id:
                self._make(name, len(topic.partitions))
                self._ids[name] = topic.id
            if self._partitions[name] < len(topic.partitions):
                self.real.add_partitions(self.prefix + name, len(topic.partitions))
                self._partitions[name] = len(topic.partitions)
            self._send(name)
        assert self._producer.flush(60) == 0
        for (name, partition), first in self.story.beginning_offsets().items():
            if self._firsts.get((name, partition), 0) < first:
                self.real.trim(self.prefix + name, partition, first)
                self._firsts[name, partition] = first

    def _make(self, name: str, partitions: int) -> None:
        """Create a topic; one that is there is deleted first."""
        if name in self._ids:
            self.real.delete_topic(self.prefix + name)
            self._firsts = {place: first for place, first in self._firsts.items() if place[0] != name}
            self._ends = {place: end for place, end in self._ends.items() if place[0] != name}
        deadline = time.monotonic() + 20
        while True:
            try:
                self.real.create_topic(self.prefix + name, partitions, _KEPT)
                break
            except KafkaException:  # the one that was deleted is still on its way out
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._partitions[name] = partitions

    def _send(self, name: str) -> None:
        for at, partition in enumerate(self.story.topics[name].partitions):
            place = (name, at)
            sent = self._ends.get(place, 0)
            # What retention removed before it was sent is sent all the same: offsets are those of the story.
            for offset in range(sent, partition.first):
                self._producer.produce(self.prefix + name, b"removed", partition=at)
                sent = offset + 1
            for message in partition.messages[max(0, sent - partition.first) :]:
                assert message.timestamp is not None
                self._producer.produce(self.prefix + name, message.value, message.key, at, timestamp=message.timestamp)
            self._ends[place] = partition.end
            self._producer.poll(0)

    def close(self) -> None:
        """Remove the topics."""
        for name in self._ids:
            self.real.delete_topic(self.prefix + name)
