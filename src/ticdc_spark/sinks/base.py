"""The contract of a sink: a lake of tables, each with a stamp that says what the table is and what it has applied.

Every write and every DDL carries its stamp in the same commit. The contract has a part for each thing that a sink does:
``Tables`` (find, create, change columns, read), ``Rewrites`` (rows that are already in the target), ``Changes`` (rows
from messages), ``Histories`` (appended rows), ``Loads`` (full reads), ``Upkeep`` (files). ``Sink`` is all of them, and
``sinks.composed`` makes one from an object for each.

A sink receives typed changes (``changes.typed``). It knows nothing of messages, offsets or protocols.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended
from ticdc_spark.sinks.capabilities import Capabilities
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mark import Mark
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.sinks.type_map import ColumnConversion, NameRule, TypeMap
from ticdc_spark.sinks.upkeep import Upkeep
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn, LakeOptions


class Stamp(msgspec.Struct, frozen=True):
    """What a job's commit writes into its table: what the table is, and what it has applied."""

    job: str
    mark: Mark
    applied_before: int
    """Everything up to this commit_ts was applied before the step of ``mark`` began."""
    about: str = ""
    """What the table is (``TableState`` as JSON, opaque to the sink). ``""``: unchanged since the last stamp."""
    job_applied: int = 0
    """Before this commit, the job had applied everything up to this commit_ts to all its tables."""
    seen: int | None = None
    """The snapshot at which the job read the table (``TableFound.snapshot``). ``None``: there was no table.

    The next read reports what other writers did after it, and new keys are not appended without a look-up. Not written.
    """


class TableFound(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a table in the lake."""

    stamp: Stamp | None
    """The newest stamp; ``None``: no job has written to the table, or no stamp of it remains."""
    rolled_back: bool = False
    """The table was rolled back to a state before a job's commit; ``stamp`` has the mark of the older state."""
    furthest: Mark | None = None
    """If ``rolled_back``: the mark before the rollback. The columns and ``stamp.about`` still belong to that mark."""
    changed_by: str = ""
    """How other writers changed rows since a job last read and wrote the table; ``""``: they did not."""
    snapshot: int | None = None
    """The current snapshot."""
    columns: Mapping[str, str] = {}
    """As ``Tables.columns`` gives them. A catalog answers both with one request."""


class ColumnChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a table's columns that need no rewrite, in one commit."""

    rename: tuple[tuple[str, str], ...] = ()
    add: tuple[LakeColumn, ...] = ()
    drop: tuple[str, ...] = ()
    promote: tuple[LakeColumn, ...] = ()
    order: tuple[str, ...] = ()
    """All lake names in their order after the other changes; empty when no column moves."""
    comments: tuple[tuple[str, str], ...] = ()
    """New comments of columns, by their names after the other changes; ``""``: none. A target that cannot store one
    cuts it, or keeps the former one, and does not fail."""
    comment: str | None = None
    """The new comment of the table; ``""``: none, ``None``: unchanged. A target that cannot store it ignores it."""

    def __bool__(self) -> bool:
        return self.moves_values or bool(self.comments) or self.comment is not None

    @property
    def moves_values(self) -> bool:
        """Whether rows with the former columns differ from rows with the new ones."""
        return bool(self.rename or self.add or self.drop or self.promote or self.order)


class Fill(msgspec.Struct, frozen=True):
    """A constant for a new column."""

    value: str | bytes | None
    """Canonical."""
    lake: LakeOptions


def unconverted(column: LakeColumn, why: str) -> str:
    """The error text for values that do not fit the new type of their column, with the cure."""
    return (
        f"the values of column `{column.source}` cannot be converted to {column.column.type.name}: {why}. If the table "
        "was adopted or changed by hand, fix these values; skip-ddl under [job] skips the DDL and marks the table"
    )


class Tables(Protocol):
    """The tables of a target, their columns and stamps. Every commit is fenced: first the sink checks that the job is
    still ours."""

    def find(self, table: TableName) -> TableFound | None:
        """The current state of a table; ``None``: there is none. Raises: FilesGone (``drop`` still works); SinkFault"""

    def list_tables(self, job: str) -> list[TableName]:
        """The tables whose newest stamp is from a job. Reads every table, so it is only for a job without a state."""

    def snapshot_id(self, table: TableName) -> int | None:
        """The current snapshot."""

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        """Create a table with its stamp in one commit. ``layout`` uses the names of ``columns``.

        Raises: UsageError for a layout that the columns do not allow; NotSupported unless ``layouts``; SinkFault
        """

    def drop(self, table: TableName) -> None:
        """Drop a table and its files; no error if it does not exist."""

    def rename(self, old: TableName, new: TableName) -> None:
        """Rename a table."""

    def flush(self, table: TableName) -> None:
        """Commit what waits for ``commit_with`` of a table and its history, because a change that does not wait depends
        on it."""

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        """Remove all rows, in one commit."""

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        """Commit only a stamp."""

    def create_database(self, schema: str) -> None:
        """Create a namespace; no error if it exists."""

    def drop_database(self, schema: str) -> None:
        """Drop a namespace if it is empty."""

    def columns(self, table: TableName) -> dict[str, str]:
        """The types of a table's columns by their names, in the form of ``LakeType.name``."""

    def sql_name(self, table: TableName) -> str:
        """The name of a table in the target's SQL, for people."""

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        """Rename, add, drop and promote columns, in one commit with the stamp."""

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a table in some of its columns, named as in the target, in no order.

        ``as_of``: the snapshot (``snapshot_id``). Raises: SinkFault, also if that snapshot is gone
        """


class Rewrites(Protocol):
    """Changes of rows that are already in the target."""

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        """Give every row one value in a column, in one commit with the stamp."""

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        """Set a column of every row to the converted value of the column ``old``, in one commit with the stamp.

        Raises: DecisionNeeded where a value does not fit; SinkFault
        """

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        """Add all rows of another table, which also has these columns, in one commit with the stamp.

        ``new_keys``: the table has none of their keys. Otherwise rows with these keys are replaced. Raises: SinkFault
        """

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        """Delete the rows that meet all conditions of at least one group in ``where``, in one commit with the stamp.

        There is at least one group, and each group has at least one condition.

        Raises: SinkFault
        """


class Changes(Protocol):
    """Row changes from messages."""

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        """Apply the net changes of a table, all or none, in one commit with the stamp.

        Ordered changes (``changes.ordered_by``) are applied only where the table has no newer row.
        ``appended``: the stamp of a separate commit before it, if the sink appends new keys in one.
        Raises: UnreadableRows if some rows cannot be read and must not be skipped. Nothing is applied then, except keys
        that a separate commit has appended. SinkFault
        """

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        """Add and remove whole rows of a table without a key, all or none, in one commit with the stamp.

        ``changes`` are counted (``changes.is_counted``). Rows are equal if all their values are equal. NULL equals
        NULL, and collations are ignored. A row to remove that is not there is skipped.
        Raises: UnreadableRows as ``upsert``; NotSupported unless ``counts``; SinkFault
        """


class Histories(Protocol):
    """Rows of history tables."""

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        """Append rows to a history table, which has their columns, in one commit with the stamp. Looks up no row.

        ``beside``: the table whose history it is. Later changes of that table are committed with these rows or after
        them.
        Raises: UnreadableRows as ``upsert``; NotSupported unless ``history``; SinkFault
        """


class Loads(Protocol):
    """Full reads of tables: rows are gathered beside a table, chunk by chunk, and replace its rows in one commit.

    The gathered rows are kept with the table. No reader of the table sees them before that commit.
    """

    def load_note(self, table: TableName) -> LoadNote | None:
        """The progress of a table's read; ``None``: no read has begun, or its rows are gone. Raises: SinkFault"""

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        """Begin to gather rows, and delete what an earlier read gathered. Raises: SinkFault"""

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        """Gather the rows of ``parts`` parts, in one commit, into exactly ``columns``.

        ``note``: called after the rows are read, with their number and how many dates became NULL.
        Raises: SourceMoved; UnreadableRows if a value does not fit (then nothing is gathered); SinkFault, SourceFault
        """

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        """Gather the rows that the net changes of an initially empty table leave, in one commit. Deletes leave nothing.

        ``note``: as in ``load``. Raises: UnreadableRows, SourceChanged (nothing is gathered then); SinkFault,
        SourceFault
        """

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        """Gather another table's rows that meet all conditions of one group in ``where``, in one commit with the note.

        The other table also has these columns. Raises: SinkFault
        """

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        """Replace the rows of the table by the gathered rows, in one commit with the stamp. Raises: SinkFault"""


class Sink(Tables, Rewrites, Changes, Histories, Loads, Upkeep, Protocol):
    """A target. A job has one object, which several threads may use for different tables."""

    @property
    def capabilities(self) -> Capabilities:
        """What the sink can do."""

    @property
    def types(self) -> TypeMap:
        """How the sink stores the source's types."""

    @property
    def names(self) -> NameRule:
        """How the sink stores the source's names."""

    @property
    def conflicts(self) -> Tally:
        """Commits that were refused since another writer committed first, by the target's tables. Each was tried again,
        or its rows were written in another way. Not those that end with a SinkConflict."""

    def drop(self, table: TableName, ended: Stamp | None = None) -> None:
        """Drop a table and its files; no error if it does not exist.

        ``ended``: the stamp of the DDL that dropped it at the source, for the table's history; ``None``: no such DDL.
        """

    def state(self, job: str) -> StateStore:
        """The state of a job; not necessarily the job that writes here."""

    def commit_with(self, states: StateStore) -> None:
        """Let the next commit of a state include the row changes and stamps that were written so far.

        Until then ``find`` shows them, but readers do not see them; a DDL commits the changes of its table. Without a
        later commit they are lost. A sink whose state is elsewhere commits them now, in one commit.
        Raises: NotSupported unless ``atomic_tables``; SinkFault; SinkConflict if another writer committed first
        """
