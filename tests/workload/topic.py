"""From events to messages: topics, partitions, batches, duplicates."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import TypeAlias
from zlib import crc32

from tests.workload.config import WorkloadConfig
from tests.workload.delivery import overtaking, with_restarts
from ticdc_spark.model import Bootstrap, Change, Message, RowChange, SchemaChange, Watermark
from ticdc_spark.mysql import handle_key, tso_physical_ms
from ticdc_spark.protocols.base import Encoded, Encoder

Place: TypeAlias = tuple[str, int]
"""(topic, partition)."""


def dispatch(events: Iterable[Change], config: WorkloadConfig, encoder: Encoder) -> Iterator[Message]:
    """Send events as TiCDC does, with the faults that ``config`` asks for; offsets count from 0 in each partition."""
    if config.restart_every:
        events = with_restarts(events, config.restart_every, config.seed)
    if config.reorder:
        events = overtaking(events, config.seed)
    return _Dispatcher(config, encoder).run(events)


class _Dispatcher:
    def __init__(self, config: WorkloadConfig, encoder: Encoder) -> None:
        self._config = config
        self._encoder = encoder
        self._rand = Random(config.seed ^ 0xD15).random
        self._partitions = config.partitions
        self._topics = {config.topic: True}
        """Topics that get watermarks, in order of appearance."""
        self._waiting: dict[Place, list[RowChange]] = {}
        self._offsets: dict[Place, int] = {}
        self._again: dict[Place, list[tuple[int, Message]]] = {}
        self._routes: dict[tuple[str, str, int | None, int | None], tuple[str, int, tuple[str, ...]]] = {}
        """Topic, first part of the hash and key columns of each table version."""
        self._ms = config.start_ms

    def run(self, events: Iterable[Change]) -> Iterator[Message]:
        config, rows = self._config, 0
        for event in events:
            if isinstance(event, RowChange):
                rows += 1
                place = self._place(event)
                waiting = self._waiting.setdefault(place, [])
                waiting.append(event)
                if len(waiting) >= config.max_batch:
                    yield from self._flush(place)
                continue
            for place in self._waiting:
                yield from self._flush(place)
            if isinstance(event, Watermark):
                self._ms = max(self._ms, tso_physical_ms(event.commit_ts))
                if rows * 3 > config.changes:
                    self._partitions = config.partitions - config.idle_partitions
                yield from self._everywhere(self._topics, self._encoder.watermark(event.commit_ts))
            elif isinstance(event, Bootstrap):
                topic = self._topic(event.table.schema, event.table.name)
                yield from self._everywhere([topic], self._encoder.bootstrap(event.table))
            else:
                yield from self._everywhere([self._ddl_topic(event)], self._encoder.ddl(event))
                self._follow(event)
        for place in list(self._waiting):
            yield from self._flush(place)
        for place, again in self._again.items():
            for _, message in again:
                yield self._message(place, message.key, message.value)

    def _flush(self, place: Place) -> Iterator[Message]:
        waiting = self._waiting[place]
        if not waiting:
            return
        self._ms = max(self._ms, tso_physical_ms(waiting[-1].commit_ts))
        for encoded in self._encoder.rows(waiting):
            yield from self._send(place, encoded, rows=True)
        waiting.clear()

    def _everywhere(self, topics: Iterable[str], encoded: Encoded | None) -> Iterator[Message]:
        if encoded is None:
            return
        for topic in topics:
            for partition in range(self._partitions):
                yield from self._send((topic, partition), encoded)

    def _send(self, place: Place, encoded: Encoded, *, rows: bool = False) -> Iterator[Message]:
        message = self._message(place, encoded.key, encoded.value)
        yield message
        if rows and self._rand() < self._config.duplicates:
            due = message.offset + int(self._rand() * 4)
            self._again.setdefault(place, []).append((due, message))
        if again := self._again.get(place):
            for _, duplicate in [item for item in again if item[0] <= message.offset]:
                yield self._message(place, duplicate.key, duplicate.value)
            again[:] = [item for item in again if item[0] > message.offset]

    def _message(self, place: Place, key: bytes | None, value: bytes | None) -> Message:
        offset = self._offsets.get(place, 0)
        self._offsets[place] = offset + 1
        return Message(topic=place[0], partition=place[1], offset=offset, timestamp=self._ms, key=key, value=value)

    def _place(self, change: RowChange) -> Place:
        table = change.table
        version = (table.schema, table.name, table.version, table.table_id)
        route = self._routes.get(version)
        if route is None:
            text = f"{table.schema}.{table.name}"
            names = handle_key(table) if self._config.dispatch == "key" else ()
            route = self._routes[version] = (self._topic(table.schema, table.name), crc32(text.encode()), names)
        topic, start, names = route
        if self._partitions == 1:
            return topic, 0
        row = change.before if change.after is None else change.after
        if names and row is not None:
            start = crc32(repr([row[name] for name in names]).encode(), start)
        return topic, start % self._partitions

    def _topic(self, schema: str, name: str) -> str:
        return f"{self._config.topic}_{schema}_{name}" if self._config.topic_per_table else self._config.topic

    def _ddl_topic(self, change: SchemaChange) -> str:
        table = change.pre_table or change.table
        return self._topic(table.schema, table.name) if table else self._config.topic

    def _follow(self, change: SchemaChange) -> None:
        """A table that is gone, or goes by another name, leaves its topic without watermarks."""
        if not self._config.topic_per_table:
            return
        if change.pre_table:
            self._topics.pop(self._ddl_topic(change), None)
        if change.table and change.kind != "ERASE":
            self._topics[self._topic(change.table.schema, change.table.name)] = True
        if change.table is None and change.query.startswith("DROP DATABASE"):
            prefix = self._topic(change.schema, "")
            self._topics = {topic: True for topic in self._topics if not topic.startswith(prefix)}
