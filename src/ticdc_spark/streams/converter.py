"""Writes events of one protocol in another.

Missing facts are derived if possible. For Simple, tables from messages without schemas get versions and BOOTSTRAP
messages. For Simple and Debezium, a DDL gets the tables before and after it. An ``upsert`` (Open's insert, or its
update without old values) becomes an insert if the target has no upserts. DDL kinds are the target's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ticdc_spark.model import (
    Bootstrap,
    Change,
    Message,
    Offsets,
    Rejected,
    RowChange,
    SchemaChange,
    Table,
    TopicPartition,
    Watermark,
)
from ticdc_spark.protocols import protocol
from ticdc_spark.protocols.base import Encoded, Encoder
from ticdc_spark.streams.reader import Found
from ticdc_spark.streams.target_tables import TablesOf, TargetTables
from ticdc_spark.streams.write_changes import UNWRITABLE

_RUN = 256
"""How many rows of one partition are encoded at once."""


class Converter:
    """Writes the events of a reader. Messages are in order within each partition. Offsets start from 0."""

    def __init__(self, tables_of: TablesOf, name: str, to: Encoder) -> None:
        """``tables_of``: gives the tables before and after a DDL that has none itself."""
        self._tables_of = tables_of
        self._target = protocol(name).traits
        self._to = to
        self._offsets: Offsets = {}
        self._run: list[Found] = []
        self.unsent: Counter[str] = Counter()
        """DDL and watermarks that have no message in the target."""
        self._tables = TargetTables(self._target)
        self._sent: set[tuple[TopicPartition, str, str, int]] = set()

    def convert(self, found: Found) -> Iterator[Message | Rejected]:
        """The messages that an event completes; ``Rejected`` for an event that cannot be read or written."""
        event = found.event
        if isinstance(event, RowChange):
            if self._run and _partition(self._run[0]) != _partition(found):
                yield from self.flush()
            self._run.append(found)
            if len(self._run) >= _RUN:
                yield from self.flush()
            return
        yield from self.flush()
        if isinstance(event, SchemaChange | Bootstrap):
            self._tables.learn(event)
        match event:
            case Rejected():
                yield event
            case Watermark(commit_ts):
                yield from self._messages(found, [self._to.watermark(commit_ts)])
            case Bootstrap(table):
                yield from self._messages(found, [self._to.bootstrap(table)])
            case SchemaChange():
                if found.message.partition == 0 or not self._target.ddl_to_first_partition:
                    yield from self._attempt(found, lambda: [self._to.ddl(self._tables.ddl(event, self._tables_of))])

    def flush(self) -> Iterator[Message | Rejected]:
        """Write the rows that wait for more rows of their partition."""
        run, self._run = self._run, []
        if not run:
            return
        changes = []
        for found in run:
            assert isinstance(found.event, RowChange)
            changes.append(self._tables.row(found.event))
        if self._target.versioned_tables:
            for found, change in zip(run, changes, strict=True):
                yield from self._schema(found, change.table)
        try:
            encoded: list[Encoded | None] = list(self._to.rows(changes))
        except UNWRITABLE:
            # one of them cannot be written: try each alone
            for found, change in zip(run, changes, strict=True):
                yield from self._attempt(found, partial(self._rows, change))
            return
        yield from self._messages(run[0], encoded)

    def _rows(self, change: RowChange) -> Sequence[Encoded | None]:
        return list(self._to.rows([change]))

    def _schema(self, found: Found, table: Table) -> Iterator[Message | Rejected]:
        key = (_partition(found), table.schema, table.name, table.version or 0)
        if key not in self._sent:
            self._sent.add(key)
            yield from self._messages(found, [self._to.bootstrap(table)])

    def _attempt(self, found: Found, make: Callable[[], Sequence[Encoded | None]]) -> Iterator[Message | Rejected]:
        try:
            encoded = make()
        except UNWRITABLE as error:
            yield Rejected(f"cannot be written: {error}")
            return
        yield from self._messages(found, encoded)

    def _messages(self, found: Found, encoded: Sequence[Encoded | None]) -> Iterator[Message]:
        topic, partition = _partition(found)
        for one in encoded:
            if one is None:
                self._count_unsent(found.event)
            else:
                offset = self._offsets.get((topic, partition), 0)
                self._offsets[topic, partition] = offset + 1
                yield Message(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    timestamp=found.message.timestamp,
                    key=one.key,
                    value=one.value,
                )

    def _count_unsent(self, event: Change | Rejected) -> None:
        if isinstance(event, SchemaChange | Watermark):
            self.unsent["DDL" if isinstance(event, SchemaChange) else "watermark"] += 1


def _partition(found: Found) -> TopicPartition:
    return found.message.topic, found.message.partition
