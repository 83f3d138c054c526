"""A topic as a DataFrame: one row per event, with its values. For notebooks and ad hoc queries.

One task reads each partition of a topic in order with an ``EventReader``, so rows are read with the schemas and DDL of
their own partition. Schemas that rows name by version are first collected from all partitions. The driver fetches
registered schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.config.job import FilesSource, SourceConfig, StorageSource, native_of
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Bootstrap, Message, Offsets, SchemaChange, Table
from ticdc_spark.protocols import canonical, decoder, protocol
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.spark.session.session import coordinates, open_session
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.sources.faults import source_faults
from ticdc_spark.spark.sources.kafka import KafkaTopicSource
from ticdc_spark.spark.sources.open import open_source, parts
from ticdc_spark.spark.sources.storage import StorageSinkSource
from ticdc_spark.spark.sources.stored_files import open_storage
from ticdc_spark.spark.tasks import ArrowTask, in_worker
from ticdc_spark.streams.detect import detect
from ticdc_spark.streams.event_lines import EventLine, event_line
from ticdc_spark.streams.reader import EventReader
from ticdc_spark.streams.storage_messages import PROTOCOL as STORED
from ticdc_spark.wire.confluent import head, schema_id

EVENTS = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("seq", pa.int32()),
        ("commit_ts", pa.int64()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("partial", pa.bool_()),
        ("query", pa.string()),
        ("reason", pa.string()),
    ]
)
"""The columns of ``read_topic``: the fields of ``EventLine``, with ``before`` and ``after`` as JSON."""
_EVENTS_DDL = (
    "kind string, topic string, partition int, offset bigint, seq int, commit_ts bigint, schema string, "
    "table string, before string, after string, partial boolean, query string, reason string"
)
_TABLES = pa.schema([("table", pa.string())])
_LOOKED_AT = 1000
_BYTES = 16 << 20


class _Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How the messages of a topic are read; sent to each task."""

    protocol: str
    native: dict[str, str]
    options: ReadOptions
    claim_check_storage: str | None
    schemas: dict[int, str] | None = None
    tables: tuple[Table, ...] = ()

    def reader(self) -> EventReader:
        """A reader for one partition."""
        of = decoder(self.protocol, self.schemas, self.native)
        stored = self.claim_check_storage
        fetch = None if stored is None else ClaimCheckStorage(stored).fetch
        reader = EventReader(of, self.options, schemas=self.schemas, fetch=fetch)
        reader.add_schemas(self.tables)
        return reader


def read_topic(
    source: SourceConfig,
    options: ReadOptions | None = None,
    *,
    start: Offsets | None = None,
    end: Offsets | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Read the messages of a source into a DataFrame with the columns of ``inspect --json``.

    ``source``: as ``[source]`` of a job file; ``load_job(file).source``, ``FilesSource``, ``StorageSource`` or
    ``KafkaSource``. Its ``starting`` and ``upstream`` are ignored. ``start`` and ``end``: offsets [start, end) by
    (topic, partition); by default, everything that exists when the function is called. ``spark``: a session that
    has the connectors; by default one is opened or joined.

    The rows of one topic partition are in the order of the log; there is no order between partitions. ``before`` and
    ``after`` are JSON objects of column names and values, each text, null, or ``{"base64": …}`` for bytes. A message
    that cannot be read is a row of kind ``rejected`` with the reason.

    Raises: UsageError if the protocol is unknown or cannot be detected, or a registry is missing; SourceFault;
    RegistryFault. Messages are read when the DataFrame is evaluated; errors are then Spark's.
    """
    if isinstance(source, FilesSource):
        source = msgspec.structs.replace(source, path=Path(source.path).absolute())
    if spark is None:
        spark = open_session("ticdc-spark topic", {}, coordinates(*parts(source)))
    opened = _whole(spark, source) if isinstance(source, StorageSource) else open_source(spark, source)
    try:
        first = opened.beginning_offsets() | (start or {})
        last = opened.end_offsets() if end is None else end
        of_files = STORED if isinstance(source, StorageSource) else None
        named = source.protocol or of_files
        name = canonical(named) if named else _detected(opened, first, last)
        messages: DataFrame = opened.read(first, last)
    finally:
        if isinstance(opened, KafkaTopicSource):
            opened.close()
    traits = protocol(name).traits
    reading = _Reading(
        protocol=name,
        native=native_of(source),
        options=options or ReadOptions(),
        claim_check_storage=source.claim_check_storage,
    )
    decoder(name, native=reading.native)  # UsageError for a property that the protocol does not have
    if traits.registry:
        reading = msgspec.structs.replace(reading, schemas=_registered(source, messages))
    if traits.versioned_tables:
        reading = msgspec.structs.replace(reading, tables=_tables(reading, messages))
    ordered = messages.repartition(max(1, len(last)), "topic", "partition")
    ordered = ordered.sortWithinPartitions("topic", "partition", "offset")
    return ordered.mapInArrow(in_worker(partial(_events, reading)), _EVENTS_DDL)


def _whole(spark: SparkSession, source: StorageSource) -> Source:
    """A storage sink with all its current files."""
    if "://" not in source.path:
        source = msgspec.structs.replace(source, path=str(Path(source.path).absolute()))
    topic = open_storage(source)
    topic.take_all()
    return StorageSinkSource(spark, topic)


def _detected(source: Source, start: Offsets, end: Offsets) -> str:
    cut = source.cap(start, end, _LOOKED_AT, _BYTES)
    return detect(source.first_messages(start, cut, _LOOKED_AT))


def _registered(source: SourceConfig, messages: DataFrame) -> dict[int, str]:
    """The registered schemas that messages name, without ids that the registry does not have."""
    if source.schema_registry is None:
        raise UsageError("schema-registry is missing: the messages refer to schemas of a registry")
    with source_faults("the messages cannot be read"):
        parts_of = [messages.select(f.substring(name, 1, 5).alias("head")) for name in ("key", "value")]
        heads = parts_of[0].union(parts_of[1]).distinct().toArrow().column("head").to_pylist()
    found: dict[int, str] = {}
    with open_registry(source.schema_registry, source.schema_registry_options) as registry:
        for number in sorted({schema_id(one) for one in map(head, heads) if one is not None}):
            try:
                found[number] = registry[number]
            except (KeyError, MessageError):
                continue
    return found


def _tables(reading: _Reading, messages: DataFrame) -> tuple[Table, ...]:
    """Every version of a table in a BOOTSTRAP or DDL of any partition."""
    with source_faults("the messages cannot be read"):
        found = messages.mapInArrow(_schemas(reading), "table string").distinct().toArrow()
    return tuple(msgspec.json.decode(text, type=Table) for text in found.column("table").to_pylist())


def _schemas(reading: _Reading) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        of = decoder(reading.protocol, reading.schemas, reading.native)
        for batch in batches:
            found: dict[Table, None] = {}
            for message in _messages(batch):
                for event in of.open_message(message.key, message.value):
                    if isinstance(event, Bootstrap):
                        found[event.table] = None
                    elif isinstance(event, SchemaChange):
                        found |= dict.fromkeys(one for one in (event.pre_table, event.table) if one is not None)
            texts = [msgspec.json.encode(table).decode() for table in found]
            yield pa.RecordBatch.from_pydict({"table": texts}, schema=_TABLES)

    return in_worker(run)


def _events(reading: _Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    reader = reading.reader()
    place: tuple[str, int] | None = None
    for batch in batches:
        lines: list[EventLine] = []
        for message in _messages(batch):
            if place is not None and place != (message.topic, message.partition):
                lines += map(event_line, reader.finish())
                reader = reading.reader()
            place = (message.topic, message.partition)
            lines += map(event_line, reader.read(message))
        yield _batch(lines)
    yield _batch([event_line(found) for found in reader.finish()])


def _messages(batch: pa.RecordBatch) -> Iterator[Message]:
    for row in batch.to_pylist():
        yield Message(**row)


def _batch(lines: Iterable[EventLine]) -> pa.RecordBatch:
    rows = [msgspec.structs.asdict(line) | {"before": _json(line.before), "after": _json(line.after)} for line in lines]
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)


def _json(image: object) -> str | None:
    return None if image is None else msgspec.json.encode(image).decode()
