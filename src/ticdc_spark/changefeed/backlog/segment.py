"""The rows of a stretch between two DDLs: encoded by tasks, or given unencoded if they are few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from ticdc_spark.capture.base import CapturedDdl, Resolved, Transaction
from ticdc_spark.capture.reorder import Reordering
from ticdc_spark.capture.stream import Stream
from ticdc_spark.changefeed.actions import Announce
from ticdc_spark.changefeed.backlog.batch import FileBatch, Prepared, Tasks
from ticdc_spark.changefeed.backlog.encoding import Encoded, EncodeJob, Range, encode_range, transactions
from ticdc_spark.changefeed.backlog.files import Chunk, Name, read_rows_of
from ticdc_spark.changefeed.backlog.plan import parts_of, ranges_of
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.encoders import encoder, opened_registry
from ticdc_spark.changefeed.topics import TopicFacts, Topics
from ticdc_spark.errors import EnvironmentFault, TicdcSparkError, os_reason
from ticdc_spark.model import RowChange, Table, TopicPartition
from ticdc_spark.protocols import protocol
from ticdc_spark.streams.reader import EventReader
from ticdc_spark.streams.registering import Registering, register_table
from ticdc_spark.streams.target_tables import TargetTables

FEW = 2000
"""Up to this number of rows, starting tasks is not worthwhile."""


class OddStretch(Exception):
    """Tasks cannot send what comes next. One process can, or raises the error. Not an error by itself."""


class Segment(NamedTuple):
    """The rows between two DDLs: of a range of commit_ts, (above, upto]."""

    chunks: Sequence[Chunk]
    """Chunks that have these rows, and maybe more."""
    above: int
    upto: int
    ddl_ts: int
    """commit_ts of the DDL at its end; 0: there is none."""


class Segments:
    """Prepares segments of one source for one target. Use it from one thread."""

    def __init__(
        self,
        changefeed: Changefeed,
        rules: Router,
        topics: Topics,
        stream: Stream,
        source_protocol: str,
        tasks: Tasks,
        folder: Path,
    ) -> None:
        self._changefeed, self._rules, self._topics = changefeed, rules, topics
        self._stream, self._source_protocol, self._tasks, self._folder = stream, source_protocol, tasks, folder
        self._traits = protocol(changefeed.protocol).traits
        self._target = TargetTables(self._traits)

    def rows(
        self, order: Reordering, reader: EventReader, source: tuple[TopicPartition, ...], of: Segment, position: str
    ) -> Iterator[Transaction | Prepared]:
        """The rows of a segment. ``position``: of the source, while they are sent.

        Raises: OddStretch, EnvironmentFault, SinkFault, UsageError, RegistryFault
        """
        above, upto, ddl_ts = of.above, of.upto, of.ddl_ts
        ranges = ranges_of(of.chunks, above, upto, self._tasks.parallelism)
        if not ranges:
            return
        if _about(ranges, above, upto) < FEW:
            held = {(chunk.file, chunk.at): chunk for one in ranges for chunk in one.chunks}
            rows = read_rows_of([*held.values()], above, upto)
            for transaction in transactions(source, reader, rows, ddl_ts, {}):
                for change in transaction.changes:
                    order.learn(change.table)
                yield msgspec.structs.replace(transaction, position=position)
            return
        batch = self._encoded(order, reader, source, ranges, above, ddl_ts)
        end = Resolved(commit_ts=upto - 1 if ddl_ts else upto, position=position)
        yield Prepared(end=end, batch=batch)

    def follow(self, captured: CapturedDdl) -> None:
        """Take a DDL, after the rows before it."""
        try:
            for one in self._rules.ddl(captured):
                if one.verdict == "send":
                    self._target.learn(one.change)
                    self._target.captured_ddl(one.change)
        except TicdcSparkError:
            return  # the loop meets the error too, and raises it

    def _encoded(
        self,
        order: Reordering,
        reader: EventReader,
        source: tuple[TopicPartition, ...],
        ranges: tuple[Range, ...],
        above: int,
        ddl_ts: int,
    ) -> FileBatch:
        names = {name for one in ranges for chunk in one.chunks for name in chunk.names}
        known = _tables(reader, names)
        shown = _shown(reader, source, ranges, names)
        facts: dict[str, TopicFacts] = {}
        sent: dict[Table, None] = {}
        whole = self._traits.versioned_tables
        for table in (*known, *shown):
            route = self._rules.route(table)
            if not route.left_out:
                facts[route.topic] = self._topics.facts(route.topic)
                sent[route.table if whole else route.sent_table] = None
        for table in sent:
            self._target.table(table, above + 1)
        folder = self._folder / f"messages-{uuid4().hex}"
        try:
            folder.mkdir()
        except OSError as error:
            raise EnvironmentFault(f"{folder}: {os_reason(error)}") from error
        job = EncodeJob(
            changefeed=self._changefeed,
            rules=self._rules,
            stream=self._stream,
            source_protocol=self._source_protocol,
            ranges=ranges,
            source=source,
            tables=known,
            target=self._target,
            facts=facts,
            ids=self._ids(sent, above + 1),
            ddl_ts=ddl_ts,
            folder=folder,
        )
        found = self._tasks.run(encode_range, job, len(ranges), Encoded)
        for one in found:
            if one.odd:
                raise OddStretch(one.odd)
        read = {table: None for one in found for table in one.read}
        if self._traits.versioned_tables or self._traits.registry:
            for table in read:
                if table not in known and table not in shown:
                    raise OddStretch(f"rows of `{table.schema}`.`{table.name}` do not look as its schema")
        for table in sorted(read, key=lambda table: table.version or 0):
            order.learn(table)
        blocks = [block for one in found for block in one.blocks]
        return FileBatch(
            rows=sum(one.rows for one in found),
            messages=sum(one.messages for one in found),
            bytes=sum(one.bytes for one in found),
            counted=tuple(rows for one in found for rows in one.counted),
            announces=self._announces(found, above + 1),
            parts=parts_of(blocks, self._tasks.parallelism),
            folder=folder,
        )

    def _announces(self, found: Sequence[Encoded], base: int) -> tuple[Announce, ...]:
        merged: dict[tuple[str, Table], Announce] = {}
        for one in found:
            for met in one.met:
                table = self._target.table(met.table, base)
                before = merged.get((met.topic, table))
                rows, first = met.rows, met.first_ts
                if before is not None:
                    rows, first = rows + before.rows, min(first, before.first_ts)
                merged[met.topic, table] = Announce(met.topic, table, first, rows)
        return tuple(sorted(merged.values(), key=lambda announce: announce.first_ts))

    def _ids(self, tables: dict[Table, None], base: int) -> dict[tuple[str, str], int]:
        with opened_registry(self._changefeed) as registry:
            if registry is None:
                return {}
            registering = Registering(registry)
            for table in tables:
                limit = self._topics.limit(self._rules.topic(table.schema, table.name))
                register_table(
                    encoder(self._changefeed, registering, self._rules.topic, limit), self._target.table(table, base)
                )
            return registering.ids


def _about(ranges: Sequence[Range], above: int, upto: int) -> float:
    """How many rows are in (above, upto], if chunks are evenly filled."""
    chunks = {(chunk.file, chunk.at): chunk for one in ranges for chunk in one.chunks}
    return sum(
        chunk.rows * (min(chunk.high, upto) - max(chunk.low - 1, above)) / (chunk.high - chunk.low + 1)
        for chunk in chunks.values()
    )


def _tables(reader: EventReader, names: set[Name]) -> tuple[Table, ...]:
    """The known tables with which rows of these names are read."""
    if not reader.follows_ddl:
        found = (reader.version(*name) for name in sorted(names))
        return tuple(table for table in found if table is not None)
    wanted = {name[:2] for name in names}
    return tuple(table for table in reader.known if table.full_name in wanted)


def _shown(
    reader: EventReader, source: tuple[TopicPartition, ...], ranges: Sequence[Range], names: set[Name]
) -> tuple[Table, ...]:
    """The tables of unknown names, from the first row of each."""
    if not reader.follows_ddl:
        return ()
    missing = {name[:2] for name in names} - {table.full_name for table in reader.known}
    found: list[Table] = []
    for one in ranges:
        if not missing:
            break
        if not any(name[:2] in missing for chunk in one.chunks for name in chunk.names):
            continue
        for row in read_rows_of(one.chunks, one.above, one.upto):
            if (row.schema, row.table) in missing:
                missing.discard((row.schema, row.table))
                read = reader.read_event(row.message(*source[row.partition]), row.seq, row.event)
                found += [one.event.table for one in read if isinstance(one.event, RowChange)]
    return tuple(found)
