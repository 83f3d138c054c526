"""Writing: rows of the generic form to messages of any protocol, in Kafka or a recorded topic.

The encoder is the one of ``convert``, so the same changes give the same bytes. Messages of a partition are in the order
of the rows of a task. Across tasks, Kafka has no order, and a recorded topic has the order of the frame's partitions.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import BooleanType, DataType, IntegralType, NullType, Row, StringType, StructType

from ticdc_spark.clients.registry_file import PREFIX, open_registry
from ticdc_spark.config.toml import Reads
from ticdc_spark.config.values import Folder, Positive, ProtocolName, Text
from ticdc_spark.datasource.changes import NEEDED, RowsToChanges
from ticdc_spark.datasource.options import Topic, read_topic
from ticdc_spark.datasource.schemas import from_ddl
from ticdc_spark.errors import EnvironmentFault, SinkFault, UnsendableChange, UsageError, os_reason
from ticdc_spark.model import Message, Offsets, Rejected
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.base import Encoder
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter
from ticdc_spark.topics.client_options import librdkafka_options
from ticdc_spark.topics.manifest import ends, list_recorded, spans
from ticdc_spark.topics.messages import recorded_messages
from ticdc_spark.topics.writer import FORMATS, Format, RecordWriter

_SEGMENT_BYTES = 128 << 20
_FLUSH_SECONDS = 120.0
_OF_SPARK = frozenset({"checkpointlocation"})
"""Options of a stream that Spark also passes to its sink."""


def _format(value: object) -> str:
    if value not in FORMATS:
        raise ValueError
    return str(value)


class WriteOptionsOfSource(Topic, frozen=True, kw_only=True):
    """The options of writing, except the protocol's own."""

    path: Folder | None = None
    """A recorded topic, as an absolute path."""
    protocol: ProtocolName | None = None
    topic: Text | None = None
    """The topic of all messages; ``None``: from each row's column."""
    ddl: Text | None = None
    file_format: Annotated[str, Reads(_format, ", ".join(FORMATS))] = "parquet"
    segment_rows: Positive = 500_000


class WritePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a task must know."""

    options: WriteOptionsOfSource
    protocol: str
    encoding: dict[str, str]
    """Options of the protocol, named as in TiCDC."""


_KINDS: Mapping[str, tuple[type[DataType], ...]] = {
    **dict.fromkeys(("_change_type", "schema", "table", "before", "after", "topic", "table_schema"), (StringType,)),
    **dict.fromkeys(("_commit_version", "partition", "seq", "table_id"), (IntegralType,)),
    "partial": (BooleanType,),
}
"""The types of the columns that are read."""


def check_types(schema: StructType) -> None:
    """Raises: UsageError for a column of another type, whose values would be misread"""
    for field in schema.fields:
        kinds = _KINDS.get(field.name)
        if kinds is not None and not isinstance(field.dataType, (*kinds, NullType)):
            allowed = {StringType: "string", IntegralType: "bigint, int", BooleanType: "boolean"}[kinds[0]]
            raise UsageError(f"column {field.name}: found type {field.dataType.simpleString()}; allowed: {allowed}")


def write_plan(options: Mapping[str, str], columns: Iterable[str]) -> WritePlan:
    """Check the options of writing, and the columns of the frame. Raises: UsageError"""
    mine = {field.encode_name for field in msgspec.structs.fields(WriteOptionsOfSource)}
    folded = {name.replace("-", "") for name in mine}
    own: dict[str, str] = {}
    encoding: dict[str, str] = {}
    for key, value in options.items():
        is_own = key.replace("-", "").lower() in folded or key.startswith(("kafka.", "schema-registry."))
        (own if is_own else encoding)[key] = value
    found = read_topic(own, WriteOptionsOfSource)
    if found.path is not None and "://" in str(own["path"]):
        raise UsageError(f"option path: found {own['path']!r}; allowed: a folder of this machine")
    if found.protocol is None:
        raise UsageError(f"option protocol: missing; allowed: {', '.join(sorted(PROTOCOLS))}")
    if (found.schema_registry or "").startswith(PREFIX):
        raise UsageError(
            "option schema-registry: several tasks cannot write one file of schemas; name a registry's URL"
        )
    there = set(columns)
    if missing := [name for name in NEEDED if name not in there]:
        raise UsageError(f"the frame has no column {missing[0]}; needed: {', '.join(NEEDED)}")
    if found.topic is None and "topic" not in there:
        raise UsageError("the frame has no column topic; set the option topic")
    from_ddl(found.ddl, None)
    plan = WritePlan(options=found, protocol=found.protocol, encoding=encoding)
    with encoder_of(plan):
        return plan


@contextmanager
def encoder_of(plan: WritePlan) -> Iterator[Encoder]:
    """The encoder of a plan. Raises: UsageError for options that the protocol does not have; RegistryFault"""
    options = plan.options
    if options.schema_registry is None or not PROTOCOLS[plan.protocol].traits.registry:
        yield target_encoder(plan.protocol, plan.encoding)
        return
    with open_registry(options.schema_registry, options.schema_registry_options) as registry:
        yield target_encoder(plan.protocol, plan.encoding, registry)


def messages_of(plan: WritePlan, rows: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
    """The messages of rows. Raises: UsageError for a row that is not a change; UnsendableChange for one that the
    protocol cannot carry"""
    changes = RowsToChanges(from_ddl(plan.options.ddl, None), plan.options.topic)
    with encoder_of(plan) as encoder:
        converter = Converter(changes.tables_of, plan.protocol, encoder)
        for row in rows:
            yield from map(_sent, converter.convert(changes.read(row)))
        yield from map(_sent, converter.flush())


def _sent(one: Message | Rejected) -> Message:
    if isinstance(one, Rejected):
        raise UnsendableChange(f"{one.reason}; remove it from the frame, or write another protocol")
    return one


class Written(WriterCommitMessage):
    """What a task has written: to its own file, or to Kafka."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder


class Task:
    """The work of one task; sent to it."""

    def __init__(self, plan: WritePlan, hidden: Path | None) -> None:
        """``hidden``: the folder for a recorded topic's parts."""
        self.plan = plan
        self.hidden = hidden

    def write(self, rows: Iterable[Mapping[str, Any]]) -> Written:
        """Write the messages of rows. Raises: SinkFault, and as ``messages_of``"""
        if self.hidden is None:
            _produce(self.plan.options, messages_of(self.plan, rows))
            return Written(None)
        folder = self.hidden / uuid.uuid4().hex
        with _files(folder):
            folder.mkdir(parents=True)
            writer = RecordWriter(folder, "parquet", self.plan.options.segment_rows, _SEGMENT_BYTES)
            for message in messages_of(self.plan, rows):
                writer.write(message)
            writer.finish()
        return Written(str(folder))


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise UsageError('mode "overwrite": messages of a topic are never replaced; use mode("append")')
        check_types(schema)
        plan = write_plan(options, schema.fieldNames())
        path = plan.options.path
        self._task = Task(plan, None if path is None else path / f".writing-{uuid.uuid4().hex}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task."""
        return self._task.write(row for batch in iterator for row in batch.to_pylist())

    def commit(self, messages: list[Written | None]) -> None:  # type: ignore[override]
        """Add what tasks wrote to a recorded topic, with offsets after its existing ones."""
        if self._task.hidden is not None:
            options = self._task.plan.options
            assert options.path is not None
            folders = [Path(one.folder) for one in messages if one is not None and one.folder is not None]
            with _files(options.path):
                gather(options, folders)
                shutil.rmtree(self._task.hidden, ignore_errors=True)

    def abort(self, messages: list[Written | None]) -> None:  # type: ignore[override]
        """Remove the files that tasks wrote."""
        if self._task.hidden is not None:
            shutil.rmtree(self._task.hidden, ignore_errors=True)


class StreamWriter(DataSourceStreamWriter):
    """Writes the batches of a stream to Kafka. If Spark repeats a batch, it is sent again."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        mine = {key: value for key, value in options.items() if key.lower() not in _OF_SPARK}
        check_types(schema)
        plan = write_plan(mine, schema.fieldNames())
        if plan.options.path is not None:
            raise UsageError(
                "option path: a stream cannot write a recorded topic, only a batch can; set bootstrap-servers instead"
            )
        self._task = Task(plan, None)

    def write(self, iterator: Iterator[Row]) -> Written:
        """Write the rows of a task."""
        return self._task.write(row.asDict() for row in iterator)

    def commit(self, messages: list[Written | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        """Do nothing: the broker has everything already."""

    def abort(self, messages: list[Written | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        """Do nothing: messages that were sent stay in the topic."""


def gather(options: WriteOptionsOfSource, folders: Iterable[Path]) -> None:
    """Append what tasks wrote, one after the other, to a recorded topic. All files appear at the end."""
    path = options.path
    assert path is not None
    at: Offsets = dict(ends(spans(list_recorded(path)))) if _has_messages(path) else {}
    hidden = path / f".gathering-{uuid.uuid4().hex}"
    hidden.mkdir()
    file_format: Format = options.file_format  # type: ignore[assignment]
    writer = RecordWriter(hidden, file_format, options.segment_rows, _SEGMENT_BYTES)
    for folder in folders:
        if any(folder.iterdir()):
            for message in recorded_messages(folder):
                place = (message.topic, message.partition)
                writer.write(msgspec.structs.replace(message, offset=at.get(place, 0)))
                at[place] = at.get(place, 0) + 1
    writer.finish()
    for file in sorted(hidden.iterdir()):
        file.rename(path / file.name)
    hidden.rmdir()


def _has_messages(path: Path) -> bool:
    return any(not file.name.startswith(".") for file in path.iterdir())


def _produce(options: WriteOptionsOfSource, messages: Iterable[Message]) -> None:
    import confluent_kafka

    failed: list[Any] = []

    def receipt(error: Any, message: Any) -> None:
        if error is not None:
            failed.append((message.topic(), error.str()))

    settings: dict[str, Any] = {
        "enable.idempotence": "true",
        **librdkafka_options(options.kafka),
        "bootstrap.servers": options.bootstrap_servers,
    }
    try:
        producer: Any = confluent_kafka.Producer(settings)
        for message in messages:
            while True:
                try:
                    producer.produce(message.topic, message.value, message.key, message.partition, on_delivery=receipt)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            if failed:
                break
        left = producer.flush(_FLUSH_SECONDS)
    except confluent_kafka.KafkaException as error:
        raise SinkFault(f"Kafka at {options.bootstrap_servers}: {error.args[0].str()}") from error
    if failed:
        topic, why = failed[0]
        raise SinkFault(f"Kafka at {options.bootstrap_servers}, topic {topic!r}: {why}")
    if left:
        raise SinkFault(f"Kafka at {options.bootstrap_servers} has not acknowledged {left} messages")


@contextmanager
def _files(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(f"{path}: {os_reason(error)}") from error
