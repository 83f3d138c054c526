"""The stream. An offset says where each partition was read to, and what was known of the tables there.

So a checkpoint alone determines how later rows are read, even if Kafka has removed the messages with their DDL.
"""

from __future__ import annotations

import math
import uuid
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader

from ticdc_spark.datasource.access import access, check_range, settled
from ticdc_spark.datasource.options import Place, ReadOptionsOfSource, by_topic, from_topics
from ticdc_spark.datasource.parts import Part, parts
from ticdc_spark.datasource.planning import Reading, cut, first_of, look_ahead, scan, unread
from ticdc_spark.datasource.schemas import unpack
from ticdc_spark.errors import SourceFault
from ticdc_spark.model import Offsets
from ticdc_spark.topics.same_topics import check_ids


class StreamReader(DataSourceStreamReader):
    """Reads new messages in batches that Spark requests. One object lives as long as its query."""

    def __init__(self, options: ReadOptionsOfSource, columns: dict[str, str]) -> None:
        self._options = settled(options)
        self._columns = columns
        self._topics = access(self._options)
        self._begin: dict[str, Any] | None = None
        """Where the query begins, if it is new."""
        self._done: Offsets = {}
        """Batches up to here are done: Spark asks for the next one only then."""
        self._at: dict[str, Any] | None = None
        """The last offset that Spark passed or received."""
        self._scanned: tuple[dict[str, Any], dict[str, Any], Reading] | None = None
        """The last two offsets, and how the rows between them are read."""
        self._ahead: tuple[Reading, Offsets] | None = None
        """What was learnt from the messages behind a batch, and the offsets reached; not part of a checkpoint."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's names, as below
        """Where a new query begins. Raises: UsageError, SourceFault"""
        if self._begin is not None:
            return self._begin
        if self._options.starting_offsets == Place("latest"):
            self._topics.take_all()
        else:
            self._topics.look({}, {})
        limits = self._topics.limits()
        start = (self._options.starting_offsets or Place("earliest")).of(*limits, "startingOffsets")
        reading = unread(self._options, self._topics, limits)
        reading = scan(reading, self._topics, first_of(self._options, start, limits), start)
        ids = self._topics.ids({topic for topic, _ in start})
        self._begin = {**_offset(start, reading, ids, self._topics.memory()), "initial": True}
        if "memory" in self._begin:
            self._begin["numbering"] = uuid.uuid4().hex
        self._done = start
        return self._begin

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends. Raises: SourceFault"""
        start = self._at if self._at is not None else self.initialOffset()
        read = _offsets(start)
        self._topics.look(self._done, read)
        limits = self._topics.limits()
        check_range(read, {place: max(at, read.get(place, 0)) for place, at in limits[1].items()}, limits)
        end = self._capped(read, read | limits[1])
        if end == read:
            self._at = start
            return start
        return self._scan(start, end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        """The parts of a batch. After a restart Spark first asks for an empty one, from and to its last offset.

        Raises: SourceFault
        """
        if start.get("initial") and "began" in end:
            # "latest" is further now than when this batch was planned
            start = {**start, "offsets": end["began"], "numbering": end.get("numbering")}
        elif not start.get("initial") and start.get("numbering") != end.get("numbering"):
            raise SourceFault(
                "the end of this batch is of another numbering of the files than the checkpoint: set "
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled to false"
            )
        first, last = _offsets(start), _offsets(end)
        self._at, self._done = end, last
        self._topics.recall(end.get("memory", ""))
        if first == last:
            return []
        check_range(first, last, self._topics.limits())
        if self._scanned is None or self._scanned[:2] != (start, end):
            self._scan(start, last)
            self._at = end
        assert self._scanned is not None
        return parts(
            self._scanned[2], cut(self._topics, first, last, self._options.max_records_per_partition), self._columns
        )

    def read(self, partition: Part) -> Any:  # type: ignore[override]
        """The rows of a part. Raises: RejectedMessage, SourceFault"""
        return partition.rows()

    def stop(self) -> None:
        """Close the client."""
        self._topics.close()

    def _scan(self, start: dict[str, Any], end: Offsets) -> dict[str, Any]:
        before = Reading(options=self._options, protocol=start["protocol"], known=unpack(start["schemas"]))
        reading = scan(before, self._topics, _offsets(start), end)
        found = _offset(end, reading, self._ids(start, end), self._topics.memory())
        if start.get("initial"):
            found["began"] = start["offsets"]
        if start.get("numbering"):
            found["numbering"] = start["numbering"]
        self._scanned, self._at = (start, found, self._with_ahead(reading, end)), found
        return found

    def _with_ahead(self, reading: Reading, end: Offsets) -> Reading:
        """A batch's reading, including what the messages behind the batch show. Raises: SourceFault"""
        known, upto = self._ahead or (reading, end)
        upto = {place: max(at, upto.get(place, at)) for place, at in end.items()}
        self._ahead = known, _ = look_ahead(known, self._topics, upto)
        texts = None if reading.texts is None else {**(known.texts or {}), **reading.texts}
        return msgspec.structs.replace(known, texts=texts, shown=known.shown or reading.shown)

    def _ids(self, start: dict[str, Any], end: Offsets) -> dict[str, str]:
        """The ids of the topics. Raises: SourceChanged if one of them was replaced"""
        now = self._topics.ids({topic for topic, _ in end})
        check_ids(start.get("ids", {}), now, _offsets(start), "Read the new topic with a new checkpoint")
        return {**start.get("ids", {}), **now}

    def _capped(self, read: Offsets, end: Offsets) -> Offsets:
        """At most as many messages as the options allow, with the same share of each partition."""
        behind = {place: last - read.get(place, 0) for place, last in end.items()}
        total, allowed = sum(behind.values()), self._options.max_offsets_per_trigger
        if allowed is None or total <= allowed:
            return end
        share = allowed / total
        return {place: read.get(place, 0) + math.ceil(count * share) for place, count in behind.items()}


def _offset(at: Offsets, reading: Reading, ids: dict[str, str], memory: str) -> dict[str, Any]:
    offsets = by_topic(at)
    found = {"protocol": reading.protocol, "offsets": offsets, "schemas": reading.known.pack(), "ids": ids}
    return {**found, "memory": memory} if memory else found


def _offsets(offset: dict[str, Any]) -> Offsets:
    try:
        return from_topics(offset["offsets"].items())
    except (KeyError, AttributeError, TypeError) as error:
        raise SourceFault(f"the checkpoint has no offset of this source: {offset!r:.200}; use a new one") from error
