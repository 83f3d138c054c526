"""What applying one batch works on."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ticdc_spark.config.job import Job
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.replicate.schemas.registered import Registered
from ticdc_spark.replicate.state.progress import Mark, Pending, TableState
from ticdc_spark.sinks.base import MarkFound, Sink, TableName
from ticdc_spark.sinks.iceberg.changelog import ChangeLog
from ticdc_spark.spark.decode.rows import ReadPlan
from ticdc_spark.spark.types import LakeColumn, LakeOptions, LakeType, lake_columns

NO_MARK: Mark = (-1, 0)
COMMIT_TS = "_ticdc_commit_ts"
"""In arrival mode: the lake's column with the commit_ts of each row's last change; 0 where the protocol hides it."""
_LONG = LakeType("bigint", "long", "int64")
_COMMIT_TS = LakeColumn(
    source=COMMIT_TS, name=COMMIT_TS, type=_LONG, column=Column(name=COMMIT_TS, type=ColumnType(name="bigint"))
)


@dataclass(slots=True, kw_only=True)
class Batch:
    """One batch while it is applied. ``states`` changes as the timelines go; each table belongs to one timeline."""

    job: Job
    sink: Sink
    log: ChangeLog
    batch: int
    protocol: str
    states: dict[TableName, TableState]
    pending: tuple[Pending, ...]
    schemas: dict[tuple[str, str, str], Table]
    now: float
    arrival: bool = False
    position: int = 0
    """In arrival mode: what marks have in place of a commit_ts; higher from batch to batch."""
    registry: Registered | None = None
    marks: dict[TableName, MarkFound | None] = field(default_factory=dict)
    """Marks of tables that exist, as read once; ``None``: the table is not there."""
    rejected: int = 0
    zero_dates: int = 0
    applied_rows: int = 0
    ddls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def options(self) -> ReadOptions:
        """How values are read."""
        return ReadOptions(
            source_timezone=self.job.source_timezone,
            ambiguous_timestamp=self.job.ambiguous_timestamp,
            verify_checksum=self.job.verify_checksum,
        )

    def read_plan(self, tables: Mapping[str, Table], columns: Sequence[LakeColumn]) -> ReadPlan:
        """How tasks read the rows of these versions of a table (by schema key) into columns."""
        return ReadPlan(
            protocol=self.protocol,
            tables=dict(tables),
            columns=tuple(columns),
            options=self.options,
            lake=self.lake,
            strict=self.job.on_reject == "stop",
            schemas=None if self.registry is None else self.registry.texts(tuple(tables)),
            upstream=self.job.source.upstream,
        )

    @property
    def lake(self) -> LakeOptions:
        """How types look in the lake."""
        return LakeOptions(tinyint1_as_boolean=self.job.tinyint1 == "boolean", zero_dates=self.job.zero_dates)

    def columns(self, table: Table) -> tuple[LakeColumn, ...]:
        """The lake's columns of a table, its handle key marked.

        Raises: UsageError for a TIMESTAMP that the protocol sends without its zone, when the job file does not tell it.
        """
        if self.job.source_timezone is None and PROTOCOLS[self.protocol].traits.local_timestamps:
            local = [column.name for column in table.columns if column.type.name == "timestamp"]
            if local:
                message = (
                    f"[job] source-timezone: missing; column `{local[0]}` of `{table.schema}`.`{table.name}` is a "
                    f"TIMESTAMP, which {self.protocol} sends as local text: name the changefeed's time zone"
                )
                raise UsageError(message)
        columns = lake_columns(table, handle_key(table), self.lake)
        return (*columns, _COMMIT_TS) if self.arrival else columns

    def commit_ts_of(self, state: TableState) -> int:
        """The highest commit_ts that a table has applied; in arrival mode a DDL leaves the position there."""
        return 0 if self.arrival and state.applied == self.position else state.applied

    def mark(self, table: TableName) -> Mark:
        """The table's mark; ``NO_MARK`` when the table is not in the lake.

        Raises: DecisionNeeded when the lake's table is not this job's and ``adopt`` is not set.
        """
        found = self.found(table)
        return NO_MARK if found is None else found.mark

    def found(self, table: TableName) -> MarkFound | None:
        """The table's mark with its floor; ``None`` when the table is not in the lake."""
        if table not in self.marks:
            self.marks[table] = self._look_up(table)
        return self.marks[table]

    def done(self, table: TableName, mark: Mark, floor: int) -> MarkFound:
        """Note that a step has been committed."""
        found = self.stamp(mark, floor)
        self.marks[table] = found
        return found

    def stamp(self, mark: Mark, floor: int) -> MarkFound:
        """A mark of this job."""
        return MarkFound(self.job.name, mark, floor)

    def _look_up(self, table: TableName) -> MarkFound | None:
        if not self.sink.exists(table):
            return None
        found = self.sink.mark(table)
        if found is not None and found.job == self.job.name:
            return found
        if self.job.adopt:
            return self.stamp((0, 0), 0)
        owner = "no job" if found is None else f"job {found.job!r}"
        message = (
            f"the lake has a table `{table[0]}`.`{table[1]}` already, written by {owner}; rename or drop it, "
            f"or set `adopt = true` under [job] to take it over"
        )
        raise DecisionNeeded(message)
