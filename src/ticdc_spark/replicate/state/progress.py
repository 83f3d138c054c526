"""The progress of a job, which is stored after each batch, and the plan of a batch, which is stored before it.

The progress after batch N is f(progress after N-1, batch N). The plan fixes the offsets of a batch before any table is
written, so that a restart does the same batch again. ``state.store`` keeps both in the target. The status is a
heartbeat beside them for ``ticdc-spark status``; no decision depends on it.
"""

from typing import Literal

import msgspec

from ticdc_spark.config.job import Route
from ticdc_spark.config.values import ModeName, OnReject
from ticdc_spark.ddl import Charset
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.replicate.state.notes import CatchUp, MissedNote, SourceNote
from ticdc_spark.replicate.state.table import TableState


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """One topic partition."""

    topic: str
    partition: int
    offset: int
    """The next offset to read."""
    end: int = 0
    """The end of the partition when the job last looked."""
    watermark: int = 0
    """The highest watermark read so far; 0: none yet."""
    behind_since: float = 0.0
    """Since when it is consumed to its end with a watermark below the highest, seconds since the epoch; 0: it is not.

    This is not when its watermark last rose: after a long batch, every watermark is old."""
    stirred: bool = False
    """A message has restarted that time since the watermark last rose. Only one message does so."""
    idle: bool = False
    """It counted as having the highest watermark, because it was consumed to its end without a newer one."""
    reaches: int = 0
    """If its first messages were not read: the lowest commit_ts of a watermark or DDL in it; see ``plan.reach``."""
    of_tables: bool = False
    """Its topic has had rows or DDL of a table, even of an excluded one."""
    gone_until: int = 0
    """If nothing of it was read: the highest commit_ts that its earlier messages can have had; 0: not known yet."""


class WantedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A table that needs a full read, which has not begun."""

    schema: str
    name: str
    at: int = 0
    """commit_ts of the dump that it is read from; the table waits there until the read begins. 0: it has no dump."""
    asked: bool = False
    """The table is read whatever its condition: a person asked for it, or a read of it or of a table that a DDL joins
    with it must start over."""
    from_topic: bool = False
    """It is read from the topics, not from the source in ``[snapshot]``."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class RefusedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A table that cannot be read in full: from the topics, as a person asked, or from the source, as it has no key."""

    schema: str
    name: str
    why: str
    """One sentence."""
    from_topic: bool = True
    """Whether the read was to be from the topics, not from the source."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class PendingRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are not applied yet: one table's, with one schema key, in one range of a partition."""

    schema: str
    name: str
    schema_key: str
    rows: int
    inserts: int = 0
    """How many of ``rows`` are inserts."""
    applied: int = 0
    """How many of ``rows`` were applied, if the sink counts them."""
    min_ts: int
    max_ts: int
    late: bool = False
    """Rows at or below the commit_ts that their table had applied. Each is applied only if it is its key's newest."""
    topic: str
    partition: int
    first: int
    end: int
    """Their offsets are in [first, end), among other messages."""
    sent: tuple[str, str] | None = None
    """The table's name in the messages; ``None``: the name that the job uses."""
    bytes: int = 0
    """Approximate size of their messages."""
    uncounted: bool = False
    """More than ``applied`` may have been applied: the sink did not count, or the batch was interrupted."""
    cut: bool = False
    """Some of ``rows`` may be applied or gone from the topic, so a read need not find them all."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name

    @property
    def waiting(self) -> int:
        """How many are not applied yet; an upper bound if ``uncounted``."""
        return self.rows - self.applied


class KnownSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a table's schema, by the key that row changes carry."""

    schema: str
    name: str
    key: str
    table: Table
    since: int = 0
    """commit_ts of the DDL that made it; 0: it came from a BOOTSTRAP or a file."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the source whose rows go into a merged table (``config.shards``)."""

    schema: str
    name: str
    """Name of the merged table."""
    table: Table
    """As the source has it."""
    dropped: tuple[str, ...] = ()
    """Columns that it had before. The merged table still has them."""
    topics: tuple[str, ...] = ()
    """Topics that its messages came from."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class QueuedDdl(msgspec.Struct, frozen=True, kw_only=True):
    """A DDL that waits for the resolved ts, with the place of its first copy."""

    change: SchemaChange
    topic: str
    partition: int
    offset: int
    waits: tuple[tuple[int, int], ...] = ()
    """Arrival: the topic's partitions, each with the offset up to which the job looks for its copy of the DDL."""
    earlier: tuple[tuple[str, int, int], ...] = ()
    """Arrival: (topic, partition, offset) up to which the job looks for DDLs that come before it, or before later ones
    of the same batch."""


class LastDdl(msgspec.Struct, frozen=True, kw_only=True):
    """Arrival: the last DDL applied to a name. An older DDL that comes later is a replay."""

    schema: str
    name: str
    """``""``: the DDL of a database."""
    commit_ts: int
    queries: tuple[str, ...] = ()
    """Digests of the SQL applied at ``commit_ts``: a RENAME of several tables is sent as several DDLs."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Why the resolved ts does not rise."""

    kind: Literal["partition", "schema", "ddl", "reject", "none"]
    what: str
    """One sentence with names."""
    since: float = 0.0


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What the job has done since it began."""

    rows: int = 0
    """Row changes applied."""
    ddls: int = 0
    """DDLs applied."""
    replays: int = 0
    """Row changes and DDLs that were sent again."""
    late: int = 0
    """Rows at or below the commit_ts that their table had applied, and that are not replays."""
    rejected: int = 0
    """Messages and rows that were not applied and are kept as dead letters."""
    zero_dates: int = 0
    """Zero or impossible dates that became NULL."""
    regressions: int = 0
    """How often a watermark went back. More than a few suggest a second changefeed on the topic."""

    def __add__(self, more: "Counters") -> "Counters":
        return Counters(**{name: getattr(self, name) + getattr(more, name) for name in self.__struct_fields__})


class Progress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a job must remember. It grows with tables and partitions, not with time. A state that another version
    wrote is refused, unless it has the same fields."""

    job: str
    batch: int = 0
    """The last committed batch."""
    applied: int = 0
    """All tables together equal the source at this commit_ts. In a mode without a resolved ts, it is only the highest
    commit_ts applied."""
    mode: ModeName | Literal[""] = ""
    """See ``modes.base``; empty until known."""
    protocol: str = ""
    """Detected from the first messages, if the job file does not name it."""
    routes: tuple[Route, ...] = ()
    """The rules that gave its tables their names and columns in the target."""
    mask_salt: str = ""
    """Shows whether hashes are made with the same salt as before (``spark.masks.salt_mark``)."""
    last_ddls: tuple[LastDdl, ...] = ()
    partitions: tuple[PartitionState, ...] = ()
    tables: tuple[TableState, ...] = ()
    schemas: tuple[KnownSchema, ...] = ()
    shards: tuple[Shard, ...] = ()
    """Shards that the source has now."""
    ddls: tuple[QueuedDdl, ...] = ()
    dropped_databases: tuple[QueuedDdl, ...] = ()
    """The last applied DROP DATABASE of each database. Its tables may still come later, see ``plan.catch_up``."""
    databases: tuple[str, ...] = ()
    """Databases that a CREATE DATABASE made. Later tables use its spelling of the name."""
    charsets: dict[str, Charset] = {}
    """The default character sets of databases, where a DDL named them."""
    pending: tuple[PendingRows, ...] = ()
    left_out: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, offset) of messages that ``skip-messages`` skipped and that the topics still have. Later reads
    skip them too."""
    catching_up: tuple[CatchUp, ...] = ()
    wanted: tuple[WantedLoad, ...] = ()
    """Tables that need a full read."""
    refused: tuple[RefusedLoad, ...] = ()
    """The last full read of each table, if it was refused."""
    hold: Hold = Hold(kind="none", what="")
    schema_wait_since: float = 0.0
    """When rows began to wait for a schema; 0: no rows wait."""
    counters: Counters = Counters()
    missed: tuple[MissedNote, ...] = ()
    """What tables lack that are yet to be created, renamed or replaced."""
    committed_at: float = 0.0
    source: tuple[SourceNote, ...] = ()
    """See ``Source.notes``."""
    newest: int = 0
    """The highest commit_ts of a row that was read."""
    source_memory: str = ""
    """See ``Source.memory``."""

    def states(self) -> dict[TableName, TableState]:
        """Its tables, by name."""
        return {table.full_name: table for table in self.tables}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The batch under way, saved before anything is written to a table."""

    batch: int
    end_offsets: tuple[tuple[str, int, int], ...]
    """(topic, partition, exclusive end offset)."""
    start_offsets: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, offset) where new partitions begin, which the progress does not know yet."""
    resolved: int
    """A restart does not go below it, since tables may already have reached it."""
    mode: ModeName | Literal[""] = ""
    full: bool = False
    """The topics had more than one batch takes."""
    source: tuple[SourceNote, ...] = ()
    """What must still be true of the topics when the batch is read again."""
    source_memory: str = ""
    """See ``Source.memory``."""
    on_reject: OnReject | Literal[""] = ""
    """The policy applied to messages that cannot be read; ``""``: there were none."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The heartbeat that ``ticdc-spark status`` reads beside the progress."""

    state: Literal["normal", "warning", "pending", "failed", "stopped", "finished"]
    at: float
    started_at: float
    pid: int
    token: str = ""
    """Token of the owner that sends it."""
    phase: str = ""
    batch: int = 0
    error: str | None = None
    error_code: str | None = None
    """Class name of the error."""
    error_at: float | None = None
    exit_code: int | None = None
    read_at: float | None = None
    """When the job was last seen to have read the topics to their end, seconds since the epoch."""
    left: int | None = None
    """Messages not read yet after the last batch; ``None``: not known."""
    rate: float | None = None
    """Messages per second, over the last batches."""
    retention: dict[str, float] = {}
    """For how many seconds the topics keep messages, see ``Source.retention``."""
