"""What will stop a job: DDL that it has read and not applied, and messages that it has not read. They are read without
Spark, and nothing is written."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from ticdc_spark.config.histories import shared
from ticdc_spark.config.job import Job, KafkaSource, StorageSource, native_of
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.values import MessagePlace, skip_messages_line
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Bootstrap, Message, Offsets, Rejected, RowChange, SchemaChange, Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.replicate.plan.merging import by_source
from ticdc_spark.replicate.plan.names import source_tables, tables_of
from ticdc_spark.replicate.plan.offsets import known_offsets
from ticdc_spark.replicate.plan.parked import parks
from ticdc_spark.replicate.plan.policy import stop_of, tables_after
from ticdc_spark.replicate.plan.spelling import as_merged
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.run.preflight import matching, security
from ticdc_spark.replicate.schemas.partitioned import with_partitions
from ticdc_spark.replicate.schemas.sql_ddl import ParkedTables
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.registry import sink_kind
from ticdc_spark.spark.sources.stored_files import open_storage
from ticdc_spark.streams.decoders import decoder_of
from ticdc_spark.streams.detect import detected
from ticdc_spark.streams.reader import EventReader, Found
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.messages import recorded_messages
from ticdc_spark.topics.storage.ledger import PLACE

MOST_NAMED = 20
"""Largest number of messages that one line for the job file lists."""


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """Something that will stop the job or make it skip rows."""

    what: str
    """One sentence: what happens, and where."""
    line: str
    """The setting of the job file that decides it."""


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a look."""

    messages: int
    rows: int
    tables: int
    """The number of replicated tables with messages."""
    stops: tuple[Stop, ...]


def look_ahead(job: Job, progress: Progress | None) -> Ahead:
    """Check the waiting DDL and every message that the job has not read, up to the current end of the topics.

    Raises: UsageError if the protocol cannot be detected, or only Spark can reach the cluster; SourceFault
    """
    with _unread(job, progress) as messages:
        protocol = job.source.protocol or ("" if progress is None else progress.protocol)
        if not protocol:
            protocol, messages = detected(messages, 1, f"{job.file}: [source] protocol")
        registry = job.source.schema_registry, native_of(job.source), job.source.schema_registry_options
        with decoder_of(protocol, *registry) as (decoder, schemas):
            options = ReadOptions(source_timezone=job.source_timezone, ambiguous_timestamp=job.ambiguous_timestamp)
            reader = EventReader(decoder, options, schemas=schemas)
            tables = () if progress is None else progress.tables
            known = {one.full_name: one.table for one in tables if one.table is not None}
            if progress is not None:
                known |= {name: one.table for name, one in by_source(progress.shards).items()}
                reader.go_on_from([*(one.table for one in progress.schemas), *known.values()])
            waiting = () if progress is None else progress.ddls
            return Look(job, reader, known.values(), tables).at(messages, waiting)


class Look:
    """One look at unread messages."""

    def __init__(
        self, job: Job, reader: EventReader, known: Iterable[Table] = (), states: Iterable[TableState] = ()
    ) -> None:
        """``known``: the tables of the job. ``states``: the state of each table, including dropped ones."""
        by_name = {one.full_name: one for one in states}
        self._parked = ParkedTables(by_name, lambda name: parks(job, name))
        self._job, self._reader = job, reader
        self._is_included, self._routes = table_filter(job.tables), compiled(job.routes)
        self._stops: dict[object, Stop] = {}
        self._unreadable: dict[MessagePlace, str] = {}
        self._tables: set[TableName] = set()
        self._ddls: set[object] = set()
        self._known: dict[TableName, Table] = {one.full_name: one for one in known}
        """Tables after the DDL read so far, with their partitions."""
        self._rows = 0

    def at(self, messages: Iterable[Message], waiting: Iterable[QueuedDdl] = ()) -> Ahead:
        """What the messages contain. ``waiting``: DDL that was read before them and is not applied yet."""
        for ddl in sorted(waiting, key=lambda ddl: ddl.change.commit_ts):
            place = Message(
                topic=ddl.topic, partition=ddl.partition, offset=ddl.offset, timestamp=0, key=None, value=None
            )
            for found in self._reader.read_event(place, 0, ddl.change):
                self._add(found)
        count = 0
        for message in messages:
            count += 1
            for found in self._reader.read(message):
                self._add(found)
        for schema, name in sorted(self._reader.waiting):
            if self._is_included(schema, name):
                what = f"rows of `{schema}`.`{name}` have no schema: no DDL or BOOTSTRAP defines it"
                line = f'[schema] file with its CREATE TABLE, or [schema] skip-to-known = ["{schema}.{name}"]'
                self._stops["schema", schema, name] = Stop(what=what, line=line)
        if same := shared(self._job, sorted(self._tables | self._known.keys())):
            self._stops["route"] = Stop(what=same.what, line=f"{same.section}. {same.cure}")
        return Ahead(
            messages=count, rows=self._rows, tables=len(self._tables), stops=(*self._stops.values(), *self._bad())
        )

    def _add(self, found: Found) -> None:
        match found.event:
            case RowChange(table=table):
                self._note(table)
                self._rows += 1
            case Bootstrap(table):
                self._note(table)
            case SchemaChange() as change:
                self._ddl(found, change)
            case Rejected(reason):
                row, message = found.envelope, found.message
                if row is None or self._is_included(row.schema, row.table):
                    place = MessagePlace(message.topic, message.partition, message.offset)
                    self._unreadable.setdefault(place, reason)

    def _note(self, table: Table) -> None:
        name = table.full_name
        if name in self._tables or not self._is_included(*name):
            return
        self._tables.add(name)
        self._fit(table)
        if not handle_key(table) and self._job.no_key == "stop":
            what = f"`{name[0]}`.`{name[1]}` has no key"
            self._stops["key", name] = Stop(
                what=what, line='[job] no-key = "apply" or "skip", or exclude it with [job] tables'
            )

    def _fit(self, table: Table) -> None:
        """Check whether the rules of ``[[route]]`` fit the current columns of a table."""
        name = table.full_name
        try:
            if self._is_included(*name):
                compiled(self._job.routes).stop_if_wrong(table)
        except UsageError as error:
            line = f'another [[route]] for it, or [job] tables with "!{name[0]}.{name[1]}"'
            self._stops.setdefault(("rule", name), Stop(what=str(error), line=line))

    def _ddl(self, found: Found, change: SchemaChange) -> None:
        if (copy := identity(change)) in self._ddls:
            return  # each partition of a topic has a copy of it
        self._ddls.add(copy)
        if change.table is None:
            known = next((self._known[name] for name in sorted(tables_of(change)) if name in self._known), None)
            before, after = self._reader.tables_of(change) if self._reader.follows_ddl else (known, known)
            change = msgspec.structs.replace(change, table=after, pre_table=before)
        if change.table is not None:
            self._note(change.table)
            self._fit(change.table)
        change = with_partitions(change, self._known, None, from_sql=self._reader.follows_ddl, zone=self._job.ddl_zone)
        change = self._parked.follow(as_merged(self._routes, change), self._known)
        before_it, self._known = self._known, tables_after(self._job, self._known, change)
        names = set().union(*source_tables(change))
        why = stop_of(self._job, change, before_it, sink_kind(self._job).types)
        if why is None or (names and not any(self._is_included(*name) for name in names)):
            return
        message = found.message
        where = f"topic {message.topic}, partition {message.partition}, offset {message.offset}"
        what = f"at commitTs {change.commit_ts} ({where}), {why.why}: {change.query}"
        self._stops[copy] = Stop(what=what, line="; ".join(f"{way[0].lower()}{way[1:]}" for way in why.ways))

    def _bad(self) -> Iterator[Stop]:
        left_out = set(self._job.skip_messages)
        bad = {place: why for place, why in self._unreadable.items() if place not in left_out}
        if not bad or self._job.on_reject != "stop":
            return
        first, why = next(iter(bad.items()))
        every = [*self._job.skip_messages, *list(bad)[:MOST_NAMED]]
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        what = f"a message cannot be read: {why} ({first.topic}/{first.partition}/{first.offset}{more})"
        yield Stop(what=what, line=f"[job] {skip_messages_line(every)}, or on-reject")


@contextmanager
def _unread(job: Job, progress: Progress | None) -> Iterator[Iterator[Message]]:
    offsets: Offsets = {} if progress is None else known_offsets(progress)
    source = job.source
    if isinstance(source, StorageSource):
        topic = open_storage(source)
        topic.recall("" if progress is None else progress.source_memory)
        topic.take_all()
        yield topic.messages(offsets.get(PLACE, 0), topic.ledger.end)
        return
    if not isinstance(source, KafkaSource):
        yield recorded_messages(source.path, start=offsets)
        return
    with TopicReader(source.bootstrap_servers, security(source)) as kafka:
        topics = source.topics or tuple(matching(kafka.topics(), source.topic_pattern or ""))
        if not topics:
            raise UsageError(f"Kafka at {source.bootstrap_servers}: no topic matches {source.topic_pattern!r}")
        partitions = kafka.partitions(topics)
        begin = kafka.places(partitions, "beginning")
        start = {place: max(begin[place], offsets.get(place, 0)) for place in partitions}
        yield kafka.read(start, kafka.places(partitions, "end"), [], patient=False)
