"""Kafka as far as a job can see it: topics with ids, partitions with offsets, retention, topics made anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ticdc_spark.model import Message

Place: TypeAlias = tuple[str, int]
"""(topic, partition)."""
Offsets: TypeAlias = dict[Place, int]


@dataclass(slots=True)
class Partition:
    """One partition. ``messages[0]`` has the offset ``first``."""

    first: int = 0
    messages: list[Message] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.first + len(self.messages)


@dataclass(slots=True)
class Topic:
    """A topic; one that is deleted and created again has another ``id`` and begins at offset 0."""

    id: int
    partitions: list[Partition]


class Broker:
    """A cluster."""

    def __init__(self, partitions: int) -> None:
        """``partitions``: of each topic that is made by the first message to it."""
        self.topics: dict[str, Topic] = {}
        self._partitions = partitions
        self._ids = 0
        self._listed: dict[frozenset[str] | None, list[tuple[Place, Partition]]] = {}
        """The partitions of topics, as long as none is made."""

    def create(self, name: str, partitions: int | None = None) -> None:
        """Make a topic; one that exists is deleted first."""
        self._ids += 1
        self._listed.clear()
        self.topics[name] = Topic(self._ids, [Partition() for _ in range(partitions or self._partitions)])

    def delete(self, name: str) -> None:
        """Remove a topic."""
        self._listed.clear()
        del self.topics[name]

    def add_partition(self, name: str) -> None:
        """One more partition of a topic."""
        self._listed.clear()
        self.topics[name].partitions.append(Partition())

    def append(self, place: Place, key: bytes | None, value: bytes | None, ms: int) -> Message:
        """Write a record. A topic or partition that is not there is made."""
        name, at = place
        if name not in self.topics:
            self.create(name)
        partitions = self.topics[name].partitions
        while len(partitions) <= at:
            self.add_partition(name)
        to = partitions[at]
        message = Message(topic=name, partition=at, offset=to.end, timestamp=ms, key=key, value=value)
        to.messages.append(message)
        return message

    def beginning_offsets(self, topics: frozenset[str] | None = None) -> Offsets:
        """The first offset that is still there, by partition; ``topics``: only of these."""
        return {place: partition.first for place, partition in self._all(topics)}

    def end_offsets(self, topics: frozenset[str] | None = None) -> Offsets:
        """The exclusive end offset, by partition."""
        return {place: one.first + len(one.messages) for place, one in self._all(topics)}

    def ids(self, topics: frozenset[str] | None = None) -> dict[str, int]:
        """Each topic's id."""
        return {name: topic.id for name, topic in self.topics.items() if topics is None or name in topics}

    def read(self, place: Place, start: int, end: int) -> list[Message]:
        """The messages [start, end) of a partition, as far as they are there."""
        partition = self.topics[place[0]].partitions[place[1]]
        return partition.messages[max(0, start - partition.first) : max(0, end - partition.first)]

    def trim(self, place: Place, upto: int) -> list[Message]:
        """Retention: remove what lies below the offset ``upto``, and return it."""
        partition = self.topics[place[0]].partitions[place[1]]
        count = max(0, min(upto, partition.end) - partition.first)
        gone, partition.messages = partition.messages[:count], partition.messages[count:]
        partition.first += count
        return gone

    def _all(self, topics: frozenset[str] | None) -> list[tuple[Place, Partition]]:
        listed = self._listed.get(topics)
        if listed is None:
            listed = self._listed[topics] = [
                ((name, at), partition)
                for name in sorted(self.topics)
                if topics is None or name in topics
                for at, partition in enumerate(self.topics[name].partitions)
            ]
        return listed
