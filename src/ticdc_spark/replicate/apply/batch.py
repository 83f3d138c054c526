"""The data with which a batch is applied: what its timelines share, and what one timeline changes."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from ticdc_spark.changes.ranges import RowRange, RowScan
from ticdc_spark.changes.topic import TopicRows
from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.row_filters import row_filter
from ticdc_spark.config.shapes import shape_of
from ticdc_spark.ddl.known_names import NO_NAMES, Names
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.model import Column, ColumnType, Offsets, Table, TableName
from ticdc_spark.mysql import HIDDEN_NAMES, SOFT_DELETE_TIME, handle_key
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.replicate.apply.look import look_at, stop_if_ahead, way_back
from ticdc_spark.replicate.letters import Letters
from ticdc_spark.replicate.plan.column_diff import SessionZone
from ticdc_spark.replicate.plan.merging import by_source
from ticdc_spark.replicate.plan.pending import range_of
from ticdc_spark.replicate.schemas.registered import Registered
from ticdc_spark.replicate.state.progress import PendingRows, Shard
from ticdc_spark.replicate.state.table import TableState, for_stamp, from_stamp
from ticdc_spark.sinks.base import Sink, Stamp
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeColumn, LakeOptions, LakeType, without_values

T = TypeVar("T")
COMMIT_TS = "_ticdc_commit_ts"
"""In a mode without a resolved ts: the lake's column with the commit_ts of each row's last change; 0: the protocol
hides it."""
_LONG = LakeType("bigint", "int64")
_COMMIT_TS = LakeColumn(
    source=COMMIT_TS, name=COMMIT_TS, type=_LONG, column=Column(name=COMMIT_TS, type=ColumnType(name="bigint"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch while it is applied: what its timelines share, and do not change."""

    job: Job
    sink: Sink
    rows: TopicRows
    letters: Letters
    batch: int
    """The number of the batch."""
    protocol: str
    pending: tuple[PendingRows, ...]
    schemas: Mapping[tuple[str, str, str], Table]
    now: float
    shards: tuple[Shard, ...] = ()
    """The shards before the batch."""
    resolves: bool = True
    """See ``modes.traits``."""
    registry: Registered | None = None
    job_applied: int = 0
    """The commit_ts that all tables had applied before this batch."""
    furthest: int = 2**63 - 1
    """The highest first half of a mark that this batch makes, or that an interrupted try of it made."""
    lacking: frozenset[TableName] = frozenset()
    """Names whose tables may lack changes of any key. They are marked after the batch."""
    databases: frozenset[str] = frozenset()
    """Databases whose CREATE DATABASE is applied by the end of the batch, so that all their tables are known."""
    unread: frozenset[TableName] = frozenset()
    """Tables that need a full read, which has not begun."""
    read: Offsets = field(default_factory=dict)
    """The offsets up to which partitions were read."""
    names: Names = NO_NAMES
    """The names that the rows of the batch were scanned with."""
    commits: Tally = field(default_factory=Tally)
    """Counts the commits to tables."""
    topics: Mapping[TableName, Collection[str]] = field(default_factory=dict)
    """The topics of waiting rows and DDLs, by table. A new table has not recorded its topics yet."""

    def waiting(self, name: TableName, waiting: Sequence[PendingRows], above: int, upto: int) -> RowScan:
        """The scan of waiting rows of a table."""
        return RowScan(
            table=name,
            ranges=tuple(map(range_of, waiting)),
            above=above,
            upto=upto,
            rows=sum(rows.waiting for rows in waiting),
            bytes=sum(rows.bytes for rows in waiting),
        )

    def rows_since(self, state: TableState, above: int, upto: int) -> RowScan:
        """Every row of a table after a commit_ts, applied or not. Raises: SourceFault"""
        name = state.full_name
        topics = {*state.topics, *self.topics.get(name, ())}
        ranges: tuple[RowRange, ...] = self.rows.ranges_since(above + 1, self.read, topics)
        return RowScan(table=name, ranges=ranges, above=above, upto=upto, names=self.names)

    def are_deletes(self, scan: RowScan) -> bool:
        """Whether a scan has no other rows than deletes. Raises: SourceFault"""
        return not self.rows.has_rows(msgspec.structs.replace(scan, ops=("insert", "update", "upsert")))

    def read_plan(
        self, state: TableState, versions: Mapping[str, Table], columns: Sequence[LakeColumn], *, inferred: bool = False
    ) -> ReadPlan:
        """How to read rows of these versions of a table (by schema key) into columns.

        ``state``: its table has the source's current schema, with TiDB's hidden columns. A rule may exclude some of its
        columns from ``columns``. ``inferred``: the table came from the schemas of rows.
        """
        table = state.table
        assert table is not None, "its rows are read"
        return ReadPlan(
            protocol=self.protocol,
            tables=dict(versions),
            columns=tuple(columns),
            hidden=frozenset(column.name for column in table.columns) & HIDDEN_NAMES,
            options=self.read_options(inferred=inferred),
            lake=self.lake,
            schemas=None if self.registry is None else self.registry.texts(tuple(versions)),
            deleted_by=SOFT_DELETE_TIME if self.job.soft_deletes == "delete" else "",
            computed=state.computed,
            where=self.where(table, versions.values()),
            upstream=self.job.source.upstream,
            old_images="key" if any(column.key for column in columns) else "whole",
            origin=compiled(self.job.routes).origin(table.full_name),
        )

    def read_options(self, *, inferred: bool = False) -> ReadOptions:
        """How to read values. ``inferred``: as in ``read_plan``."""
        return ReadOptions(
            source_timezone=self.job.source_timezone,
            ambiguous_timestamp=self.job.ambiguous_timestamp,
            verify_checksum=self.job.verify_checksum,
            default_timezone=self.job.ddl_zone if self.local_defaults(inferred=inferred) else None,
            literal_defaults=inferred,
        )

    def where(self, table: Table, versions: Iterable[Table] = ()) -> str:
        """The condition for rows of a table that the target keeps. Raises: UsageError when one of ``versions`` lacks a
        column of the condition"""
        shape = shape_of(compiled(self.job.routes).rule(table.full_name), table)
        for version in versions if shape.where else ():
            row_filter(shape.where, version)
        return shape.where

    @property
    def lake(self) -> LakeOptions:
        """How the lake represents types."""
        return LakeOptions(tinyint1_as_boolean=self.job.tinyint1 == "boolean", zero_dates=self.job.zero_dates)

    @property
    def session_zone(self) -> SessionZone:
        """The time zone of the sessions that run DDLs."""
        return SessionZone(self.job.ddl_zone, self.job.ambiguous_timestamp)

    def local_defaults(self, *, inferred: bool) -> bool:
        """Whether a TIMESTAMP's default is local text, because the schema came from SQL. ``inferred``: it came from the
        schemas of rows, where the default is in UTC."""
        return not inferred and not PROTOCOLS[self.protocol].traits.versioned_tables

    def columns(self, table: Table) -> tuple[LakeColumn, ...]:
        """The lake's columns of a table, its handle key marked.

        Raises: UsageError for a TIMESTAMP that the protocol sends without its zone, if the job file names no zone.
        """
        if self.job.source_timezone is None and PROTOCOLS[self.protocol].traits.local_timestamps:
            local = [column.name for column in table.columns if column.type.name == "timestamp"]
            if local:
                message = (
                    f"[job] source-timezone: missing; column `{local[0]}` of `{table.schema}`.`{table.name}` is a "
                    f"TIMESTAMP, which {self.protocol} sends as local text: set it to the changefeed's time zone"
                )
                raise UsageError(message)
        columns = self.sink.types.columns(table, handle_key(table), self.lake)
        return columns if self.resolves else (*columns, _COMMIT_TS)

    def columns_of(self, state: TableState) -> tuple[LakeColumn, ...]:
        """The lake's columns that each row of a table is written to, also columns that the source dropped. Raises: as
        ``columns``"""
        assert state.table is not None, "the table was created"
        columns, kept = self.columns(state.table), self.kept_columns(state)
        return (*columns, *kept) if self.resolves else (*columns[:-1], *kept, columns[-1])

    def kept_columns(self, state: TableState) -> tuple[LakeColumn, ...]:
        """The lake's columns that the source dropped."""
        kept = tuple(one.column for one in state.kept_columns)
        # Their names and types are already the target's, so no rule applies to them.
        table = Table(schema="", name="", columns=kept)
        return tuple(map(without_values, self.sink.types.columns(table, (), self.lake))) if kept else ()

    def stamp(self, state: TableState, mark: Mark, applied_before: int) -> Stamp:
        """A stamp of this job, with ``mark`` and the state of the table at it."""
        about = msgspec.json.encode(for_stamp(state)).decode()
        return Stamp(self.job.name, mark, applied_before, about, self.job_applied)


@dataclass(slots=True, kw_only=True)
class TimelineWork:
    """The tables of one timeline, while one thread works through it. Its final contents are the timeline's result.

    A table is read once, at its first use. Its own stamp is the truth, and the progress is the promise.
    """

    batch: Batch
    promised: Mapping[TableName, TableState]
    """The tables in the progress."""
    known: dict[TableName, TableState | None] = field(default_factory=dict)
    """The states of the tables that were read; ``None``: nothing is known about the table."""
    stamps: dict[TableName, Stamp | None] = field(default_factory=dict)
    """The stamps of the tables that were read; ``None``: the lake does not have the table."""
    seen: dict[TableName, int | None] = field(default_factory=dict)
    """The snapshots at which the tables were read."""
    known_columns: dict[TableName, Mapping[str, str]] = field(default_factory=dict)
    """The columns of the tables that were found in the target and not changed since."""
    rejected: int = 0
    zero_dates: int = 0
    taken: dict[TableName, int] = field(default_factory=dict)
    """Applied rows, by table."""
    uncounted: set[TableName] = field(default_factory=set)
    """Tables that may have got more rows than ``taken`` counts."""
    ddls: int = 0
    late_done: dict[TableName, int] = field(default_factory=dict)
    """The commit_ts up to which late rows were applied, by table: steps after a DDL do not apply them again."""
    shards: dict[TableName, Shard] = field(init=False)
    """The shards that exist at this point, by their names at the source."""

    def __post_init__(self) -> None:
        self.shards = by_source(self.batch.shards)

    def state(self, table: TableName) -> TableState | None:
        """What is known about a table; ``None``: nothing.

        Raises: DecisionNeeded when the lake's table is not this job's, or is not as the job left it.
        """
        if table not in self.known:
            self._look_at(table)
        return self.known[table]

    def mark(self, table: TableName) -> Mark:
        """The table's mark; ``NO_MARK``: the table is not in the lake. Raises: as ``state``"""
        found = self.stamp_of(table)
        return NO_MARK if found is None else found.mark

    def stamp_of(self, table: TableName) -> Stamp | None:
        """The table's stamp; ``None``: the table is not in the lake. Raises: as ``state``"""
        if table not in self.stamps:
            self._look_at(table)
        return self.stamps[table]

    def columns(self, table: TableName) -> Mapping[str, str]:
        """The types of the columns that a table in the target has, by their names. Raises: SinkFault"""
        found = self.known_columns.get(table)
        return self.batch.sink.columns(table) if found is None else found

    def put(self, state: TableState) -> None:
        """Record the new state of a table."""
        self.known[state.full_name] = state
        self.stamps.setdefault(state.full_name, None)

    def commit(self, state: TableState, mark: Mark, applied_before: int, write: Callable[[Stamp], T]) -> T:
        """Commit to a table, with ``state`` in its stamp."""
        name = state.full_name
        if state.ddl_ts == mark[0]:
            state = msgspec.structs.replace(state, ddl_step=mark[1])
        stamp = msgspec.structs.replace(self.batch.stamp(state, mark, applied_before), seen=self.seen.get(name))
        self.known_columns.pop(name, None)
        result = write(stamp)
        self.batch.commits.add(name)
        self.stamps[name] = stamp
        self.known[name] = msgspec.structs.replace(state, mark=mark)
        return result

    def count(self, table: TableName, upto: int, rows: int | None) -> None:
        """Count the rows of a range that ends at ``upto``: by the sink's count, else by the groups that end there."""
        taken = self.taken.get(table, 0)
        if rows is None:
            self.uncounted.add(table)
            ended = (one for one in self.batch.pending if one.full_name == table and one.max_ts <= upto)
            rows = max(0, sum(one.waiting for one in ended) - taken)
        self.taken[table] = taken + rows
        state = self.known.get(table)
        if state is not None:
            self.known[table] = msgspec.structs.replace(state, rows=state.rows + rows)

    def write_decisions(self) -> None:
        """Write to the stamps what was decided about tables since their last commit, such as a quarantine."""
        for name, stamp in list(self.stamps.items()):
            state = self.known.get(name)
            if stamp is None or state is None or not stamp.about:
                continue
            new = self.batch.stamp(state, stamp.mark, stamp.applied_before)
            if new.about == stamp.about:
                continue
            was = from_stamp(stamp.about)
            # New topics alone do not justify a commit.
            was = msgspec.structs.replace(was, topics=state.topics)
            if new != self.batch.stamp(was, stamp.mark, stamp.applied_before):
                self.commit(
                    state,
                    stamp.mark,
                    stamp.applied_before,
                    lambda new, name=name: self.batch.sink.stamp(name, new),  # type: ignore[misc]
                )

    def gone(self, table: TableName) -> None:
        """Record that a table is no longer in the lake."""
        self.known_columns.pop(table, None)
        self.stamps[table] = None

    def _look_at(self, table: TableName) -> None:
        batch = self.batch
        promise = self.promised.get(table)
        looked = look_at(batch.sink, batch.job, table, promise, resolves=batch.resolves, job_applied=batch.job_applied)
        if looked.behind:
            raise DecisionNeeded(f"{looked.behind}. {way_back(batch.job, table, resolves=batch.resolves)}")
        stop_if_ahead(batch.job, table, looked.stamp, promise, batch.furthest)
        self.stamps[table] = looked.stamp
        self.known[table] = looked.state
        self.seen[table] = looked.snapshot
        if looked.stamp is not None:  # otherwise a RENAME may bring a table of this name
            self.known_columns[table] = looked.columns
