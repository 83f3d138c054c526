"""History tables: a second table beside a table, with all its changes. It only grows. See ``docs/how-to/history.md``.

A history has its own mark, which is never behind the mark of its table: each change is first written here, then to
the table. After a crash between the two, the job finds the change here and skips it. If a history is behind its
table, it was not written for a while. Before the next change, it gets a row ``R`` and all rows of the table, and
continues from there. A full read brings the same two: ``R``, and the rows that it gathered.

No row of a history changes. A column that a DDL drops is kept. A column that gets another type is renamed, and a new
one is added.
"""

import logging
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ticdc_spark import failpoints
from ticdc_spark.changes.events import ENDED, HISTORY, INSERT, MOVED_OUT, REPLACED, SNAPSHOT
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.histories import histories
from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.names import aside_of, shortened
from ticdc_spark.sinks.appends import Appended, Events, Marker, RowsOf, history_columns
from ticdc_spark.sinks.base import ColumnChanges, Sink, Stamp, TableFound
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.mark import NO_MARK, ROWS_APPENDED, ROWS_MERGED, Mark
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
_OURS = "_ticdc_"
"""Prefix of columns that the job adds to a table for a while, and that its source never has."""
_LONGEST = 36
"""Characters of the column's own name in a longer name: MySQL's names have 64 at most."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What the stamp of a history table says about it."""

    schema: str
    """The name of its table at the source."""
    name: str
    history: bool = False
    """``False``: not a history, but one of the job's tables."""
    moved: bool = False
    """The history is empty: a RENAME moved its rows to another name."""


class Open(msgspec.Struct, frozen=True):
    """The current state of a history."""

    place: TableName
    mark: Mark
    snapshot: int | None


class ChangeHistory:
    """The history tables of a job. Its methods take the source's names of tables."""

    def __init__(self, sink: Sink, job: Job) -> None:
        """``sink`` uses the target's names."""
        self._sink, self._job = sink, job.name
        self._rules, self._held = histories(job.histories), compiled(job.routes).target

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        """Create the history of a new table, unless an earlier table of that name left one."""
        place = self._rules.of(table)
        if place is None:
            return
        if self._sink.find(place) is None:
            _stop_if_taken(table, ColumnChanges(add=tuple(columns)))
            mine = (*history_columns(self._sink.types), *(replace(column, key=False) for column in columns))
            self._sink.create(place, mine, self._stamp(table, stamp, None))
            failpoints.point("history")
        else:
            self.change_columns(table, ColumnChanges(add=tuple(columns)), stamp)

    def note_events(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        """Append every change that the history does not have yet."""
        now = self._open(table, changes.columns)
        if now is None or not (changes.is_late or now.mark < stamp.mark):
            return
        now = self._fit(table, now, ColumnChanges(add=changes.columns), replace(stamp, mark=now.mark))
        above = stamp.applied_before if changes.is_late else now.mark[0]
        events = Events(changes, max(above, 0), unless_there=changes.is_late)
        self._append(table, now, events, replace(stamp, mark=max(now.mark, stamp.mark)))

    def refuse_counts(self, table: TableName) -> None:
        """Refuse the changes of a table without a key: equal rows cannot be distinguished. Raises: DecisionNeeded"""
        if self._rules.of(table) is not None:
            raise DecisionNeeded(
                f"{shown(table)} has no key, so its changes cannot be kept in a history. Exclude the table from "
                "`tables` under [[history]]"
            )

    def note(self, table: TableName, op: str, stamp: Stamp) -> None:
        """Append a row that describes all rows."""
        if (now := self._open(table, None)) is not None and now.mark < stamp.mark:
            self._append(table, now, Marker(op, stamp.mark[0]), stamp)

    def take_rows(self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp) -> None:
        """Append the rows that arrive from another table, as inserts."""
        if (now := self._open(table, columns)) is not None and now.mark < stamp.mark:
            now = self._fit(table, now, ColumnChanges(add=tuple(columns)), replace(stamp, mark=now.mark))
            self._append_rows(table, now, RowsOf(op=INSERT, commit_ts=stamp.mark[0], source=source, columns=()), stamp)

    def note_moved(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        """Append the current rows of a partition that is removed."""
        if (now := self._current(table)) is not None and now.mark < stamp.mark:
            gone = RowsOf(op=MOVED_OUT, commit_ts=stamp.mark[0], source=table, columns=(), where=where)
            self._append_rows(table, now, gone, stamp)

    def note_read(self, table: TableName, stamp: Stamp) -> None:
        """Append the rows that a full read has gathered, before they replace all rows of the table."""
        if (now := self._current(table)) is not None and now.mark < stamp.mark:
            self._append_rows(table, now, replace(_all_of(table, stamp.mark), gathered=True), stamp)

    def _append_rows(self, table: TableName, now: Open, rows: RowsOf, stamp: Stamp) -> None:
        """``rows``: with the source's name of their table, and without columns: they get all that both tables have."""
        held = self._held(rows.source)
        mine, theirs = self._sink.columns(now.place), self._sink.columns(held)
        names = tuple(name for name, kind in theirs.items() if mine.get(name) == kind)
        differ = [name for name, kind in theirs.items() if mine.get(name, kind) != kind]
        if differ:  # without them, the rows would have NULL there
            other = (f"`{name}` ({theirs[name]}, there {mine[name]})" for name in differ)
            raise DecisionNeeded(
                f"{shown(held)} has columns of other types than its history {shown(now.place)}, which cannot take its "
                f"rows: {', '.join(other)}. Give the table the source's types, or exclude it under [[history]]"
            )
        self._append(table, now, replace(rows, source=held, columns=names), stamp)

    def advance(self, table: TableName, stamp: Stamp) -> None:
        """Record a step of the table that changes nothing in its history."""
        if (now := self._current(table)) is not None and now.mark < stamp.mark:
            self._append(table, now, None, stamp)

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        """Rename and add columns; dropped columns stay."""
        if (now := self._current(table)) is not None and now.mark < stamp.mark:
            self._fit(table, now, changes, stamp)
            self.advance(table, stamp)

    def rename(self, old: TableName, new: TableName) -> None:
        """Rename the history of a table with the table.

        An empty history stays under the old name. Its mark lets a restart skip what came before. If an earlier table
        with the new name left a history, that history is renamed.
        """
        place = self._rules.of(old)
        found = None if place is None else self._sink.find(place)
        mark = self._mark_of_table(old)
        if place is None:
            return
        target = self._rules.of(new)
        if aside_of(new[1])[0] == old[1] or target is None:
            # The history ends: the table is renamed away for another table of its name, or no rule covers its new name.
            if found is not None:
                self.note(old, ENDED, Stamp(self._job, (mark[0], mark[1] + 1), mark[0]))
            return
        if target == place or (found is not None and _about(found).moved):
            return
        if found is not None:
            # Without its rows, a restart would take the table for one that has no history yet.
            self._sink.flush(self._held(old))
            there = self._sink.find(target)
            if there is not None and _about(there).moved:
                self._sink.drop(target)
            elif there is not None:
                self._sink.rename(target, (target[0], f"{shortened(target[1], _LONGEST)}_until_{mark[0]}"))
            failpoints.point("history")
            self._sink.rename(place, target)
            failpoints.point("history")
        left = self._stamp(old, Stamp(self._job, mark, mark[0]), None, moved=True)
        self._sink.create(place, history_columns(self._sink.types), left)
        failpoints.point("history")

    def place(self, table: TableName) -> TableName | None:
        """The name of a table's history; ``None``: it has none."""
        place = self._rules.of(table)
        return None if place is None or self._sink.find(place) is None else place

    def is_one(self, held: TableName) -> bool:
        """Whether a table in the target is a history."""
        found = self._sink.find(held)
        return found is not None and _about(found).history

    def _current(self, table: TableName) -> Open | None:
        """The history of a table; ``None``: there is none, or it is behind. Then it begins or continues with the rows
        that the table has before it next changes."""
        place = self._rules.of(table)
        found = None if place is None else self._sink.find(place)
        if place is None or found is None:
            return None
        now = self._read(table, place, found)
        return None if now.mark < self._mark_of_table(table) else now

    def _open(self, table: TableName, columns: Sequence[LakeColumn] | None) -> Open | None:
        """The history of a table; it is created if missing, and gets the table's rows if it was not written for a
        while.

        ``columns``: of the table; ``None``: all its rows end, so they are not needed.
        ``None``: the rules give the table no history.
        """
        place = self._rules.of(table)
        if place is None:
            return None
        found, at = self._sink.find(place), self._mark_of_table(table)
        if found is None:
            first = self._stamp(table, Stamp(self._job, NO_MARK, 0), None)
            self._sink.create(place, history_columns(self._sink.types), first)
            failpoints.point("history")
            found = self._sink.find(place)
        now = self._read(table, place, found)
        if now.mark < at:
            if now.mark != NO_MARK:
                log.warning(
                    "%s, the history of %s, was not written since %d: a row R says so",
                    shown(place),
                    shown(table),
                    now.mark[0],
                )
            stamp = Stamp(self._job, at, at[0])
            if columns is None:
                self._append(table, now, Marker(REPLACED, max(at[0], 0)), stamp)
            else:
                now = self._fit(table, now, ColumnChanges(add=tuple(columns)), replace(stamp, mark=now.mark))
                self._append_rows(table, now, _all_of(table, at), stamp)
            now = self._read(table, place, self._sink.find(place))
        return now

    def _read(self, table: TableName, place: TableName, found: TableFound | None) -> Open:
        assert found is not None, "it was made"
        if found.stamp is None or found.stamp.job != self._job or not _about(found).history:
            raise DecisionNeeded(
                f"the target has a table {shown(place)}, which is not the history of {shown(table)}: rename or drop "
                "it, or give the history another name with `target` under [[history]]"
            )
        return Open(place, found.stamp.mark, found.snapshot)

    def _mark_of_table(self, table: TableName) -> Mark:
        found = self._sink.find(self._held(table))
        if found is None:
            return NO_MARK
        if found.stamp is None or found.stamp.job != self._job:
            return (0, 0)
        if found.stamp.mark[1] == ROWS_APPENDED:
            # Only the new keys of these changes are there: the history takes all of them after the rows.
            return (found.stamp.applied_before, ROWS_MERGED)
        return found.stamp.mark

    def _append(self, table: TableName, now: Open, what: Appended, stamp: Stamp) -> None:
        self._sink.append(now.place, what, self._stamp(table, stamp, now.snapshot), self._held(table))
        failpoints.point("history")

    def _fit(self, table: TableName, now: Open, changes: ColumnChanges, stamp: Stamp) -> Open:
        """Add and rename columns, so that the history can hold the rows that follow. Returns: the history after it"""
        _stop_if_taken(table, changes)
        wanted = _fitting(self._sink, now.place, changes, stamp.mark[0])
        if wanted:
            self._sink.change_columns(now.place, wanted, self._stamp(table, stamp, now.snapshot))
            failpoints.point("history")
            return self._read(table, now.place, self._sink.find(now.place))
        return now

    def _stamp(self, table: TableName, stamp: Stamp, seen: int | None, *, moved: bool = False) -> Stamp:
        about = About(schema=table[0], name=table[1], history=True, moved=moved)
        return replace(stamp, about=msgspec.json.encode(about).decode(), seen=seen)


def _all_of(table: TableName, mark: Mark) -> RowsOf:
    """All rows that a table has at a mark, after a row that says so."""
    return RowsOf(op=SNAPSHOT, commit_ts=max(mark[0], 0), source=table, columns=(), marker=REPLACED)


def _about(found: TableFound) -> About:
    about = "" if found.stamp is None else found.stamp.about
    return msgspec.json.decode(about.encode(), type=About) if about else About(schema="", name="")


def _stop_if_taken(table: TableName, changes: ColumnChanges) -> None:
    brought = [*((column.source, column.name) for column in changes.add), *((new, new) for _, new in changes.rename)]
    taken = [source for source, name in brought if name.casefold() in HISTORY]
    if taken:
        raise UsageError(
            f"{shown(table)} has a column `{taken[0]}`, a name that every history uses: give the column another name "
            "with `rename-columns` under [[route]], or exclude the table under [[history]]"
        )


def _fitting(sink: Sink, place: TableName, changes: ColumnChanges, ts: int) -> ColumnChanges:
    """The changes by which a history gets its table's new columns."""
    have = sink.columns(place)
    held = {name.casefold(): name for name in have}
    rename = {
        held[old.casefold()]: new
        for old, new in changes.rename
        if old.casefold() in held and not (old.startswith(_OURS) or new.startswith(_OURS))
    }
    for new in list(rename.values()):
        there = held.get(new.casefold())
        if there is not None and there not in rename:
            rename[there] = _aside(there, ts, have)
    kinds = {rename.get(name, name): kind for name, kind in have.items()}
    held = {name.casefold(): name for name in kinds}
    origin = {rename.get(name, name): name for name in have}
    add: list[LakeColumn] = []
    promote: list[LakeColumn] = []
    for column in (*changes.add, *changes.promote):
        there, mine = held.get(column.name.casefold()), replace(column, key=False)
        if there is None:
            add.append(mine)
            continue
        is_same = kinds[there] == column.type.name
        if not is_same and not sink.types.widens(kinds[there], column.type.name):
            rename[origin[there]] = _aside(there, ts, have)
            add.append(mine)
            continue
        if there != column.name:
            rename[origin[there]] = column.name
        if not is_same:
            promote.append(mine)
    return ColumnChanges(rename=tuple(rename.items()), add=tuple(add), promote=tuple(promote))


def _aside(name: str, ts: int, have: Mapping[str, str]) -> str:
    found = f"{shortened(name, _LONGEST)}_until_{ts}"
    while found.casefold() in {one.casefold() for one in have}:
        found += "_"
    return found
