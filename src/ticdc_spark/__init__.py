"""Change data capture for TiDB and MySQL on Spark: the public names.

What is not in ``__all__`` may change in any version. A name's module is imported when the name is first used, so
``import ticdc_spark`` is cheap, and nothing that reads or writes messages imports Spark. See ``docs/how-to/python.md``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ticdc_spark.clients.registry_file import open_registry
    from ticdc_spark.config.job import FilesSource, Job, KafkaSource, StorageSource
    from ticdc_spark.config.load import load_job
    from ticdc_spark.datasource.source import TicdcDataSource
    from ticdc_spark.errors import (
        DecisionNeeded,
        EnvironmentFault,
        IncompatibleSchema,
        LateRow,
        LeaseHeld,
        MessageError,
        RegistryFault,
        RejectedMessage,
        SchemaMissing,
        SinkFault,
        SourceChanged,
        SourceFault,
        TicdcSparkError,
        UnsendableChange,
        UnsupportedDdl,
        UsageError,
    )
    from ticdc_spark.model import (
        Bootstrap,
        Change,
        Checksum,
        Column,
        ColumnType,
        Envelope,
        Event,
        Index,
        Message,
        Rejected,
        Row,
        RowChange,
        SchemaChange,
        Table,
        Value,
        Watermark,
    )
    from ticdc_spark.operate.consistent import ConsistentTables, consistent
    from ticdc_spark.operate.snapshots import TableSnapshots, consistent_scans, table_snapshots
    from ticdc_spark.protocols import DecoderOptions, Traits, WireProtocol, decoder, protocol
    from ticdc_spark.protocols.base import Columns, Decoder, Encoded, Encoder, ReadOptions, RowReader, Tables, decode
    from ticdc_spark.protocols.encoder_options import target_encoder as encoder
    from ticdc_spark.replicate.loop import run
    from ticdc_spark.replicate.report import BatchReport, Summary
    from ticdc_spark.replicate.run.watch import Watcher
    from ticdc_spark.sinks.iceberg.lake import list_tables, open_lake, read_table
    from ticdc_spark.spark.decode.topic import read_topic
    from ticdc_spark.streams.detect import detect
    from ticdc_spark.streams.event_lines import EventLine, event_line
    from ticdc_spark.streams.reader import EventReader, Found
    from ticdc_spark.topics.messages import recorded_messages

_MODULES: dict[str, tuple[str, ...]] = {
    "ticdc_spark.clients.registry_file": ("open_registry",),
    "ticdc_spark.config.job": (
        "FilesSource",
        "Job",
        "KafkaSource",
        "StorageSource",
    ),
    "ticdc_spark.config.load": ("load_job",),
    "ticdc_spark.datasource.source": ("TicdcDataSource",),
    "ticdc_spark.errors": (
        "DecisionNeeded",
        "EnvironmentFault",
        "IncompatibleSchema",
        "LateRow",
        "LeaseHeld",
        "MessageError",
        "RegistryFault",
        "RejectedMessage",
        "SchemaMissing",
        "SinkFault",
        "SourceChanged",
        "SourceFault",
        "TicdcSparkError",
        "UnsendableChange",
        "UnsupportedDdl",
        "UsageError",
    ),
    "ticdc_spark.model": (
        "Bootstrap",
        "Change",
        "Checksum",
        "Column",
        "ColumnType",
        "Envelope",
        "Event",
        "Index",
        "Message",
        "Rejected",
        "Row",
        "RowChange",
        "SchemaChange",
        "Table",
        "Value",
        "Watermark",
    ),
    "ticdc_spark.operate.consistent": (
        "ConsistentTables",
        "consistent",
    ),
    "ticdc_spark.operate.snapshots": (
        "TableSnapshots",
        "consistent_scans",
        "table_snapshots",
    ),
    "ticdc_spark.protocols": (
        "DecoderOptions",
        "Traits",
        "WireProtocol",
        "decoder",
        "protocol",
    ),
    "ticdc_spark.protocols.base": (
        "Columns",
        "Decoder",
        "Encoded",
        "Encoder",
        "ReadOptions",
        "RowReader",
        "Tables",
        "decode",
    ),
    "ticdc_spark.protocols.encoder_options": ("encoder",),
    "ticdc_spark.replicate.loop": ("run",),
    "ticdc_spark.replicate.report": (
        "BatchReport",
        "Summary",
    ),
    "ticdc_spark.replicate.run.watch": ("Watcher",),
    "ticdc_spark.sinks.iceberg.lake": (
        "list_tables",
        "open_lake",
        "read_table",
    ),
    "ticdc_spark.spark.decode.topic": ("read_topic",),
    "ticdc_spark.streams.detect": ("detect",),
    "ticdc_spark.streams.event_lines": (
        "EventLine",
        "event_line",
    ),
    "ticdc_spark.streams.reader": (
        "EventReader",
        "Found",
    ),
    "ticdc_spark.topics.messages": ("recorded_messages",),
}
"""The public names by the module that defines them; the same as the imports above, which are for type checkers."""
_RENAMED = {"encoder": "target_encoder"}
"""Public names whose definition has another name."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), _RENAMED.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "BatchReport",
    "Bootstrap",
    "Change",
    "Checksum",
    "Column",
    "ColumnType",
    "Columns",
    "ConsistentTables",
    "DecisionNeeded",
    "Decoder",
    "DecoderOptions",
    "Encoded",
    "Encoder",
    "Envelope",
    "EnvironmentFault",
    "Event",
    "EventLine",
    "EventReader",
    "FilesSource",
    "Found",
    "IncompatibleSchema",
    "Index",
    "Job",
    "KafkaSource",
    "LateRow",
    "LeaseHeld",
    "Message",
    "MessageError",
    "ReadOptions",
    "RegistryFault",
    "Rejected",
    "RejectedMessage",
    "Row",
    "RowChange",
    "RowReader",
    "SchemaChange",
    "SchemaMissing",
    "SinkFault",
    "SourceChanged",
    "SourceFault",
    "StorageSource",
    "Summary",
    "Table",
    "TableSnapshots",
    "Tables",
    "TicdcDataSource",
    "TicdcSparkError",
    "Traits",
    "UnsendableChange",
    "UnsupportedDdl",
    "UsageError",
    "Value",
    "Watcher",
    "Watermark",
    "WireProtocol",
    "consistent",
    "consistent_scans",
    "decode",
    "decoder",
    "detect",
    "encoder",
    "event_line",
    "list_tables",
    "load_job",
    "open_lake",
    "open_registry",
    "protocol",
    "read_table",
    "read_topic",
    "recorded_messages",
    "run",
    "table_snapshots",
]
