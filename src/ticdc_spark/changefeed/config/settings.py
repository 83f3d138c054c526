"""A changefeed's settings, after its sink URI and file were read and checked. Names and defaults are TiCDC's.

Durations are seconds, sizes are bytes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.config.secrets import SECRET, redact
from ticdc_spark.config.values import Address

Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
DEFAULT_PARTITIONS = 3
"""Partitions of a new topic, if ``partition-num`` is not set."""


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """``enable-tls`` and the files, which are PEM."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure_skip_verify: bool = False


class Sasl(msgspec.Struct, frozen=True, kw_only=True):
    """``sasl-mechanism`` and its keys."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"]
    user: str | None = None
    password: str | None = None
    options: Mapping[str, str] = {}
    """The other ``sasl-…`` keys of GSSAPI and OAUTHBEARER, with TiCDC's names and values."""

    def __repr__(self) -> str:
        return (
            f"Sasl(mechanism={self.mechanism!r}, user={self.user!r}, password={SECRET}, options={sorted(self.options)})"
        )


class KafkaTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, the default topic, and the producer's configuration."""

    servers: tuple[str, ...]
    """``host:port``."""
    topic: str
    """The topic of the sink URI."""
    partition_num: int | None
    """``None``: as many as the topic has; ``DEFAULT_PARTITIONS`` for a new topic."""
    replication_factor: int
    max_message_bytes: int
    required_acks: Literal[-1, 0, 1]
    compression: Compression
    auto_create_topic: bool
    client_id: str
    dial_timeout: float
    read_timeout: float
    write_timeout: float
    tls: Tls | None = None
    sasl: Sasl | None = None


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """``[[filter.event-filters]]``: events of matching tables that are excluded."""

    matcher: tuple[str, ...]
    ignore_event: tuple[str, ...]
    ignore_sql: tuple[str, ...]
    ignore_insert_value_expr: str | None
    ignore_update_old_value_expr: str | None
    ignore_update_new_value_expr: str | None
    ignore_delete_value_expr: str | None
    ignore_update_only_columns: tuple[str, ...]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """``[filter]``."""

    rules: tuple[str, ...]
    ignore_txn_start_ts: tuple[int, ...]
    event_filters: tuple[EventFilter, ...]


class DispatchRule(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of ``sink.dispatchers``; the first one whose matcher accepts a table decides."""

    matcher: tuple[str, ...]
    topic: str
    """A topic, an expression with ``{schema}`` and ``{table}``, or ``""``: the topic of the sink URI."""
    partition: str
    """``default``, ``table``, ``index-value``, ``columns`` or ``ts``."""
    index: str | None
    columns: tuple[str, ...]
    target_schema: str = ""
    """The database that messages name; with ``{schema}`` and ``{table}``. ``""``: the source's."""
    target_table: str = ""
    """The table that messages name."""


class ColumnSelector(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of ``sink.column-selectors``; the first one whose matcher accepts a table decides."""

    matcher: tuple[str, ...]
    columns: tuple[str, ...]


class BootstrapCadence(msgspec.Struct, frozen=True, kw_only=True):
    """When Simple's BOOTSTRAP messages are sent. Off unless interval and count are both above 0."""

    interval: float
    messages: int
    to_all_partitions: bool
    all_at_start: bool


class SnapshotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How existing tables are read: ``snapshot…`` and ``spark`` of ``[ticdc-spark]``."""

    mode: Literal["never", "initial"]
    """``initial``: a new changefeed first sends the rows that its tables have."""
    parallelism: int
    """How many ranges of keys are read in parallel."""
    chunk_rows: int
    """About how many rows a range has."""
    spark: Mapping[str, str]
    """Spark's options, by its own names."""


class Changefeed(msgspec.Struct, frozen=True, kw_only=True):
    """A changefeed whose configuration has been checked."""

    id: str
    file: str | None = None
    """The file that was read, for error texts."""
    kafka: KafkaTarget
    protocol: str
    """A name of ``protocols.PROTOCOLS``."""
    encoder: Mapping[str, str]
    """Options of ``protocols.encoder_options.target_encoder``."""
    schema_registry: str | None = None
    schema_registry_options: Mapping[str, str] = {}
    """Options of the registry's client, by its own names."""
    filter: Filter
    dispatchers: tuple[DispatchRule, ...]
    column_selectors: tuple[ColumnSelector, ...]
    bootstrap: BootstrapCadence
    case_sensitive: bool
    force_replicate: bool
    output_raw_change_event: bool
    """Whether an update that changes a key is sent as an update, not as a delete and an insert."""
    watermarks: bool
    """Whether WATERMARK messages are sent, by protocol and options."""
    time_zone: str
    """Time zone of TIMESTAMP in messages and in dispatch; TiCDC's ``tz``."""
    source: str | None = None
    """Where changes come from: ``[ticdc-spark] source``."""
    state: Path | None = None
    """Folder of the progress; absolute."""
    start_ts: int | None = None
    """commitTs from which changes are sent; ``None``: from now on."""
    target_ts: int | None = None
    """The changefeed ends once everything up to this commitTs is sent."""
    snapshot: SnapshotSettings
    backlog: int | None = None
    """Spark's tasks send a stream's backlog of at least this many messages; ``None``: never."""
    metrics: Address | None = None
    """Where metrics, health and the status page are served; ``None``: nowhere."""
    metrics_token: str | None = None
    """The token that a request must send; ``None``: none."""
    metrics_table_series: int = 200
    """How many tables have their own series; all other tables share one."""
    warnings: tuple[str, ...] = ()
    """Sentences about the configuration, such as keys that have no effect here."""

    def __repr__(self) -> str:
        return redact(msgspec.Struct.__repr__(self))
