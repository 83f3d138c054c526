"""Turns events of a binlog into transactions and DDLs.

The order is the binlog's, which is the order of the commits. A commit_ts is the time of the commit in the events, or
one above the last commit_ts. It depends only on the state and the binlog, so reading again gives the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, Resolved, Transaction
from ticdc_spark.capture.binlog.group import Group
from ticdc_spark.capture.binlog.position import (
    MariadbGtids,
    MysqlGtids,
    Place,
    Position,
    read_position,
    write_position,
)
from ticdc_spark.capture.binlog.row_events import RowEvents
from ticdc_spark.capture.binlog.server import Facts
from ticdc_spark.capture.binlog.sql_text import executed, is_dml, words
from ticdc_spark.capture.binlog.statements import STEPS, Unfollowed, check_letters, follow_ddl, without_unwanted
from ticdc_spark.capture.binlog.unlogged import Unlogged
from ticdc_spark.capture.binlog.wire.events import (
    ROW_KINDS,
    Event,
    Gtid,
    Kind,
    Query,
    mariadb_gtid,
    mysql_gtid,
    query,
    server_version,
    xa_prepare,
)
from ticdc_spark.capture.binlog.wire.tagged import tagged_gtid
from ticdc_spark.capture.table_ids import follow_ids
from ticdc_spark.ddl import Charset, charsets_after
from ticdc_spark.errors import MessageError, RejectedMessage, SourceChanged, UnsupportedDdl
from ticdc_spark.mysql import tso

_LOG = logging.getLogger(__name__)
_AHEAD = 3600
"""Seconds by which clocks of servers may differ."""


class Assembler:
    """Takes events, gives elements."""

    def __init__(
        self, state: CaptureState, facts: Facts, events: RowEvents, unlogged: Unlogged, skip: frozenset[str]
    ) -> None:
        """``skip``: statements that are not followed, as ``file:offset``."""
        self._facts = facts
        self._events = events
        self._unlogged = unlogged
        self._skip = skip
        self.tables = {table.full_name: table for table in state.tables}
        self._charsets = state.charsets
        self._last_id = state.last_table_id
        self.last = state.commit_ts
        self.position = read_position(state.position)
        self._text = state.position
        self._at = self.begin
        self._given = None if self.position.since is None else self._gtids(self.position.place)
        self._read = self._gtids(self._at)
        self._group: Group | None = None
        self._prepared: dict[str, Group] = {}
        same = self.position.server == facts.identity
        self._seen = (self._at.file, self._at.offset) if same else ("", 0)
        self._created = ("", 0)
        self._is_ahead = False

    @property
    def begin(self) -> Place:
        """The place from which to read the binlog."""
        return self.position.since or self.position.place

    def is_end(self, file: str, offset: int) -> bool:
        """Whether everything before this place was read. A server that waits there has sent all it has."""
        return self._group is None and self._seen == (file, offset)

    def state(self) -> CaptureState:
        """The state after the last element."""
        return CaptureState(
            position=self._text,
            commit_ts=self.last,
            tables=tuple(self.tables.values()),
            last_table_id=self._last_id,
            charsets=self._charsets,
        )

    def resolved(self, at_least: int = 0) -> Resolved:
        """Everything up to now is given. ``at_least``: a TSO of the clock."""
        from_clock = at_least > self.last
        self.last = max(self.last, at_least)
        return Resolved(commit_ts=self.last, position=self._text, from_clock=from_clock)

    def feed(self, event: Event, file: str, origin: int) -> Iterator[Captured]:
        """The elements that an event completes. ``origin``: the server_id in its header.

        Raises: DecisionNeeded of several kinds; each names the place in the binlog.
        """
        self._see(event, file)
        kind = event.kind
        if kind == Kind.FORMAT_DESCRIPTION:
            self._is_made(file, event.timestamp)
            self._facts = self._facts._replace(version=server_version(event) or self._facts.version)
        try:
            if kind in ROW_KINDS or kind == Kind.PARTIAL_UPDATE_ROWS:
                self._rows(event, file, self._current())
            elif kind == Kind.TABLE_MAP:
                self._events.table_map(event)
            elif kind == Kind.MARIADB_GTID:
                self._begin(mariadb_gtid(event, origin), event, file)
            elif kind in (Kind.GTID, Kind.ANONYMOUS_GTID):
                self._begin(mysql_gtid(event), event, file)
            elif kind == Kind.GTID_TAGGED:
                self._begin(tagged_gtid(event), event, file)
            elif kind == Kind.XID:
                yield from self._commit(event, file, self._current())
            elif kind in _QUERIES:
                yield from self._query(event, file)
            elif kind == Kind.XA_PREPARE:
                yield from self._prepare(event, file)
            elif kind in _REFUSED:
                raise SourceChanged(f"binlog {self._where(event, file)}: {_REFUSED[kind]}")
        except MessageError as error:
            raise RejectedMessage(f"binlog {self._where(event, file)}: {error}") from error

    def _see(self, event: Event, file: str) -> None:
        """Note up to which place events were read. The first events are of the file's begin, wherever it resumes."""
        end, (seen, offset) = event.end, self._seen
        if end and (end > offset if file == seen else _order(Place(file, end)) > _order(Place(seen, offset))):
            self._seen = (file, end)

    def _is_made(self, file: str, created: int) -> None:
        """Note that a file begins, or is resumed. Raises: SourceChanged if another file had this name before."""
        before = self.position.created
        same = self.position.server == self._facts.identity and self.position.place.file == file
        if same and before and created != before:
            raise SourceChanged(
                f"{file} was made at {created} (seconds since 1970), and the one that was read at {before}: the binlog "
                "was reset (RESET MASTER), or the server restored. Begin a new changefeed with a snapshot"
            )
        self._created = file, created

    def _where(self, event: Event, file: str) -> str:
        """The place of an event, or of its transaction if its own is unknown."""
        if not event.end and self._group is not None:
            return self._group.where
        return f"{file}:{event.end - event.size}"

    def _gtids(self, place: Place) -> MariadbGtids | MysqlGtids | None:
        if place.gtid is None:
            return None
        return MariadbGtids(place.gtid) if self._facts.mariadb else MysqlGtids(place.gtid)

    def _current(self) -> Group:
        if self._group is None:
            raise MessageError("rows, or an end, outside of a transaction")
        return self._group

    def _begin(self, gtid: Gtid, event: Event, file: str) -> None:
        replayed = False
        if self.position.since is not None:
            if self._given is not None:
                replayed = self._given.has(gtid.text)
            else:
                replayed = _order(self._at) < _order(self.position.place)
        self._group = None
        where = self._where(event, file)
        self._group = Group(self._at, gtid, where, replayed=replayed, done=0 if replayed else self.position.part)
        if gtid.text and self._read is not None:
            self._read.add(gtid.text)

    def _end(self, event: Event, file: str, group: Group) -> None:
        """Note that the group is complete."""
        self._at = Place(file, event.end, None if self._read is None else str(self._read))
        self._group = None
        if not group.replayed:
            self._move(self._at, 0)

    def _move(self, place: Place, part: int) -> None:
        since = next((group.start for group in self._prepared.values()), None)
        created = self._created[1] if self._created[0] == place.file else 0
        self.position = Position(server=self._facts.identity, place=place, part=part, since=since, created=created)
        self._text = write_position(self.position)

    def _timestamp(self, event: Event, group: Group) -> int:
        milliseconds = group.gtid.timestamp_us // 1000 or event.timestamp * 1000
        if milliseconds > (time.time() + _AHEAD) * 1000 and not self._is_ahead:
            self._is_ahead = True
            _LOG.warning(
                "binlog %s: the transaction's time %s is in the future; commitTs follows it, and stays above it",
                self._where(event, self._at.file),
                datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="seconds"),
            )
        self.last = max(tso(milliseconds), self.last + 1)
        return self.last

    def _rows(self, event: Event, file: str, group: Group) -> None:
        try:
            self._events.take(event, group, self.tables, self._where(event, file))
        except MessageError as error:
            # of replayed groups, only prepared transactions are needed; schemas of others may be outdated
            if not group.replayed:
                raise
            group.broken = error

    # ----- ends of transactions

    def _commit(self, event: Event, file: str, group: Group, prepared: Group | None = None) -> Iterator[Captured]:
        """Give a transaction. ``prepared``: the one whose rows are given, if not the group itself."""
        given = group.replayed or group.elements < group.done
        rows = prepared or group
        self._end(event, file, group)
        if rows.broken is not None and not given:
            raise rows.broken
        if rows.rows and not given:
            commit_ts = self._timestamp(event, group)
            yield Transaction(commit_ts=commit_ts, changes=rows.changes(commit_ts), position=self._text)

    def _prepare(self, event: Event, file: str) -> Iterator[Captured]:
        group = self._current()
        xid, one_phase = xa_prepare(event)
        if one_phase:
            yield from self._commit(event, file, group)
        else:
            self._prepared[xid] = group
            self._end(event, file, group)

    def _decide(self, event: Event, file: str, group: Group, sql: str) -> Iterator[Captured]:
        """XA COMMIT or XA ROLLBACK, in its own group."""
        _, decision, xid = sql.split(None, 2)
        xid = xid.strip().rstrip(";")
        prepared = self._prepared.pop(xid, None)
        if decision.lower() == "rollback":
            self._end(event, file, group)
        elif prepared is None and not group.replayed:
            raise SourceChanged(
                f"binlog {self._where(event, file)}: XA COMMIT {xid} of a transaction that was prepared before the "
                "changefeed began: its rows are missing. Begin a new changefeed with a snapshot of its tables"
            )
        else:
            yield from self._commit(event, file, group, prepared or group)

    # ----- statements

    def _query(self, event: Event, file: str) -> Iterator[Captured]:
        found = query(event)
        sql = executed(self._facts.charsets.text(found.sql, found.charset), found.sql_mode, mariadb=self._facts.mariadb)
        if self._group is None:
            self._begin(Gtid("", False, 0), event, file)  # MySQL before 5.7 has no GTID events where they are off
        group = self._current()
        start = words(sql)
        if start == "begin" or start.startswith("xa start "):
            group.open = True
        elif start == "commit":
            yield from self._commit(event, file, group)
        elif start == "rollback":
            self._end(event, file, group)
        elif start.startswith("savepoint "):
            group.savepoints[savepoint(sql.split(None, 1)[1])] = len(group.rows)
        elif start.startswith("rollback to "):
            _roll_back_to(group, sql)
        elif start.startswith(("xa commit ", "xa rollback ")):
            yield from self._decide(event, file, group, sql)
        elif start.startswith("xa "):
            return  # XA END; the end has its own event
        elif is_dml(sql):
            self._pass_over(found, sql, self._where(event, file))
            if not group.open and (group.gtid.standalone or not self._facts.mariadb):
                self._end(event, file, group)
        else:
            yield from self._ddl(event, file, group, found, sql)

    def _pass_over(self, found: Query, sql: str, where: str) -> None:
        """Skip a statement that was logged instead of rows. Raises: MessageError if it may change captured tables"""
        if self._current().replayed or where in self._skip:
            return
        if why := self._unlogged.why_not(found, sql):
            raise MessageError(
                f"a statement that changes rows was logged instead of the rows, and {why}: {sql[:200]!r}. A session "
                "has changed binlog_format, which must be ROW. Begin a new changefeed with a snapshot of its tables; "
                f"or, if the statement changes no captured table, write skip={where} in source-uri"
            )

    def _ddl(self, event: Event, file: str, group: Group, found: Query, sql: str) -> Iterator[Captured]:
        self._unlogged.forget()
        ends = group.gtid.standalone if self._facts.mariadb else not group.open
        where = self._where(event, file)
        charsets = {**self._charsets}
        if found.database_charset is not None:
            charsets[found.schema] = Charset(*self._facts.charsets.names(found.database_charset), False)
        for step in range(STEPS):
            at = group.elements
            group.elements += 1
            if group.replayed or group.gtid.alter or at < group.done or where in self._skip:
                continue
            try:
                after = follow_ddl(step, self.tables, found, sql, charsets=charsets, facts=self._facts)
                check_letters(after, self.tables, self._events.wanted, self._facts.names)
            except Unfollowed as error:
                left = without_unwanted(self.tables, found, sql, self._events.wanted, self._facts.names)
                if left is not None:
                    self.tables = left
                    continue
                raise UnsupportedDdl(
                    f"binlog {where}: {sql[:500]!r} is not followed: {error}. Begin a new changefeed with the "
                    f"present tables; or, if it changes no captured table, write skip={where} in source-uri"
                ) from error
            commit_ts = self._timestamp(event, group) if after.changes else 0
            changes, tables, self._last_id = follow_ids(after.changes, after.tables, commit_ts, self._last_id)
            if tables != self.tables:
                self.tables = tables
                self._events.forget()
            self._charsets = charsets_after(self._charsets, changes)
            if changes:
                if ends and step == STEPS - 1:
                    self._end(event, file, group)
                else:
                    self._move(group.start, at + 1)
                yield CapturedDdl(commit_ts=commit_ts, changes=changes, position=self._text)
        if ends and self._group is not None:
            self._end(event, file, group)


def _roll_back_to(group: Group, sql: str) -> None:
    name = savepoint(sql.split(None, 2)[2])
    if name not in group.savepoints:
        raise MessageError(f"ROLLBACK TO a savepoint that was not set: {sql[:200]!r}")
    del group.rows[group.savepoints[name] :]


def savepoint(text: str) -> str:
    """The name of a savepoint. Case does not matter. It is logged with or without quotes."""
    name = text.strip().rstrip(";").strip()
    if name.lower().startswith("savepoint "):
        name = name[10:].strip()
    return (name[1:-1].replace("``", "`") if name[:1] == "`" else name).lower()


def _order(place: Place) -> tuple[int, str, int]:
    """Sort key of a place. Files are numbered; from 1,000,000 on, the numbers are longer."""
    number = place.file.rpartition(".")[2]
    return (int(number) if number.isdigit() else 0, place.file, place.offset)


_OLD_ROWS = "row events of MySQL 5.1, which are not read"
_QUERIES = (Kind.QUERY, Kind.QUERY_COMPRESSED, Kind.EXECUTE_LOAD_QUERY)
_REFUSED = {
    int(Kind.WRITE_ROWS_0): _OLD_ROWS,
    int(Kind.UPDATE_ROWS_0): _OLD_ROWS,
    int(Kind.DELETE_ROWS_0): _OLD_ROWS,
    int(Kind.INCIDENT): "the server reports lost events (INCIDENT); begin a new changefeed with a snapshot",
}
