"""What a changefeed is, once its sink URI and its file have been read and checked. Names and defaults are TiCDC's.

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
"""Of a topic that is created, where ``partition-num`` is not set."""


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """``enable-tls`` and the files, which are PEM."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure_skip_verify: bool = False


class Sasl(msgspec.Struct, frozen=True, kw_only=True):
    """``sasl-mechanism`` and what it needs."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"]
    user: str | None = None
    password: str | None = None
    options: Mapping[str, str] = {}
    """The other ``sasl-…`` keys of GSSAPI and OAUTHBEARER, by TiCDC's names and as TiCDC has them."""

    def __repr__(self) -> str:
        return (
            f"Sasl(mechanism={self.mechanism!r}, user={self.user!r}, password={SECRET}, options={sorted(self.options)})"
        )


class KafkaTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, the default topic, and how the producer is configured."""

    servers: tuple[str, ...]
    """``host:port``."""
    topic: str
    """The topic of the sink URI."""
    partition_num: int | None
    """``None``: as many as the topic has; ``DEFAULT_PARTITIONS`` where it is created."""
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
    """``[[filter.event-filters]]``: events of matching tables that are left out."""

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
    """An entry of ``sink.dispatchers``; the first whose matcher accepts a table decides."""

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
    """An entry of ``sink.column-selectors``; the first whose matcher accepts a table decides."""

    matcher: tuple[str, ...]
    columns: tuple[str, ...]


class BootstrapCadence(msgspec.Struct, frozen=True, kw_only=True):
    """When Simple's BOOTSTRAP messages are sent. Off unless interval and count are both above 0."""

    interval: float
    messages: int
    to_all_partitions: bool
    all_at_start: bool


class SnapshotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How tables are read that exist already: ``snapshot…`` and ``spark`` of ``[ticdc-spark]``."""

    mode: Literal["never", "initial"]
    """``initial``: a new changefeed begins with the rows that its tables have."""
    parallelism: int
    """Ranges of keys that are read side by side."""
    chunk_rows: int
    """Of a range, about."""
    spark: Mapping[str, str]
    """Spark's options, by its own names."""


class Changefeed(msgspec.Struct, frozen=True, kw_only=True):
    """A changefeed whose configuration has been checked."""

    id: str
    file: str | None = None
    """The file that was read, for messages."""
    kafka: KafkaTarget
    protocol: str
    """A name of ``protocols.PROTOCOLS``."""
    encoder: Mapping[str, str]
    """Options of ``protocols.encoder_options.target_encoder``."""
    schema_registry: str | None = None
    schema_registry_options: Mapping[str, str] = {}
    """Of the registry's client, by its own names."""
    filter: Filter
    dispatchers: tuple[DispatchRule, ...]
    column_selectors: tuple[ColumnSelector, ...]
    bootstrap: BootstrapCadence
    case_sensitive: bool
    force_replicate: bool
    output_raw_change_event: bool
    """Whether an update that changes a key is sent as one, instead of a delete and an insert."""
    watermarks: bool
    """Whether WATERMARK messages are sent, by protocol and options."""
    time_zone: str
    """Of TIMESTAMP in messages and in dispatch; TiCDC's ``tz``."""
    source: str | None = None
    """Where changes come from, as ``[ticdc-spark] source`` has it."""
    state: Path | None = None
    """Folder of the progress; absolute."""
    start_ts: int | None = None
    """commitTs from which changes are sent; ``None``: from now on."""
    target_ts: int | None = None
    """The changefeed ends once all up to it has been sent."""
    snapshot: SnapshotSettings
    backlog: int | None = None
    """From how many messages on that a stream is behind Spark's tasks send them; ``None``: never."""
    metrics: Address | None = None
    """Where metrics, health and the status page are served; ``None``: nowhere."""
    metrics_token: str | None = None
    """What a request must come with; ``None``: nothing."""
    warnings: tuple[str, ...] = ()
    """Keys that are accepted and have no meaning here, and the like: one sentence each."""

    def __repr__(self) -> str:
        return redact(msgspec.Struct.__repr__(self))
