"""Faults on recorded messages, of the kinds that at-least-once delivery and parallel reading allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from zlib import crc32

from msgspec.structs import replace

from ticdc_spark.model import Envelope, Message
from ticdc_spark.protocols.base import Decoder

Partitions = list[list[Message]]
"""Messages of each partition, in order of offset."""


def split(messages: Iterable[Message], decoder: Decoder, count: int, *, by_key: bool = False) -> Partitions:
    """Spread the partitions of topics: rows by a hash of their bytes, everything else copied to each partition.

    Rows of one key land in different partitions, which is harsher than TiCDC's dispatchers are; with ``by_key``, rows
    with one Kafka key stay together.
    """
    partitions: Partitions = [[] for _ in range(count)]
    for message in messages:
        if any(isinstance(event, Envelope) for event in decoder.open_message(message.key, message.value)):
            at = crc32((message.key or b"") + (b"" if by_key else message.value or b"")) % count
            partitions[at].append(message)
        else:
            for partition in partitions:
                partition.append(message)
    return numbered(partitions)


def numbered(partitions: Partitions) -> Partitions:
    """Give partitions and offsets their numbers; the offsets of several topics in one list have gaps."""
    return [
        [replace(message, partition=at, offset=offset) for offset, message in enumerate(partition)]
        for at, partition in enumerate(partitions)
    ]


def replayed(partitions: Partitions, seed: int, restarts: int = 3) -> Partitions:
    """Send stretches again behind themselves, each cut differently in each partition, and single messages twice."""
    random, partitions = Random(seed), [partition for partition in partitions if partition]
    for _ in range(restarts):
        for at, partition in enumerate(partitions):
            first, last = sorted(random.randrange(len(partition)) for _ in range(2))
            partitions[at] = partition[:last] + partition[first:last] + partition[last:]
    twice = [
        [copy for message in partition for copy in [message] * (1 + (random.random() < 0.1))]
        for partition in partitions
    ]
    return numbered(twice)


def interleaved(partitions: Sequence[Sequence[Message]], seed: int) -> list[Message]:
    """Read the partitions at uneven speed."""
    random = Random(seed)
    places = [at for at, partition in enumerate(partitions) for _ in partition]
    # a stretch of one partition at a time, so that batches see them far apart
    random.shuffle(places)
    places.sort(key=lambda at: random.random() + 0.3 * at)
    readers = [iter(partition) for partition in partitions]
    return [next(readers[at]) for at in places]


def by_partition(messages: Iterable[Message]) -> Partitions:
    """Messages of each (topic, partition), in order of offset."""
    partitions: dict[tuple[str, int], list[Message]] = {}
    for message in messages:
        partitions.setdefault((message.topic, message.partition), []).append(message)
    return list(partitions.values())
