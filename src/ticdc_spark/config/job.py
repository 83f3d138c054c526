"""What a job is: the sections of a job file as structs. Every key is described in ``docs/reference/job-file.md``."""

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.config.ddl import DdlPolicy
from ticdc_spark.config.route_values import (
    ColumnRules,
    HistoryTarget,
    Masks,
    Partitions,
    Properties,
    Renames,
    Salt,
    Sorts,
    Target,
)
from ticdc_spark.config.toml import Duration, Section, Size
from ticdc_spark.config.values import (
    Characters,
    CommitTs,
    Folder,
    Identifier,
    Label,
    Listen,
    Mode,
    Name,
    NotNegative,
    OnReject,
    Paths,
    Patterns,
    Places,
    Positive,
    PostgresUrl,
    ProtocolName,
    Quote,
    RegistryUrl,
    Servers,
    Skips,
    Text,
    TopicPattern,
    Topics,
    UpstreamUrl,
    Writer,
    Zone,
)

DecimalMode: TypeAlias = Literal["precise", "string", "double"]
BinaryMode: TypeAlias = Literal["bytes", "base64", "base64-url-safe", "hex"]
UnsignedMode: TypeAlias = Literal["long", "precise"]
TimeMode: TypeAlias = Literal["adaptive_time_microseconds", "adaptive", "connect"]


class MessageSource(Section, frozen=True, kw_only=True):
    """How messages are read, wherever they come from: of a job, and of the command line."""

    protocol: ProtocolName | None = None
    """``None``: detected from the first messages."""
    schema_registry: RegistryUrl | None = None
    schema_registry_options: dict[str, str] = msgspec.field(default_factory=dict)
    """Every ``schema-registry.…`` key of the section, without the prefix: an option of the registry's client."""
    claim_check_storage: Text | None = None
    """Where the changefeed keeps rows that are too large: an absolute path once loaded, or a URI."""
    upstream: UpstreamUrl | None = None
    """The database to ask for rows of which only the key was sent."""
    decimal_handling_mode: DecimalMode | None = None
    """How Debezium's own connector is configured, as are the next three; for messages without a schema block."""
    binary_handling_mode: BinaryMode | None = None
    bigint_unsigned_handling_mode: UnsignedMode | None = None
    time_precision_mode: TimeMode | None = None


class FilesSource(MessageSource, frozen=True, kw_only=True, tag="files", tag_field="kind"):
    """A recorded topic: a folder, or one file."""

    path: Folder
    """Absolute once loaded."""


class KafkaSource(MessageSource, frozen=True, kw_only=True, tag="kafka", tag_field="kind"):
    """Topics of a Kafka cluster: ``topics`` or ``topic_pattern``, never both."""

    bootstrap_servers: Servers
    topics: Topics | None = None
    topic_pattern: TopicPattern | None = None
    starting: Literal["earliest", "latest"] = "earliest"

    options: dict[str, str] = msgspec.field(default_factory=dict)
    """Every ``kafka.…`` key of the section, with its prefix, as Spark's Kafka source takes it."""


class CsvKeys(Section, frozen=True, kw_only=True):
    """``[source.csv]``: what ``[sink.csv]`` of the changefeed says."""

    delimiter: Characters = ","
    quote: Quote = '"'
    null: Characters = "\\N"
    include_commit_ts: CommitTs = True
    binary_encoding_method: Literal["base64", "hex"] = "base64"
    output_old_value: bool = False
    output_field_header: bool = False
    """Not needed: a header is found."""


class StorageSource(MessageSource, frozen=True, kw_only=True, tag="storage", tag_field="kind"):
    """What TiCDC's storage sink writes. ``protocol`` is the one whose messages its files become."""

    path: Text
    """An absolute path, or a URI such as ``s3a://bucket/feed``, once loaded."""
    starting: Literal["earliest", "latest"] = "earliest"
    list_interval: Duration = 5.0
    """Seconds between two looks at which files there are."""
    terminator: Characters = "\r\n"
    csv: CsvKeys | None = None
    """``None``: rows are JSON."""
    options: dict[str, str] = msgspec.field(default_factory=dict)
    """``spark.hadoop.fs.…`` of the section ``[spark]``: how a store is reached."""


SourceConfig: TypeAlias = FilesSource | KafkaSource | StorageSource
NATIVE = ("decimal_handling_mode", "binary_handling_mode", "bigint_unsigned_handling_mode", "time_precision_mode")
"""Keys of a source for the configuration of Debezium's own connector."""


def native_of(source: MessageSource) -> dict[str, str]:
    """Those of ``NATIVE`` that are set, as a job file has them."""
    return {name.replace("_", "-"): value for name in NATIVE if (value := getattr(source, name)) is not None}


class IcebergConfig(Section, frozen=True, kw_only=True, tag="iceberg", tag_field="kind"):
    """Iceberg tables under a warehouse."""

    warehouse: Text
    """An absolute path, or a URI such as ``s3a://bucket/lake``, once loaded."""
    catalog: Identifier = "lake"
    catalog_options: dict[str, str] = msgspec.field(default_factory=dict)
    """Every ``catalog.…`` key of the section, without the prefix: an option of ``spark.sql.catalog.<catalog>``."""
    table_properties: dict[str, str] = msgspec.field(default_factory=dict)
    """Properties given to every table that the job creates."""


class DeltaConfig(Section, frozen=True, kw_only=True, tag="delta", tag_field="kind"):
    """Delta tables under a warehouse, by their folders."""

    warehouse: Text
    """An absolute path, or a URI such as ``s3a://bucket/lake``, once loaded."""
    type_widening: bool = True
    """Whether a column of a wider type is changed without a rewrite, which not every reader of Delta knows."""
    table_properties: dict[str, str] = msgspec.field(default_factory=dict)
    """Properties given to every table that the job creates."""


class MysqlConfig(Section, frozen=True, kw_only=True, tag="mysql", tag_field="kind"):
    """Tables of a MySQL-compatible database."""

    uri: UpstreamUrl
    database_prefix: Text = ""
    """Put before the name of each database."""


class PostgresConfig(Section, frozen=True, kw_only=True, tag="postgres", tag_field="kind"):
    """Tables of a PostgreSQL database."""

    uri: PostgresUrl
    schema_prefix: Text = ""
    """Put before the name of each schema, which is that of the source's database."""


SinkConfig: TypeAlias = IcebergConfig | DeltaConfig | MysqlConfig | PostgresConfig


class SchemaFiles(Section, frozen=True, kw_only=True):
    """Schemas that no message carries."""

    file: Paths = ()
    """Files of CREATE statements, absolute once loaded."""
    skip_to_known: Patterns = ()
    """Tables (filter rules) whose rows before the first known schema are left out."""


class SnapshotKeys(Section, frozen=True, kw_only=True):
    """Full reads of tables: of a database, or of a dump, never both."""

    upstream: UpstreamUrl | None = None
    """``None``: that of the section ``[source]``, unless there is ``path``."""
    path: Folder | None = None
    """A folder that Dumpling wrote. Absolute once loaded."""
    commit_ts: Positive | None = None
    """Of a dump whose metadata has no TSO."""
    tables: Patterns = ()
    parallelism: Positive = 4
    chunk_rows: Positive = 100_000


class UpkeepKeys(Section, frozen=True, kw_only=True):
    """What is done for the tables' files while a job runs. Durations are seconds."""

    enabled: bool = True
    interval: Duration = 600.0
    """Between two looks at a table."""
    small_files: Positive = 20
    """Small data files, or files of deletes, from which a table is compacted."""
    keep_all: Duration = 1800.0
    """How long every snapshot is kept."""
    keep_hourly: Duration = 5 * 86400.0
    """How long one snapshot an hour is kept."""


class MetricsKeys(Section, frozen=True, kw_only=True):
    """Where a running job serves its metrics and its health."""

    listen: Listen | None = None
    """``None``: nowhere."""
    table_series: NotNegative = 200
    """So many tables have series of their own; the others are summed up in one."""


class Route(Section, frozen=True, kw_only=True):
    """One ``[[route]]``: what becomes of some tables in the target. The first one that takes a table decides."""

    tables: Patterns
    target_schema: Target | None = None
    """``None``: as at the source, as is ``target_table``."""
    target_table: Target | None = None
    drop_columns: ColumnRules = ()
    """The last rule that matches a column decides."""
    mask_columns: Masks = ()
    """Patterns of columns, each with what their values become; the first that matches decides."""
    rename_columns: Renames = ()
    """Columns, each with its name in the target."""
    partition_by: Partitions = ()
    """Of new tables of a lake, as are the next two; see ``config.layout``."""
    sort_by: Sorts = ()
    properties: Properties = ()


class Recording(Section, frozen=True, kw_only=True):
    """One ``[[history]]``: tables that have a history table beside them. The first one that takes a table decides."""

    tables: Patterns
    target: HistoryTarget = "{schema}.{table}_history"


class JobKeys(Section, frozen=True, kw_only=True):
    """The section ``[job]``. Durations are seconds, sizes are bytes."""

    name: Name
    owner: Label | None = None
    tables: Patterns = ()
    mode: Mode | None = None
    """``None``: by the protocol, and by whether the first messages hold watermarks."""
    batch_rows: Positive = 500_000
    batch_bytes: Size = 256 * 2**20
    poll_interval: Duration = 1.0
    commit_interval: Duration = 10.0
    """From the begin of a batch to that of the next one, unless a full one is there already."""
    retry_for: Duration = 600.0
    """How long a run goes on trying when a broker, registry or catalog does not answer any more."""
    idle_partition_timeout: Duration = 60.0
    schema_timeout: Duration = 600.0
    parallel_tables: Positive = 4
    writer: Writer = "python"
    """What writes files: the Python tasks, where Python can open the warehouse (elsewhere always Spark)."""
    on_reject: OnReject = "stop"
    max_rejects: Positive = 1000
    max_lag: Duration | None = None
    """How old the resolved ts may be before ``status`` shows a warning; ``None``: as old as it likes."""
    late_rows: Literal["fail", "apply-if-newest"] = "fail"
    source_timezone: Zone | None = None
    ddl_timezone: Zone | None = None
    """Of the sessions that run DDLs; ``None``: the same as ``source_timezone``. ``ddl_zone`` gives the one in force."""
    ambiguous_timestamp: Literal["earlier", "later", "reject"] = "earlier"
    zero_dates: Literal["null", "error"] = "null"
    verify_checksum: bool = False
    """Whether a row must have the checksum that its message carries."""
    tinyint1: Literal["int", "boolean"] = "int"
    no_key: Literal["stop", "skip"] = "stop"
    """What rows of a table without a key do."""
    skip_ddl: Skips = ()
    skip_messages: Places = ()
    """Messages to leave out, each by its place."""
    soft_deletes: Literal["delete", "keep"] = "delete"
    """What rows become that TiDB has soft-deleted, which come as updates."""
    schema_change: Literal["stop", "keep"] = "stop"
    """What a schema that changed without a DDL (Avro) does, but for columns that are added."""
    mask_salt: Salt | None = None
    """What hashes of masked columns are made with, besides the values."""
    adopt: bool = False


class Job(JobKeys, frozen=True, kw_only=True):
    """A whole job. Paths are absolute."""

    file: Path
    """The job file itself."""
    source: SourceConfig
    sink: SinkConfig
    schema: SchemaFiles = SchemaFiles()
    ddl: DdlPolicy = DdlPolicy()
    upkeep: UpkeepKeys = UpkeepKeys()
    metrics: MetricsKeys = MetricsKeys()
    routes: tuple[Route, ...] = ()
    histories: tuple[Recording, ...] = ()
    snapshot: SnapshotKeys | None = None
    """``None``: tables that are new to the job begin with what the messages have."""
    spark: dict[str, str] = msgspec.field(default_factory=dict)
    """Every option of the section ``[spark]``, as text."""

    @property
    def ddl_zone(self) -> str | None:
        """The time zone of the sessions that run DDLs; ``None`` when the job file names none."""
        return self.ddl_timezone or self.source_timezone


class Identity(msgspec.Struct, frozen=True):
    """What ``status`` needs of a job file: no secret but those of the catalog, no file but the job file."""

    file: Path
    name: str
    sink: SinkConfig
    spark: dict[str, str] = msgspec.field(default_factory=dict)
    """Of the section ``[spark]``, what says how the store of the lake is reached."""
    max_lag: float | None = None
    """See ``JobKeys``."""
