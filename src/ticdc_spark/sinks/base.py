"""The contract of a sink: a lake of tables, each with a stamp of what it is and how far it is.

Every write and every DDL carries its stamp in the very commit that does it. The contract is split by what a sink can
do: ``Tables`` (find, create, drop, stamp), ``Columns`` (schema changes), ``Changes`` (rows), ``Loads`` (full reads);
``Sink`` is all of them.
A sink receives typed changes (``changes.typed``): it knows nothing of messages, offsets or protocols.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.model import TableName, Value
from ticdc_spark.sinks.appends import Appended
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mark import Mark
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.type_map import ColumnConversion, NameRule, TypeMap
from ticdc_spark.sinks.upkeep import Upkeep
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn, LakeOptions


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


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What a value of one column must meet. Values are canonical; a bound that is ``None`` is none."""

    column: LakeColumn
    at_least: Value = None
    below: Value = None
    any_of: tuple[Value, ...] | None = None
    none_of: tuple[Value, ...] = ()
    remainder: tuple[int, int] | None = None
    """Of an integer: (divisor, remainder) of its absolute value."""
    rtrim: bool = False
    """Of text: ``any_of`` and ``none_of`` compare without trailing spaces."""
    or_null: bool = False
    """Whether NULL meets it, too."""
    lake: LakeOptions = LakeOptions()


def unconverted(column: LakeColumn, why: str) -> str:
    """What there is to do about values that do not fit the new type of their column."""
    return (
        f"the values of column `{column.source}` cannot be converted to {column.column.type.name}: {why}. If the table "
        "was adopted or changed by hand, mend these values; skip-ddl under [job] leaves the DDL out and marks the table"
    )


class Tables(Protocol):
    """The tables of a lake, and their stamps. Every commit is fenced: it is checked first that the job is ours."""

    def find(self, table: TableName) -> TableFound | None:
        """A table as it is now; ``None``: there is none. Raises: FilesGone, which ``drop`` ends; SinkFault"""

    def list_tables(self, job: str) -> list[TableName]:
        """The tables whose newest stamp is of a job. Reads every table: for a job without a state."""

    def snapshot_id(self, table: TableName) -> int | None:
        """The current snapshot."""

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        """Create a table, with its stamp, in one commit. ``layout``: by the names of ``columns``.

        Raises: UsageError for a layout that the columns do not allow; NotSupported unless ``layouts``; SinkFault
        """

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        """Drop a table and its files; no error when it is not there.

        ``ended``: of the DDL by which the source dropped it; ``None``: there is none. It is for the table's history.
        """

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
        """The names of a table's columns to their types, as ``LakeType.name`` has them."""

    def sql_name(self, table: TableName) -> str:
        """A table as the SQL of the target names it, for a person."""

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
    """Row changes into tables."""

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        """Apply the net changes of a table, all or none, in one commit with the stamp.

        Ordered changes (``changes.ordered_by``) are applied only where the table has no newer row.
        ``appended``: the stamp of a commit before it, if the sink appends new keys by a commit of their own.
        Raises: UnreadableRows when there are some that are not to be left out; nothing is applied then, but for keys
        that a commit of their own has appended. SinkFault
        """

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        """Add and remove whole rows of a table without a key, all or none, in one commit with the stamp.

        ``changes`` are counted (``changes.is_counted``). Rows are equal if all their values are, and NULL equals NULL;
        no collation counts. What is to be removed and is not there is left out.
        Raises: UnreadableRows as ``upsert``; NotSupported unless ``counts``; SinkFault
        """

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        """Bring in all rows of another table, which has these columns too, in one commit with the stamp.

        ``new_keys``: the table has no row with one of their keys. Otherwise such a row is replaced. Raises: SinkFault
        """

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        """Delete the rows that meet every condition of one of ``where``, in one commit with the stamp.

        There is one of them at least, and each has one condition at least.

        Raises: SinkFault
        """

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        """Append rows to a history table, which has their columns, in one commit with the stamp. No row is looked for.

        ``beside``: the table whose history it is. What is done to that one later comes with this commit, or after it.
        Raises: UnreadableRows as ``upsert``; NotSupported unless ``history``; SinkFault
        """


class Reads(Protocol):
    """What the tables hold."""

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a table in some of its columns, by their names in the target, in no order.

        ``as_of``: the snapshot (``Tables.snapshot_id``). Raises: SinkFault, also where that is gone
        """


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

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        """Gather what the net changes of a table come to that began empty, in one commit: deletes leave nothing.

        ``note``: as ``load``. Raises: UnreadableRows, SourceChanged: nothing is gathered then. SinkFault, SourceFault
        """

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        """Gather the rows of another table that meet every condition of one of ``where``, in one commit with the note.

        The other table has these columns, too. Raises: SinkFault
        """

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        """Make what was gathered the table, whatever it has held, in one commit with the stamp. Raises: SinkFault"""


class Sink(Tables, Columns, Changes, Reads, Loads, Upkeep, Protocol):
    """A target. One object a job; safe to call from several threads for different tables."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    @property
    def types(self) -> TypeMap:
        """How it holds the source's types."""

    @property
    def names(self) -> NameRule:
        """How it holds the source's names."""

    def state(self, job: str) -> StateStore:
        """The state of a job, which may be another one than writes here."""

    def commit_with(self, states: StateStore) -> None:
        """Let the next commit of a state bring in the changes of rows, and the stamps, that were written so far.

        Until then ``find`` shows them and no reader does; a DDL brings in those of its table. What was written when
        no commit follows is lost with it. A sink whose state is elsewhere brings them in now, in one commit.
        Raises: NotSupported unless ``atomic_tables``; SinkFault, SinkConflict where another writer was faster
        """
