"""What a job is: the sections of a job file as structs. Every key is described in ``docs/reference/job-file.md``."""

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.config.ddl import DdlPolicy
from ticdc_spark.config.route_values import (
    ColumnRules,
    HistoryTarget,
    Masks,
    NameRegex,
    Origin,
    Partitions,
    Properties,
    Renames,
    RowCondition,
    Salt,
    Sorts,
    Target,
)
from ticdc_spark.config.toml import Duration, Section, Size
from ticdc_spark.config.values import (
    Characters,
    Collector,
    Command,
    CommitName,
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
    Secret,
    Servers,
    Skips,
    Text,
    Token,
    TopicPattern,
    Topics,
    UpstreamUrl,
    Webhook,
    Writer,
    Zone,
)

DecimalMode: TypeAlias = Literal["precise", "string", "double"]
BinaryMode: TypeAlias = Literal["bytes", "base64", "base64-url-safe", "hex"]
UnsignedMode: TypeAlias = Literal["long", "precise"]
TimeMode: TypeAlias = Literal["adaptive_time_microseconds", "adaptive", "connect"]


class MessageSource(Section, frozen=True, kw_only=True):
    """How messages are read from any source, for a job and for the command line."""

    protocol: ProtocolName | None = None
    """The protocol of the messages, by its name in the sink URI. ``None``: detected from the first messages."""
    schema_registry: RegistryUrl | None = None
    """The registry of ``avro`` and ``debezium-avro``: a URL, or ``file:`` and a list of schemas. ``None``: none."""
    schema_registry_options: dict[str, str] = msgspec.field(default_factory=dict)
    """An option of confluent-kafka's registry client, such as ``schema-registry.ssl.ca.location``."""
    claim_check_storage: Text | None = None
    """Where the changefeed keeps rows that are too large for Kafka: a folder or a URI. ``None``: none.

    Absolute once loaded.
    """
    upstream: UpstreamUrl | None = None
    """The database to ask for rows that were sent with their key only, and for missing schemas. ``None``: none."""
    decimal_handling_mode: DecimalMode | None = None
    """``decimal.handling.mode`` of Debezium's own connector. ``None``: by the value."""
    binary_handling_mode: BinaryMode | None = None
    """``binary.handling.mode`` of Debezium's own connector. ``None``: as ``bytes``."""
    bigint_unsigned_handling_mode: UnsignedMode | None = None
    """``bigint.unsigned.handling.mode`` of Debezium's own connector. ``None``: as ``long``."""
    time_precision_mode: TimeMode | None = None
    """``time.precision.mode`` of Debezium's own connector. ``None``: as ``adaptive_time_microseconds``."""


class FilesSource(MessageSource, frozen=True, kw_only=True, tag="files", tag_field="kind"):
    """A recorded topic: a folder, or one file."""

    path: Folder
    """A folder, or one file: JSON lines (also ``.gz``) or Parquet.

    Absolute once loaded.
    """


class KafkaSource(MessageSource, frozen=True, kw_only=True, tag="kafka", tag_field="kind"):
    """Topics of a Kafka cluster: ``topics`` or ``topic_pattern``, never both."""

    bootstrap_servers: Servers
    """Brokers for the first connection."""
    topics: Topics | None = None
    """The topics of one changefeed. ``None``: this or ``topic-pattern``."""
    topic_pattern: TopicPattern | None = None
    """Topics whose names match, also new ones while the job runs. ``None``: this or ``topics``."""
    starting: Literal["earliest", "latest"] = "earliest"
    """Where a new job begins in each partition."""
    consumer_group: Text | None = None
    """A consumer group to which the job commits its offsets, for tools that watch lag. ``None``: it commits none."""

    options: dict[str, str] = msgspec.field(default_factory=dict)
    """An option of Kafka's consumer, as Spark's Kafka source takes it, such as ``kafka.security.protocol``.

    Keys have the prefix.
    """


class CsvKeys(Section, frozen=True, kw_only=True):
    """``[source.csv]``: the same as ``[sink.csv]`` of the changefeed."""

    delimiter: Characters = ","
    """The text between two fields."""
    quote: Quote = '"'
    """The quote around a field."""
    null: Characters = "\\N"
    """The text for NULL."""
    include_commit_ts: CommitTs = True
    """Whether rows have their commitTs, which they must."""
    binary_encoding_method: Literal["base64", "hex"] = "base64"
    """How bytes are written."""
    output_old_value: bool = False
    """Whether an update has its old row too."""
    output_field_header: bool = False
    """Whether files have a header.

    Not needed: a header is detected.
    """


class StorageSource(MessageSource, frozen=True, kw_only=True, tag="storage", tag_field="kind"):
    """Files of TiCDC's storage sink. ``protocol``: of the messages that the files become."""

    path: Text
    """A folder, or a URI such as ``s3a://bucket/feed``.

    Absolute once loaded.
    """
    starting: Literal["earliest", "latest"] = "earliest"
    """Where a new job begins; ``latest`` skips the files that exist."""
    list_interval: Duration = 5.0
    """Time between two looks for new files."""
    terminator: Characters = "\r\n"
    """For ``csv``: the end of a line, as under ``[sink]`` of the changefeed."""
    csv: CsvKeys | None = None
    """The section ``[source.csv]``, with the keys of the changefeed's ``[sink.csv]``. ``None``: TiCDC's defaults.

    Without it rows are JSON.
    """
    options: dict[str, str] = msgspec.field(default_factory=dict)
    """``spark.hadoop.fs.…`` of the section ``[spark]``: the connection to the store."""


SourceConfig: TypeAlias = FilesSource | KafkaSource | StorageSource
NATIVE = ("decimal_handling_mode", "binary_handling_mode", "bigint_unsigned_handling_mode", "time_precision_mode")
"""Keys of a source that describe the configuration of Debezium's own connector."""


def native_of(source: MessageSource) -> dict[str, str]:
    """The keys of ``NATIVE`` that are set, with their values in the job file."""
    return {name.replace("_", "-"): value for name in NATIVE if (value := getattr(source, name)) is not None}


class IcebergConfig(Section, frozen=True, kw_only=True, tag="iceberg", tag_field="kind"):
    """Iceberg tables under a warehouse."""

    warehouse: Text
    """Where the tables are: a path, or a URI such as ``s3://bucket/lake``.

    Absolute once loaded.
    """
    catalog: Identifier = "lake"
    """Name of the catalog: ``shop.orders`` of the source is ``<catalog>.shop.orders`` here."""
    catalog_options: dict[str, str] = msgspec.field(default_factory=dict)
    """An option of Iceberg's catalog, such as ``catalog.uri``. ``None``: a SQLite file in the warehouse.

    Keys have no prefix here.
    """
    table_properties: dict[str, str] = msgspec.field(default_factory=dict)
    """Iceberg properties of every table that the job creates, as the section ``[sink.table-properties]``."""
    commit: CommitName = "table"
    """What one commit holds: the changes of one table, or with a REST catalog the changes of all tables of a batch."""


class DeltaConfig(Section, frozen=True, kw_only=True, tag="delta", tag_field="kind"):
    """Delta tables under a warehouse, by their folders."""

    warehouse: Text
    """Where the tables are: ``shop.orders`` is the folder ``<warehouse>/shop/orders``.

    Absolute once loaded.
    """
    type_widening: bool = True
    """Whether a column gets a wider type without a rewrite. Not every reader of Delta supports it."""
    table_properties: dict[str, str] = msgspec.field(default_factory=dict)
    """Delta properties of every table that the job creates, as the section ``[sink.table-properties]``."""


class MysqlConfig(Section, frozen=True, kw_only=True, tag="mysql", tag_field="kind"):
    """Tables of a MySQL-compatible database."""

    uri: UpstreamUrl
    """The server, with special characters URL-encoded."""
    database_prefix: Text = ""
    """Put before the name of each database."""


class PostgresConfig(Section, frozen=True, kw_only=True, tag="postgres", tag_field="kind"):
    """Tables of a PostgreSQL database."""

    uri: PostgresUrl
    """The database, with special characters URL-encoded and libpq's options behind ``?``."""
    schema_prefix: Text = ""
    """Put before the name of each schema; a database of the source is a schema here."""


SinkConfig: TypeAlias = IcebergConfig | DeltaConfig | MysqlConfig | PostgresConfig


def prefix_of(sink: SinkConfig) -> str:
    """What a target puts before the name of each database."""
    match sink:
        case MysqlConfig():
            return sink.database_prefix
        case PostgresConfig():
            return sink.schema_prefix
    return ""


class SchemaFiles(Section, frozen=True, kw_only=True):
    """Schemas that no message carries."""

    file: Paths = ()
    """Files of SQL with the CREATE TABLE of tables whose schema no message carries.

    Absolute once loaded.
    """
    skip_to_known: Patterns = ()
    """Tables whose rows before the first known schema are skipped; they count as diverged."""


class SnapshotKeys(Section, frozen=True, kw_only=True):
    """Full reads of tables: of a database, or of a dump, never both."""

    upstream: UpstreamUrl | None = None
    """The database to read from, with SELECT on the tables. ``None``: as under ``[source]``.

    Not with ``path``.
    """
    path: Folder | None = None
    """Instead of ``upstream``: a folder that Dumpling wrote. ``None``: none.

    Absolute once loaded.
    """
    commit_ts: Positive | None = None
    """The commitTs of a dump. ``None``: from the folder's ``metadata``."""
    tables: Patterns = ()
    """Which of the tables of ``[job] tables`` are read; empty: all of them."""
    parallelism: Positive = 4
    """How many chunks of a table are read at the same time, each by a task."""
    chunk_rows: Positive = 100_000
    """About how many rows a chunk has."""


class UpkeepKeys(Section, frozen=True, kw_only=True):
    """Maintenance of the tables' files while a job runs. Durations are seconds."""

    enabled: bool = True
    """Whether the job maintains the files; otherwise ``ticdc-spark upkeep`` or another tool does."""
    interval: Duration = 600.0
    """Time between two looks at a table that changes."""
    small_files: Positive = 20
    """A table is compacted at this number of data files below 32 MB, or of delete files."""
    keep_all: Duration = 1800.0
    """How long every snapshot is kept."""
    keep_hourly: Duration = 5 * 86400.0
    """How long the newest snapshot of each hour is kept."""


class MetricsKeys(Section, frozen=True, kw_only=True):
    """Where a running job serves its metrics, its health and its status page."""

    listen: Listen | None = None
    """Where metrics, health and the status page are served. ``None``: nowhere."""
    token: Token | None = None
    """What a request must send, as a bearer token or as the password of a login. ``None``: only this machine may look.

    Health needs none.
    """
    table_series: NotNegative = 200
    """How many tables have their own series; all other tables share one."""
    traces: Collector | None = None
    """An OpenTelemetry collector that gets a trace of each batch. ``None``: none."""


class Route(Section, frozen=True, kw_only=True):
    """One ``[[route]]``: how some tables look in the target. The first one that matches a table decides."""

    tables: Patterns
    """Tables that the rule is for, by their names at the source."""
    regex: NameRegex | None = None
    """Regular expression for the whole `schema.table`: the rule takes no other table. ``None``: any."""
    target_schema: Target | None = None
    """The database in the target, or the namespace of Iceberg. ``None``: ``"{schema}"``."""
    target_table: Target | None = None
    """The table in the target. ``None``: ``"{table}"``."""
    drop_columns: ColumnRules = ()
    """Columns that the target does not have; the last pattern that matches decides."""
    mask_columns: Masks = ()
    """Columns whose values are replaced, each with ``hash``, ``null`` or ``constant:…``; the first match decides."""
    rename_columns: Renames = ()
    """Columns that have another name in the target."""
    where: RowCondition | None = None
    """SQL condition: the target has only the rows that meet it. ``None``: all."""
    partition_by: Partitions = ()
    """Partitions of new Iceberg tables.

    See ``config.layout``.
    """
    sort_by: Sorts = ()
    """Order of the rows in files of new Iceberg tables."""
    properties: Properties = ()
    """Properties of new Iceberg tables, besides ``[sink.table-properties]``."""
    origin: Origin = ()
    """One or two new columns for the name of a row's table: tables with the same target become one table.

    They are the first columns of the key.
    """


class Recording(Section, frozen=True, kw_only=True):
    """One ``[[history]]``: tables that have a history table beside them. The first one that matches a table decides."""

    tables: Patterns
    """Tables that get a history, by their names at the source."""
    target: HistoryTarget = "{schema}.{table}_history"
    """Schema and name of the history in the target."""
    before_images: bool = False
    """Whether it also has the row that each update replaces, and the whole row that a delete removes."""


class Notice(Section, frozen=True, kw_only=True):
    """One ``[[notice]]``: who gets a notice about a new state of the job, or of its tables."""

    webhook: Webhook | None = None
    """A URL that gets each notice by POST, as JSON. ``None``: this or ``command``."""
    authorization: Secret | None = None
    """The header ``Authorization`` of a webhook, such as ``"Bearer …"``. ``None``: none."""
    command: Command | None = None
    """A program and its arguments, which gets each notice on its standard input. ``None``: this or ``webhook``."""
    tables: Patterns = ()
    """Tables whose states are sent, by their names at the source; empty: all of them."""
    pause: Duration = 60.0
    """Time between two notices; all that happens in it goes into one."""


class JobKeys(Section, frozen=True, kw_only=True):
    """The section ``[job]``. Durations are seconds, sizes are bytes."""

    name: Name
    """Name of the job."""
    owner: Label | None = None
    """A contact to show if someone starts the job while it runs: a team, a pager, a link. ``None``: none."""
    tables: Patterns = ()
    """Tables to replicate; the last rule that matches decides. Empty: all tables."""
    mode: Mode | None = None
    """Whether to wait for watermarks, or to apply a batch once it is read. ``None``: decided by the first messages."""
    batch_rows: Positive = 500_000
    """The most messages in one batch."""
    batch_bytes: Size = 256 * 2**20
    """About the most bytes in one batch."""
    poll_interval: Duration = 1.0
    """Pause before the next look if there was nothing new."""
    commit_interval: Duration = 10.0
    """Time from the start of one batch to the next, unless a full batch is ready earlier."""
    retry_for: Duration = 600.0
    """How long a running job retries if a broker, registry or catalog does not answer."""
    idle_partition_timeout: Duration = 60.0
    """How long a partition that is read to its end, and has no watermark, holds back the other partitions."""
    schema_timeout: Duration = 600.0
    """How long rows may wait for the schema of their table before the job stops."""
    parallel_tables: Positive = 4
    """How many tables are written at the same time."""
    writer: Writer = "python"
    """What writes files: Python tasks, if Python can open the warehouse, or Spark's writer."""
    on_reject: OnReject = "stop"
    """What a message that cannot be read does: stop the job, quarantine its table, or only be skipped."""
    max_rejects: Positive = 1000
    """The most unreadable messages in one batch. With more, the job fails, as its environment may be broken."""
    max_lag: Duration | None = None
    """How old the resolved ts may be before ``status`` shows ``warning``. ``None``: none."""
    late_rows: Literal["fail", "apply-if-newest"] = "fail"
    """What a late row does: one that is older than its table's applied changes, and no replay."""
    source_timezone: Zone | None = None
    """Time zone of the changefeed, for protocols that send TIMESTAMP without one. ``None``: none."""
    ddl_timezone: Zone | None = None
    """Time zone of the sessions that run DDL. ``None``: as ``source-timezone``.

    ``ddl_zone`` gives the one in force.
    """
    ambiguous_timestamp: Literal["earlier", "later", "reject"] = "earlier"
    """Which moment a local time means that occurs twice when clocks go back."""
    zero_dates: Literal["null", "error"] = "null"
    """Whether zero or impossible dates become NULL, which is counted, or count as unreadable values."""
    verify_checksum: bool = False
    """Whether a row must have the checksum that its message carries."""
    tinyint1: Literal["int", "boolean"] = "int"
    """The type of TINYINT(1) in the target."""
    no_key: Literal["stop", "skip", "apply"] = "stop"
    """What to do with tables without a primary key or NOT NULL unique key. ``apply`` counts equal rows."""
    skip_ddl: Skips = ()
    """DDLs to skip; their tables count as diverged."""
    skip_messages: Places = ()
    """Messages to skip; their tables count as diverged."""
    soft_deletes: Literal["delete", "keep"] = "delete"
    """Whether rows that TiDB has soft-deleted are deleted, or kept with the column that marks them."""
    schema_change: Literal["stop", "keep"] = "stop"
    """What a schema change without a DDL does, unless it only adds or widens columns."""
    mask_salt: Salt | None = None
    """The secret of hashed columns; required with the mask ``hash``. ``None``: none."""
    adopt: bool = False
    """Whether the job takes over target tables that it did not create."""


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
    notices: tuple[Notice, ...] = ()
    routes: tuple[Route, ...] = ()
    histories: tuple[Recording, ...] = ()
    snapshot: SnapshotKeys | None = None
    """``None``: new tables begin with the rows in the messages."""
    spark: dict[str, str] = msgspec.field(default_factory=dict)
    """Every option of the section ``[spark]``, as text."""

    @property
    def ddl_zone(self) -> str | None:
        """The time zone of the sessions that run DDLs; ``None`` when the job file names none."""
        return self.ddl_timezone or self.source_timezone


class Identity(msgspec.Struct, frozen=True):
    """What ``status`` needs of a job file: only the catalog's secrets, and no other file."""

    file: Path
    name: str
    sink: SinkConfig
    spark: dict[str, str] = msgspec.field(default_factory=dict)
    """The options of the section ``[spark]`` for the connection to the lake's store."""
    max_lag: float | None = None
    """See ``JobKeys``."""
