"""Where to resume reading Kafka topics, after a check that they are still the same."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ticdc_spark.capture.reorder import PartitionAt, StreamPosition
from ticdc_spark.errors import SourceChanged
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.same_topics import check_ids

WAY_OUT = (
    "If the topic was created again, begin a new changefeed, with another state folder and an empty topic to send to. "
    "If messages were removed before they were read, they are lost to this changefeed, and a new one must begin too"
)


def with_all(kafka: TopicReader, topics: Sequence[str], position: StreamPosition) -> StreamPosition:
    """A position that names every existing partition.

    A partition that was added after the position was made is read from offset 0, where every partition begins. A
    position without ids is new, or of an older version, which did not name all partitions, and had offset 0 for unread
    ones. Such partitions are read from their first existing message.

    Raises: SourceFault that names a missing topic; SourceChanged for a missing partition.
    """
    places = kafka.partitions(topics)
    known = {at.place: at for at in position.partitions if position.ids is not None or at.read}
    for place, at in known.items():
        if place not in places:
            raise SourceChanged(
                f"topic {place[0]!r}, partition {place[1]} no longer exists; it was read up to offset "
                f"{at.offset}. {WAY_OUT}"
            )
    others = [place for place in places if place not in known]
    first = dict.fromkeys(others, 0) if position.ids is not None else kafka.places(others, "beginning")
    parts = (known.get(place) or PartitionAt(*place, first[place], first[place], 0) for place in places)
    return replace(position, partitions=tuple(parts))


def checked(kafka: TopicReader, position: StreamPosition) -> StreamPosition:
    """A position that names every partition, with the ids of its topics. Everything after it must still exist.

    Raises: SourceChanged naming topic, partition and offsets; SourceFault
    """
    held = {at.place: at.offset for at in position.partitions}
    ids = kafka.ids(sorted({topic for topic, _ in held}))
    known = position.ids or {}
    check_ids(known, ids, held, WAY_OUT)
    kafka.start([*held], "beginning", held, WAY_OUT)
    return replace(position, ids={**ids, **known})
