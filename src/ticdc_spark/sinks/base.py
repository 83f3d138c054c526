"""The contract of a sink: a lake of tables, each with a stamp of what it is and how far it is.

Every write and every DDL carries its stamp in the very commit that does it. The contract is split by what a sink can
do: ``Tables`` (find, create, drop, stamp), ``Columns`` (schema changes), ``Changes`` (rows), ``Loads`` (full reads);
``Sink`` is all of them.
A sink opens the change log that belongs to it, and decides how it writes the net changes of rows of that log.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from ticdc_spark.model import TableName, Value
from ticdc_spark.sinks.changelog_base import ChangeLog
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mark import Mark
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.spark.decode.log_files import LogScan
from ticdc_spark.spark.decode.rows import OP, BadRow
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn, LakeOptions

OP_COLUMN = OP
"""Column of a net change: ``d`` deletes its key, anything else is the row's last image."""
TIES, ALWAYS = "_ticdc_ties", "_ticdc_always"
"""Columns of a net change in arrival mode: whether it wins over a row of the same time, and over any row."""


class Stamp(msgspec.Struct, frozen=True):
    """What a commit of a job writes into its table: how far the table is, and what it is."""

    job: str
    mark: Mark
    applied_before: int
    """The commit_ts up to which everything was applied before the step of ``mark`` began."""
    about: str = ""
    """What the table is (``TableState`` as JSON, opaque to the sink). ``""``: as written before."""
    job_applied: int = 0
    """The commit_ts up to which the job had applied everything to all its tables before this commit."""
    seen: int | None = None
    """The snapshot at which the job read the table (``TableFound.snapshot``). What other writers did after it is kept
    for the next read, and new keys are not appended without a look-up. ``None``: it was not there. Not written."""


class TableFound(msgspec.Struct, frozen=True, kw_only=True):
    """A table as the lake has it now."""

    stamp: Stamp | None
    """The newest one; ``None``: no job has written to the table, or nothing of it is left."""
    rolled_back: bool = False
    """The table was set back to a state before one that a job committed; ``stamp`` has the mark of that state."""
    furthest: Mark | None = None
    """Where ``rolled_back``: the mark that it had before. Its columns, and ``stamp.about``, are still of then."""
    changed_by: str = ""
    """How other writers changed rows since a job last read the table and wrote to it; ``""``: they did not."""
    snapshot: int | None = None
    """The current snapshot."""


class ColumnChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a table's columns that need no rewrite, all in one commit."""

    rename: tuple[tuple[str, str], ...] = ()
    add: tuple[LakeColumn, ...] = ()
    drop: tuple[str, ...] = ()
    promote: tuple[LakeColumn, ...] = ()
    order: tuple[str, ...] = ()
    """All lake names in the order that the table has after the other changes; empty when no column moves."""

    def __bool__(self) -> bool:
        return bool(self.rename or self.add or self.drop or self.promote or self.order)


class Fill(msgspec.Struct, frozen=True):
    """A constant for a new column."""

    value: str | bytes | None
    """Canonical."""
    lake: LakeOptions


class ColumnConversion(msgspec.Struct, frozen=True):
    """How the values of a column become those of another type."""

    expression: str
    """Spark SQL over ``{old}``."""
    before: LakeColumn | None = None
    """The column as it was; ``None``: only its type in the lake is known."""
    convert: Callable[[Value], Value] | None = None
    """The same of a canonical value of ``before``. Raises: MessageError for one that the source would refuse"""
    lake: LakeOptions = LakeOptions()


def unconverted(column: LakeColumn, why: str) -> str:
    """What there is to do about values that do not fit the new type of their column."""
    return (
        f"the values of column `{column.source}` cannot be converted to {column.column.type.name}: {why}. If the table "
        "was adopted or changed by hand, mend these values; skip-ddl under [job] leaves the DDL out and marks the table"
    )


class NetChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one table to apply, one net change a key, and how they are read."""

    table: TableName
    scan: LogScan
    plan: ReadPlan
    stamp: Stamp
    """The mark of the commit that applies them."""
    appended: Stamp | None = None
    """The mark of a commit before it, if the sink appends new keys by a commit of their own."""
    new_keys: bool = False
    """Whether a key whose first event is an insert has no row in the table, if no other writer changed it since
    ``stamp.seen``."""
    inserts: int = 0
    others: int = 0
    """How many of the changes are inserts, and how many are not, as far as is known."""
    share: float = 0.0
    """Of all changes that are applied together, for a sink that does large ones by several tasks."""
    leave_out_unreadable: bool = False
    """Rows that cannot be read are left out; otherwise nothing is applied when there is one."""


class NewestChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one table to apply in arrival mode: each key's newest change, where the table has no newer one."""

    table: TableName
    scan: LogScan
    plan: ReadPlan
    columns: tuple[LakeColumn, ...]
    """Those of ``plan``, and the last one for the commit_ts of a row's last change."""
    stamp: Stamp
    deletes: ReadPlan | None = None
    """How older rows of the log are read for the deletes that they hold; ``None``: those need not be read."""
    leave_out_unreadable: bool = False


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit of rows did."""

    zero_dates: int = 0
    """Zero or impossible dates that became NULL."""
    rows: int | None = None
    """Row changes of the log that it took in; ``None``: they were not counted."""


class UnreadableRows(Exception):
    """Rows that cannot be read; nothing was applied. Not an error of its own: ``on-reject`` decides."""


class Tables(Protocol):
    """The tables of a lake, and their stamps. Every commit is fenced: it is checked first that the job is ours."""

    def find(self, table: TableName) -> TableFound | None:
        """A table as it is now; ``None``: the lake has no such table."""

    def list_tables(self, job: str) -> list[TableName]:
        """The tables whose newest stamp is of a job. Reads every table: for a job whose state was lost."""

    def snapshot_id(self, table: TableName) -> int | None:
        """The current snapshot."""

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        """Create a table, with its stamp, in one commit."""

    def drop(self, table: TableName) -> None:
        """Drop a table and its files; no error when it is not there."""

    def rename(self, old: TableName, new: TableName) -> None:
        """Rename a table."""

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        """Remove all rows, in one commit."""

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        """Commit a stamp and nothing else."""

    def create_database(self, schema: str) -> None:
        """Create a namespace; no error when it is there."""

    def drop_database(self, schema: str) -> None:
        """Drop a namespace if nothing is left in it."""


class Columns(Protocol):
    """Schema changes."""

    def columns(self, table: TableName) -> dict[str, str]:
        """Lake column names of a table to their types, as Spark SQL names them."""

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        """Rename, add, drop and promote columns, with the stamp, in one commit."""

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        """Give every row one value in a column, in one commit with the stamp."""

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        """Set a column of every row to the converted value of the column ``old``, in one commit with the stamp.

        Raises: DecisionNeeded where a value does not fit; SinkFault
        """


class Changes(Protocol):
    """Rows of the sink's change log into its tables."""

    def apply_net_changes(self, changes: NetChanges) -> Applied:
        """Apply one net change a key: the last image of each, in one commit with the stamp.

        Raises: UnreadableRows when there are some that are not to be left out; nothing is applied then. SinkFault
        """

    def apply_newest(self, changes: NewestChanges) -> Applied:
        """Apply each key's newest change where the table has no newer one, in one commit with the stamp.

        Raises: as ``apply_net_changes``.
        """

    def unreadable_rows(self, scan: LogScan, plan: ReadPlan, limit: int) -> list[BadRow]:
        """At most ``limit`` rows that cannot be read, each once. Raises: SinkFault"""


class Loads(Protocol):
    """Full reads of tables: rows are gathered beside a table, chunk by chunk, and become the table in one commit.

    What was gathered lies with the table, and no reader of the table sees it before."""

    def load_note(self, table: TableName) -> LoadNote | None:
        """How far the read of a table is; ``None``: none was begun, or what was gathered is gone. Raises: SinkFault"""

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        """Begin to gather, with nothing; what an earlier read gathered goes. Raises: SinkFault"""

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        """Gather the rows of ``parts`` parts, in one commit, into exactly ``columns``.

        ``note``: called once the rows are read, with their number and how many dates became NULL.
        Raises: SourceMoved; UnreadableRows where a value does not fit: nothing is gathered then. SinkFault, SourceFault
        """

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        """Make what was gathered the table, whatever it has held, in one commit with the stamp. Raises: SinkFault"""


class UpkeepPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a table's files are looked after, and what of its history is kept. Durations are seconds."""

    small_files: int
    keep_all: float
    keep_hourly: float


class FilePlace(msgspec.Struct, frozen=True):
    """A folder that something has files in."""

    owner: str
    """In words: a table by its name for SQL."""
    location: str


class Upkeep(Protocol):
    """What keeps tables quick to read. It changes no row, no mark, and nothing that a reader may have pinned."""

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> list[str]:
        """Compact the table's files and expire its snapshots, where ``policy`` wants it.

        Returns: what was done, in words. Raises: SinkFault, also where another writer was faster
        """

    def file_places(self) -> Sequence[FilePlace]:
        """Where every table of the catalog has files. Reads all of them: once for all tables that are cleaned.

        Raises: SinkFault, also where it is not known of one of them
        """

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        """Remove files that no commit has and that are older than a time (Unix); how many.

        ``places``: where others may have files. Raises: SinkFault, also where one of them lies in the table's location
        """


class Sink(Tables, Columns, Changes, Loads, Upkeep, Protocol):
    """A lake. One object a job; safe to call from several threads for different tables."""

    def state(self, job: str) -> StateStore:
        """The state of a job, which may be another one than writes here."""

    def changelog(self, job: str) -> ChangeLog:
        """Open the job's change log and dead letters, which this sink then reads rows from."""
