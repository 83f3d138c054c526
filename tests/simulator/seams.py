"""What a story needs of the job and of everything durable around it: the protocols that a laboratory implements.

A laboratory (``Lab``) holds the in-memory lake, change log, state folder and lease of one story, and starts processes
of the real job over them. It is made by a ``LabMaker`` from what the world owns: the broker (to be read through a
``Source``), the clock and the injector.

Rules for whoever implements it:

- Nothing is real: no thread (timelines run one after the other, the heartbeat not at all), no wall clock (every
  ``time.time`` and ``time.monotonic`` of the job is ``Clock.now``), no file, no Spark, no random number of its own.
- Every durable action goes through ``Injector.act(kind, what, do)``, once, where ``do`` does all of it or nothing:
  ``store`` each write of the state folder (plan and progress; not the heartbeat); ``log`` each commit to the change log
  or the dead letters; ``sink`` each commit of a table (append, merge, truncate, stamp, change of columns, set column),
  each CREATE, DROP and RENAME, each namespace; ``lease`` each swap of its record. Reading is not an action.
- ``Died`` passes through the job untouched (it is no ``Exception``). Afterwards the process object is never used again
  and gives nothing back; its lease stays as it was, and its owner counts as gone.
- ``suspended`` calls the world from inside ``act``: another process of the same lab runs, on the same stack, and ends,
  before ``do`` goes on. So no state of a lab may be held across ``act`` other than what the job itself holds.
- Values are read as the real sink reads them: what ``spark.types.to_arrow`` refuses is a bad row.
- A commit that the first process goes on with then must meet what the second one left: ``do`` looks at the lake when
  it is called, as a real commit does (optimistic: it fails with SinkFault where the real sink's would).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from tests.simulator.broker import Broker
from tests.simulator.database import Database
from tests.simulator.faults import Injector
from tests.simulator.moves import MoveKind
from tests.simulator.setup import JobSetup
from ticdc_spark.model import Table
from ticdc_spark.replicate.state.requests import Repair

TableName: TypeAlias = tuple[str, str]
Cells: TypeAlias = Mapping[str, Any]
"""A row: column name to its value, either in normal form (``model.Value``) or as the lake's type has it in Python (int,
Decimal, datetime …; a TIMESTAMP in UTC); the verdict takes both. Columns named ``_ticdc…`` are hidden."""
Copy: TypeAlias = Any
"""An opaque, immutable copy of something durable, given by ``save`` and taken by ``restore``."""

CONDITIONS = Literal["clean", "unverified", "diverged", "quarantined", "snapshot", "dropped", "kept"]


@dataclass(slots=True)
class Clock:
    """The only time there is."""

    now: float = 1_767_300_000.0
    """Seconds since the epoch."""

    def advance(self, seconds: float) -> None:
        self.now += seconds


class LakeTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the lake as anybody may read it."""

    columns: tuple[str, ...]
    rows: Sequence[Cells]
    mark_ts: int | None = None
    """The commit_ts of its newest mark; ``None``: it has none."""
    snapshots: int = 1
    """How many snapshots can be rolled back to, the current one included."""
    made_up: tuple[str, ...] = ()
    """Columns in which readers find values where the job wrote NULL."""


class Lake(Protocol):
    """What other tools and people see of the lake, and do to it. None of these is an action of the job: no injector."""

    def tables(self) -> Mapping[TableName, LakeTable]:
        """All tables of the job's namespaces, under the source's names; never the change log."""

    def save(self) -> Copy:
        """Back up everything: tables with properties, snapshots and summaries, the change log, the dead letters."""

    def restore(self, copy: Copy) -> None:
        """Put everything back to ``copy``. The lease's record is not part of it."""

    def restore_table(self, table: TableName, copy: Copy) -> None:
        """Put one table back, with properties and snapshots, as ``copy`` has it; it may have been dropped since. Does
        nothing if ``copy`` lacks it."""

    def rollback(self, table: TableName, back: int) -> None:
        """Make the snapshot current that lies ``back`` commits behind, as Iceberg's rollback does: rows go back; the
        schema stays the table's current one, and its properties stay. At most to the first snapshot."""

    def compact(self, table: TableName) -> None:
        """Another tool's compaction: a commit with the same rows and without a mark in its summary. Properties stay."""

    def expire(self, table: TableName) -> None:
        """Another tool's expiry: every snapshot but the current one is gone with its summary."""

    def insert(self, table: TableName, row: Cells) -> None:
        """Another writer's INSERT of a row (values in normal form): a commit without a mark. Properties stay."""

    def delete(self, table: TableName, at: int) -> None:
        """Another writer's DELETE of the row number ``at`` (modulo their count): a commit without a mark."""

    def drop_column(self, table: TableName, column: str) -> None:
        """Another writer's ALTER TABLE … DROP COLUMN: a change of metadata, no snapshot."""

    def drop(self, table: TableName) -> None:
        """Another writer's DROP TABLE."""

    def create(self, table: Table, rows: Sequence[Cells], required: Collection[str] = ()) -> None:
        """A table that no job made, with rows (values in normal form) and no mark. Replaces one of that name.
        ``required``: columns that hold no NULL."""


class StateFolder(Protocol):
    """The job's state folder."""

    def save(self) -> Copy:
        """Copy every file."""

    def restore(self, copy: Copy) -> None:
        """Put every file back."""


class TableView(msgspec.Struct, frozen=True, kw_only=True):
    """A table as ``ticdc-spark status`` shows it."""

    applied: int
    condition: CONDITIONS
    detail: str = ""
    """Why it is in that condition; what a person reads."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """The job as ``ticdc-spark status`` shows it: from the state folder and the lake, whether it runs or not."""

    applied: int
    """All tables together equal the source at this commit_ts; 0: nothing yet."""
    batch: int = 0
    tables: Mapping[TableName, TableView]
    read: frozenset[str] = frozenset()
    """Topics of which it has read messages."""
    offsets: Mapping[tuple[str, int], int] = {}
    """Where each partition is read on."""
    hold: str = ""
    """What keeps ``applied`` from rising, as status shows it; ``""``: nothing."""
    mode: str = ""
    """``""``: not known yet."""


class Process(Protocol):
    """One process of the job, which holds the lease."""

    def batch(self, most: int) -> bool:
        """Do one batch of at most about ``most`` messages, up to where the topics end now (a run without end).

        Returns whether a batch was committed (``False``: there was nothing to do).

        Raises: TicdcSparkError as the job does; Died. Anything else is a finding.
        """

    def stop(self) -> None:
        """End in order: after a whole batch, or after an error; gives the lease back. May raise what the job raises."""

    def kill(self) -> None:
        """Forget the process between two batches; the lease stays, and its owner counts as gone."""


class Lab(Protocol):
    """The durable things of one story, and the job over them."""

    lake: Lake
    state: StateFolder
    where: str
    """The condition of the rows that the job keeps, of every table; ``""``: it keeps all."""
    lacks: frozenset[MoveKind]
    """Moves that cannot happen here. Stories are told without them."""

    def start(self, setup: JobSetup, owner: int) -> Process:
        """Start a process: take the lease, load the state, open source and sink. ``owner`` distinguishes processes (as
        if each ran on a machine of its own: an owner that is suspended cannot be looked at, only its heartbeat).
        Waiting for the lease passes time by ``Clock.advance``.

        Raises: TicdcSparkError (LeaseHeld while another owner lives), Died.
        """

    def view(self) -> JobView:
        """What status shows now. Reads only."""

    def show(self, database: Database) -> None:
        """Give the job's full reads the source to read from."""

    def rebuild(self, setup: JobSetup, table: TableName) -> None:
        """``ticdc-spark rebuild`` of a table; no process runs. Raises: TicdcSparkError"""

    def repair(self, request: Repair) -> None:
        """``ticdc-spark verify --repair`` of some rows; no process runs."""

    def resume(self, setup: JobSetup, tables: Collection[TableName] | None) -> None:
        """``ticdc-spark resume`` of some quarantined tables, or (``None``) of all; no process runs.

        Raises: TicdcSparkError (a UsageError where nothing is quarantined is harmless).
        """


LabMaker: TypeAlias = Callable[[Broker, Clock, Injector], Lab]
"""Makes the laboratory of one story; empty lake, empty state, free lease."""
