"""Progress: the state of a job after a batch, stored last; and the plan of the batch under way, stored first.

The progress after batch N is f(progress after N-1, batch N). The plan fixes the offsets of the batch that is being
worked on, once it is decided and before a table is written, so that a restart does the same batch again.
``state.store`` keeps both in the target. The status is a heartbeat beside them for ``ticdc-spark status``; no decision
depends on it.
"""

from typing import Literal

import msgspec

from ticdc_spark.config.job import Route
from ticdc_spark.config.values import ModeName, OnReject
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.replicate.state.notes import CatchUp, MissedNote, SourceNote
from ticdc_spark.replicate.state.table import TableState


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """One topic partition."""

    topic: str
    partition: int
    offset: int
    """The next one to read."""
    end: int = 0
    """Where the partition ended when the job last looked."""
    watermark: int = 0
    """The highest read so far; 0: none yet."""
    behind_since: float = 0.0
    """Since when it is consumed to its end with a watermark below the highest, seconds since the epoch; 0: it is not.

    Not when its watermark last rose: after a batch that took long, every watermark is old."""
    stirred: bool = False
    """A message has begun that time anew since its watermark last rose: no other one does."""
    idle: bool = False
    """It counted as the highest watermark because it was consumed to its end without a newer one."""
    reaches: int = 0
    """The lowest commit_ts of a watermark or DDL in it, where its first messages were not read; see ``plan.reach``."""
    of_tables: bool = False
    """Rows or DDL of a table have come in its topic, also of one that is left out."""
    gone_until: int = 0
    """Where nothing of it was read: commit_ts of the newest that it can have had before; 0: not known yet."""


class WantedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A table that is to be read in full, and whose read has not begun."""

    schema: str
    name: str
    at: int = 0
    """commit_ts of what it is read from (a dump), beyond which the table does not go before; 0: of a database."""
    asked: bool = False
    """A person asked for it: whatever the table is, it is read."""
    from_topic: bool = False
    """It is read from the topics, and not from what ``[snapshot]`` names."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a person asked to be read from the topics, and that cannot be."""

    schema: str
    name: str
    why: str
    """One sentence."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class PendingRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a topic that are not applied yet: of one stretch of a partition, table and schema key."""

    schema: str
    name: str
    schema_key: str
    rows: int
    inserts: int = 0
    """Of ``rows``, those whose op is insert."""
    applied: int = 0
    """Of ``rows``, those that were applied, as far as the sink counts them."""
    min_ts: int
    max_ts: int
    late: bool = False
    """Rows at or below what their table had applied, to be applied where they are the newest."""
    topic: str
    partition: int
    first: int
    end: int
    """They lie at offsets [first, end), among others."""
    sent: tuple[str, str] | None = None
    """The table's name in the messages; ``None``: as it is known."""
    bytes: int = 0
    """About the size of their messages."""
    uncounted: bool = False
    """Some more may have been applied: the sink did not count them, or the batch was interrupted."""
    cut: bool = False
    """Some of ``rows`` may be applied, or be gone from the topic: they need not all come when they are read."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name

    @property
    def waiting(self) -> int:
        """How many are not applied yet; at most, where ``uncounted``."""
        return self.rows - self.applied


class KnownSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a table's schema, by the key that row changes carry."""

    schema: str
    name: str
    key: str
    table: Table
    since: int = 0
    """commit_ts of the DDL that made it; 0 from a BOOTSTRAP or a file."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the source that is one of those of a merged table (``config.shards``)."""

    schema: str
    name: str
    """Of the merged table."""
    table: Table
    """As the source has it."""
    dropped: tuple[str, ...] = ()
    """Columns that it has had. The merged table still has them."""
    topics: tuple[str, ...] = ()
    """Topics that its messages came from."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class QueuedDdl(msgspec.Struct, frozen=True, kw_only=True):
    """A DDL that waits for the resolved ts; where its first copy stands."""

    change: SchemaChange
    topic: str
    partition: int
    offset: int
    waits: tuple[tuple[int, int], ...] = ()
    """Arrival: partitions of the topic, each with the offset up to which its copy of the DDL is looked for."""


class LastDdl(msgspec.Struct, frozen=True, kw_only=True):
    """Arrival: the last DDL that was applied to a name. What is older and comes later is a replay."""

    schema: str
    name: str
    """``""`` for a database."""
    commit_ts: int
    queries: tuple[str, ...] = ()
    """Digests of the SQL of those applied at ``commit_ts``: a RENAME of several tables is sent as several DDLs of one.
    """

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps the resolved ts from rising."""

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
    """Row changes and DDLs that came again."""
    late: int = 0
    """Rows at or below what their table had applied that are no replays."""
    rejected: int = 0
    """Messages and rows that were not applied, and are kept as dead letters."""
    zero_dates: int = 0
    """Zero or impossible dates that became NULL."""
    regressions: int = 0
    """How often a watermark went back; more than a few point to a second changefeed on the topic."""

    def __add__(self, more: "Counters") -> "Counters":
        return Counters(**{name: getattr(self, name) + getattr(more, name) for name in self.__struct_fields__})


class Progress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a job must remember. Grows with tables and partitions, not with time. What another version wrote is
    refused, unless it has the same fields."""

    job: str
    batch: int = 0
    """The last one committed."""
    applied: int = 0
    """All tables together equal the source at this commit_ts. Where no batch has a resolved ts, it is only the highest
    commit_ts that was applied."""
    mode: ModeName | Literal[""] = ""
    """See ``modes.base``; empty until it is known."""
    protocol: str = ""
    """As detected from the first messages, where the job file does not name it."""
    routes: tuple[Route, ...] = ()
    """The rules by which its tables have their names and columns in the target."""
    mask_salt: str = ""
    """By which it is seen that hashes are made with the same salt as before (``spark.masks.salt_mark``)."""
    last_ddls: tuple[LastDdl, ...] = ()
    partitions: tuple[PartitionState, ...] = ()
    tables: tuple[TableState, ...] = ()
    schemas: tuple[KnownSchema, ...] = ()
    shards: tuple[Shard, ...] = ()
    """Those that are there."""
    ddls: tuple[QueuedDdl, ...] = ()
    dropped_databases: tuple[QueuedDdl, ...] = ()
    """The last DROP DATABASE of each database that was applied: tables of it may come later, see ``plan.catch_up``."""
    databases: tuple[str, ...] = ()
    """Those that CREATE DATABASE has made, whose spelling tables to come have."""
    pending: tuple[PendingRows, ...] = ()
    left_out: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, offset) of messages that ``skip-messages`` left out when they came, and that the topics still
    have: whatever is read again is read without them."""
    catching_up: tuple[CatchUp, ...] = ()
    wanted: tuple[WantedLoad, ...] = ()
    """Tables to be read in full."""
    refused: tuple[Refused, ...] = ()
    """What became of the last request for each table, if it was refused."""
    hold: Hold = Hold(kind="none", what="")
    schema_wait_since: float = 0.0
    """When rows began to wait for a schema; 0: none wait."""
    counters: Counters = Counters()
    missed: tuple[MissedNote, ...] = ()
    """What tables lack that wait to be made, or to be made others."""
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
    """The batch under way, as it is saved before anything is written to a table."""

    batch: int
    end_offsets: tuple[tuple[str, int, int], ...]
    """(topic, partition, exclusive end offset)."""
    start_offsets: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, offset) where partitions begin that the progress does not know yet."""
    resolved: int
    """A restart does not go below it, since tables may already be there."""
    mode: ModeName | Literal[""] = ""
    full: bool = False
    """More was there than one batch takes."""
    source: tuple[SourceNote, ...] = ()
    """What must still be so of the topics when the batch is read again."""
    source_memory: str = ""
    """See ``Source.memory``."""
    on_reject: OnReject | Literal[""] = ""
    """The policy that messages met which cannot be read; ``""``: there are none."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The heartbeat that ``ticdc-spark status`` reads beside the progress."""

    state: Literal["normal", "warning", "pending", "failed", "stopped", "finished"]
    at: float
    started_at: float
    pid: int
    token: str = ""
    """Of the owner that sends it."""
    phase: str = ""
    batch: int = 0
    error: str | None = None
    error_code: str | None = None
    """Class of the error."""
    error_at: float | None = None
    exit_code: int | None = None
    read_at: float | None = None
    """When the topics were last seen to end where the job had read them to, seconds since the epoch."""
    left: int | None = None
    """Messages that were there after the last batch and not read yet; ``None``: not known."""
    rate: float | None = None
    """Messages a second, over the last batches."""
    retention: dict[str, float] = {}
    """For how many seconds the topics keep messages, see ``Source.retention``."""
