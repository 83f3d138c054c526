"""Events of a binlog into transactions and DDLs.

The order is the binlog's, which is the order of the commits. A commit_ts is the commit's time, as the events have it,
or one above the last: a function of the state and the binlog alone, so that reading again gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec.structs import replace

from ticdc_spark.capture.base import Captured, CapturedDdl, CaptureState, Resolved, Transaction
from ticdc_spark.capture.binlog.group import Group, Prepared, Rows
from ticdc_spark.capture.binlog.position import (
    MariadbGtids,
    MysqlGtids,
    Place,
    Position,
    read_position,
    write_position,
)
from ticdc_spark.capture.binlog.schemas import SYSTEM_SCHEMAS
from ticdc_spark.capture.binlog.statements import STEPS, Unfollowed, follow_ddl, is_dml, words
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.capture.binlog.values.rows import RowReader
from ticdc_spark.capture.binlog.wire.events import (
    ROW_KINDS,
    Event,
    Gtid,
    Kind,
    Query,
    mariadb_gtid,
    mysql_gtid,
    query,
    rows_head,
    table_id_of,
)
from ticdc_spark.capture.binlog.wire.table_map import TableMap, table_map
from ticdc_spark.ddl import Charset
from ticdc_spark.errors import DecisionNeeded, MessageError, RejectedMessage, SourceChanged, UnsupportedDdl
from ticdc_spark.model import RowChange, Table
from ticdc_spark.mysql import tso

Wanted: TypeAlias = Callable[[str, str], bool]


class Assembler:
    """Takes events in, gives elements."""

    def __init__(
        self,
        state: CaptureState,
        *,
        mariadb: bool,
        charsets: Charsets,
        wanted: Wanted,
        max_bytes: int,
        skip: frozenset[str] = frozenset(),
    ) -> None:
        self._mariadb = mariadb
        self._charsets = charsets
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._skip = skip
        self.tables = {(table.schema, table.name): table for table in state.tables}
        self.last = state.commit_ts
        self.position = read_position(state.position)
        self._text = state.position
        place = self.position.since or self.position.place
        self._known = None if self.position.since is None else self._gtids(self.position.place)
        self._read = self._gtids(place)
        self._at = place
        self._group: Group | None = None
        self._prepared: dict[str, Prepared] = {}
        self._maps: dict[int, tuple[bytes, TableMap]] = {}
        self._readers: dict[bytes, RowReader | None] = {}
        self.seen = (place.file, 0)
        """File and offset behind the last event."""

    @property
    def begin(self) -> Place:
        """Where the binlog has to be read from."""
        return self.position.since or self.position.place

    @property
    def idle(self) -> bool:
        """Between two groups."""
        return self._group is None

    def state(self) -> CaptureState:
        """After the last element."""
        return CaptureState(position=self._text, commit_ts=self.last, tables=tuple(self.tables.values()))

    def resolved(self, at_least: int = 0) -> Resolved:
        """Everything up to now; ``at_least`` is a TSO of the clock."""
        from_clock = at_least > self.last
        self.last = max(self.last, at_least)
        return Resolved(commit_ts=self.last, position=self._text, from_clock=from_clock)

    def feed(self, event: Event, file: str, origin: int) -> Iterator[Captured]:
        """The elements that an event completes. ``origin``: the server_id in its header.

        Raises: DecisionNeeded of several kinds; each names the place in the binlog.
        """
        if event.end:
            self.seen = (file, event.end)
        kind = event.kind
        try:
            if kind in ROW_KINDS:
                self._rows(event, file)
            elif kind == Kind.TABLE_MAP:
                self._table_map(event)
            elif kind == Kind.MARIADB_GTID:
                self._begin(event, mariadb_gtid(event, origin), file)
            elif kind in (Kind.GTID, Kind.ANONYMOUS_GTID):
                self._begin(event, mysql_gtid(event), file)
            elif kind == Kind.XID:
                yield from self._commit(event, file)
            elif kind in (Kind.QUERY, Kind.QUERY_COMPRESSED):
                yield from self._query(event, file)
            elif kind in _REFUSED:
                raise SourceChanged(f"binlog {self._where(event, file)}: {_REFUSED[kind]}")
        except MessageError as error:
            raise RejectedMessage(f"binlog {self._where(event, file)}: {error}") from error

    def _where(self, event: Event, file: str) -> str:
        if event.end:
            return f"{file}:{event.end - event.size}"
        return f"{file}, in the transaction that begins at {self._at.offset}"

    def _gtids(self, place: Place) -> MariadbGtids | MysqlGtids | None:
        if place.gtid is None:
            return None
        return MariadbGtids(place.gtid) if self._mariadb else MysqlGtids(place.gtid)

    # ----- groups

    def _begin(self, event: Event, gtid: Gtid, file: str) -> None:
        self._group = self._new_group(gtid)
        if gtid.text and self._read is not None:
            self._read.add(gtid.text)

    def _new_group(self, gtid: Gtid) -> Group:
        replayed = False
        if self.position.since is not None:
            replayed = self._is_replay(gtid)
        part = 0 if replayed else self.position.part
        return Group(self._at, gtid, replayed=replayed, done=part)

    def _is_replay(self, gtid: Gtid) -> bool:
        if self._known is not None:
            return self._known.has(gtid.text)
        place = self.position.place
        return _order(self._at) < _order(place)

    def _end(self, event: Event, file: str) -> None:
        """The group is complete."""
        group = self._group
        self._at = Place(file, event.end, None if self._read is None else str(self._read))
        self._group = None
        if group is None or not group.replayed:
            self._move(self._at, 0)

    def _move(self, place: Place, part: int) -> None:
        since = next((one.start for one in self._prepared.values()), None)
        self.position = Position(server=self.position.server, place=place, part=part, since=since)
        self._text = write_position(self.position)

    def _timestamp(self, event: Event, group: Group) -> int:
        milliseconds = group.gtid.timestamp_us // 1000 or event.timestamp * 1000
        self.last = max(tso(milliseconds), self.last + 1)
        return self.last

    # ----- rows

    def _table_map(self, event: Event) -> None:
        body = event.body
        table_id = table_id_of(event)
        known = self._maps.get(table_id)
        if known is None or known[0] != body:
            self._maps[table_id] = body, table_map(body, mariadb=self._mariadb)[1]

    def _rows(self, event: Event, file: str) -> None:
        group = self._group
        if group is None:
            raise MessageError("rows outside of a transaction")
        head_id = table_id_of(event)
        if head_id not in self._maps:
            if head_id == 0xFFFFFF:
                return  # the empty event that ends a statement
            raise MessageError(f"rows of table id {head_id}, which no table map names")
        body, wire = self._maps[head_id]
        key = body[8:]
        if key in self._readers:
            reader = self._readers[key]
        else:
            reader = self._readers[key] = self._reader(wire)
        if reader is None or (group.replayed and not group.xid):
            return
        group.size += event.size
        if group.size > self._max_bytes:
            raise DecisionNeeded(
                f"binlog {self._where(event, file)}: the transaction has more than {self._max_bytes:,} bytes of rows; "
                "raise max-transaction-bytes in source-uri"
            )
        head = rows_head(event)
        if not head.whole:
            raise MessageError(
                f"a row of `{wire.schema}`.`{wire.name}` without all its columns: a session has changed "
                "binlog_row_image, which must be FULL"
            )
        group.rows.append(Rows(reader, ROW_KINDS[event.kind], head.rows, self._where(event, file)))

    def _reader(self, wire: TableMap) -> RowReader | None:
        if wire.schema.lower() in SYSTEM_SCHEMAS or not self._wanted(wire.schema, wire.name):
            return None
        table = self.tables.get((wire.schema, wire.name)) or self._by_lower(wire.schema, wire.name)
        if table is None:
            raise MessageError(
                f"rows of `{wire.schema}`.`{wire.name}`, whose schema is not known: its CREATE TABLE is not in the "
                "binlog (sql_log_bin=0?). Begin the changefeed anew, or leave the table out by its filter"
            )
        return RowReader(table, wire, self._charsets)

    def _by_lower(self, schema: str, name: str) -> Table | None:
        wanted = (schema.lower(), name.lower())
        return next((table for (one, two), table in self.tables.items() if (one.lower(), two.lower()) == wanted), None)

    # ----- ends

    def _commit(self, event: Event, file: str) -> Iterator[Captured]:
        group = self._group
        if group is None:
            raise MessageError("the end of a transaction that did not begin")
        rows = group.rows
        yield from self._give_rows(event, file, group, rows)

    def _give_rows(self, event: Event, file: str, group: Group, rows: list[Rows]) -> Iterator[Captured]:
        given = group.replayed or group.elements < group.done
        self._end(event, file)
        if given or not rows:
            return
        commit_ts = self._timestamp(event, group)
        changes: list[RowChange] = []
        for one in rows:
            try:
                changes.extend(one.reader.changes(one.op, one.data, commit_ts))
            except MessageError as error:
                raise RejectedMessage(f"binlog {one.where}: {error}") from error
        yield Transaction(commit_ts=commit_ts, changes=tuple(changes), position=self._text)

    def _query(self, event: Event, file: str) -> Iterator[Captured]:
        found = query(event)
        sql = self._charsets.text(found.sql, found.charset)
        group = self._group
        if group is None:  # MySQL before 5.7, which has no GTID events where they are off
            group = self._group = self._new_group(Gtid("", False, 0))
        start = words(sql)
        if start == "begin":
            group.open = True
        elif start == "commit":
            yield from self._commit(event, file)
        elif start == "rollback":
            self._end(event, file)
        elif start.startswith("savepoint "):
            group.savepoints[sql.split(None, 1)[1].strip()] = len(group.rows)
        elif start.startswith("rollback to "):
            self._roll_back_to(group, sql)
        elif is_dml(sql):
            if self._is_system(found.schema):
                return
            raise MessageError(
                f"a statement that changes rows instead of the rows: {sql[:200]!r}. A session has changed "
                "binlog_format, which must be ROW"
            )
        else:
            yield from self._ddl(event, file, group, found, sql)

    def _roll_back_to(self, group: Group, sql: str) -> None:
        name = sql.split(None, 2)[2].strip()
        if name.lower().startswith("savepoint "):
            name = name[10:].strip()
        if name not in group.savepoints:
            raise MessageError(f"ROLLBACK TO a savepoint that was not set: {sql[:200]!r}")
        del group.rows[group.savepoints[name] :]

    def _is_system(self, schema: str) -> bool:
        return schema.lower() in SYSTEM_SCHEMAS

    # ----- DDL

    def _ddl(self, event: Event, file: str, group: Group, found: Query, sql: str) -> Iterator[Captured]:
        ends = not group.open if not self._mariadb else group.gtid.standalone
        ignored = group.replayed or bool(group.gtid.alter)
        where = self._where(event, file)
        for step in range(STEPS):
            at = group.elements
            group.elements += 1
            if ignored or at < group.done:
                continue
            try:
                after = follow_ddl(
                    step,
                    self.tables,
                    found.schema,
                    sql,
                    charset=self._default_charset(found),
                    sql_mode=found.sql_mode,
                    mariadb=self._mariadb,
                )
            except Unfollowed as error:
                if where in self._skip:
                    break
                raise UnsupportedDdl(
                    f"binlog {where}: {sql[:500]!r} is not followed: {error}. Begin the changefeed anew with the "
                    f"tables as they are now; or, if it changes none that is captured, write skip={where} in source-uri"
                ) from error
            if dict(after.tables) != self.tables:
                self.tables = dict(after.tables)
                self._readers.clear()
            if after.changes:
                commit_ts = self._timestamp(event, group)
                if ends and step == STEPS - 1:
                    self._end(event, file)
                else:
                    self._move(group.start, at + 1)
                changes = tuple(replace(change, commit_ts=commit_ts) for change in after.changes)
                yield CapturedDdl(commit_ts=commit_ts, changes=changes, position=self._text)
        if ends and self._group is not None:
            self._end(event, file)

    def _default_charset(self, found: Query) -> Charset | None:
        if found.database_charset is None:
            return None
        charset, collate = self._charsets.names(found.database_charset)
        return Charset(charset, collate, False)


def _order(place: Place) -> tuple[int, str, int]:
    """Files are numbered; from 1,000,000 on the numbers are longer."""
    number = place.file.rpartition(".")[2]
    return (int(number) if number.isdigit() else 0, place.file, place.offset)


_REFUSED = {
    int(Kind.WRITE_ROWS_0): "row events of MySQL 5.1, which are not read",
    int(Kind.UPDATE_ROWS_0): "row events of MySQL 5.1, which are not read",
    int(Kind.DELETE_ROWS_0): "row events of MySQL 5.1, which are not read",
    int(Kind.INCIDENT): "the server reports lost events (INCIDENT); begin the changefeed anew with a snapshot",
    int(Kind.PARTIAL_UPDATE_ROWS): "rows with parts of JSON: binlog_row_value_options must be empty",
    int(Kind.GTID_TAGGED): "a GTID with a tag, which is not read",
    int(Kind.BEGIN_LOAD_QUERY): "LOAD DATA as a statement; binlog_format must be ROW",
    int(Kind.EXECUTE_LOAD_QUERY): "LOAD DATA as a statement; binlog_format must be ROW",
    int(Kind.MARIADB_START_ENCRYPTION): "",
}
del _REFUSED[int(Kind.MARIADB_START_ENCRYPTION)]
