"""The present tables of a server whose binlog is read: their schemas, ranges of their keys, the rows of a range.

A range is read by one SELECT in its own transaction. Its rows have the same values as in the binlog.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from ticdc_spark.capture.binlog.connection import Connection, pymysql, wrapped
from ticdc_spark.capture.binlog.position import read_position
from ticdc_spark.capture.binlog.schemas import presented
from ticdc_spark.capture.binlog.server import now_ms, read_facts
from ticdc_spark.capture.binlog.since import statements_since
from ticdc_spark.capture.binlog.uri import ServerUri, parse_uri
from ticdc_spark.capture.snapshot.identity import UNTOLD, cure, named_by, table_identity
from ticdc_spark.capture.snapshot.keys import (
    ALTERED,
    GONE,
    MARGIN_MS,
    Key,
    KeyedTable,
    Range,
    condition,
    key_text,
    next_ranges,
    plain_create,
)
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.clients.mysql_rows import RowStream
from ticdc_spark.clients.mysql_texts import raw_readers, selected_raw
from ticdc_spark.clients.upstream import CellReader, cell_reader
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError, SourceFault, UsageError
from ticdc_spark.model import Column, ColumnType, Row, Table, TableName
from ticdc_spark.mysql import INTEGER_BITS, handle_key, is_bytes, is_text, tso
from ticdc_spark.spark.tasks import SourceMoved

_VERSIONED = re.compile(r"\bWITH SYSTEM VERSIONING\b")
_AT_ONCE = 2000
_LONG = "SET SESSION net_write_timeout = 3600, SESSION net_read_timeout = 3600"
"""Long timeouts, as the reader may wait for Kafka."""


class Present(msgspec.Struct, frozen=True):
    """A present table."""

    table: Table
    create: str
    """Its CREATE statement, without the parts that INSERT changes."""
    foreign: frozenset[str] = frozenset()
    """Columns of another type at the server, which it sends as text."""
    identity: str = ""
    """The table's identity, whatever its name (``identity``)."""


class PresentTables(Protocol):
    """Reads facts about present tables. Not safe to share between threads."""

    def check(self) -> None:
        """Check that the server shows which table has a name. Raises: UsageError if it does not; SourceFault"""

    def look(self, name: TableName) -> Present | None:
        """A table; ``None``: there is none.

        Raises: SourceFault; UsageError for a missing grant; MessageError for a CREATE that cannot be read
        """

    def identities(self, position: str, names: Sequence[TableName]) -> Mapping[TableName, str]:
        """``Present.identity`` of the tables that had these names at a position of the source. Names in DDL after the
        position are omitted, as their identity is unknown. Raises: SourceFault; UsageError for a missing grant
        """

    def estimate(self, name: TableName) -> int:
        """About how many rows it has; 0: unknown. Raises: SourceFault"""

    def now(self) -> int:
        """A commit_ts that no row that can be read now is above. Raises: SourceFault"""

    def ranges(self, found: Present, upto: str, rows: int, count: int) -> Sequence[Range]:
        """The next ranges after the key ``upto`` (text of ``keys``; ``""``: from the first), each of about ``rows``
        rows. The table's last range has no end. Raises: SourceFault; SourceMoved"""

    def close(self) -> None:
        """Close connections."""


class ServerTables:
    """``PresentTables`` of a server."""

    def __init__(self, uri: str) -> None:
        """Does not connect yet. Raises: UsageError"""
        self._server = parse_uri(uri)
        self._connection: Connection | None = None

    def look(self, name: TableName) -> Present | None:
        connection = self._connected()
        try:
            with _locked(connection, name):
                found = connection.rows(f"SHOW CREATE TABLE {_sql_name(name)}")
                identity = self._identity(connection, name)
        except SourceFault as fault:
            if _code(fault) in GONE:
                return None
            raise
        return _present(str(found[0][1]), name, identity)

    def check(self) -> None:
        self._identity(self._connected(), ("", ""))

    def identities(self, position: str, names: Sequence[TableName]) -> Mapping[TableName, str]:
        connection, found = self._connected(), {}
        for name in names:
            try:
                with _locked(connection, name):
                    found[name] = self._identity(connection, name)
            except SourceFault as fault:
                if _code(fault) not in GONE:
                    raise
        facts = read_facts(connection, self._server)
        server_id = self._server.server_id or random.randrange(1 << 30, 1 << 31)
        for sql in statements_since(self._server, read_position(position).place, server_id, facts):
            found = {name: identity for name, identity in found.items() if not named_by(sql, name)}
        return found

    def estimate(self, name: TableName) -> int:
        found = self._connected().rows(
            "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", name
        )
        return int(found[0][0] or 0) if found else 0

    def now(self) -> int:
        return tso(now_ms(self._connected()) + MARGIN_MS)

    def ranges(self, found: Present, upto: str, rows: int, count: int) -> Sequence[Range]:
        names, types = _keys(found)
        if not names:
            return [Range(None, None)]
        connection = self._connected()

        def fetch(query: str) -> Key | None:
            cells = connection.rows(query)
            return tuple(cells[0]) if cells else None

        source = _sql_name(found.table.full_name)
        try:
            table = KeyedTable(
                source=source, names=names, types=types, literal=connection.raw.escape, select=selected_raw
            )
            return next_ranges(table, fetch, upto, rows=rows, count=count)
        except SourceFault as fault:
            if _code(fault) in GONE | ALTERED:
                raise SourceMoved(str(fault)) from fault
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _identity(self, connection: Connection, name: TableName) -> str:
        try:
            with wrapped(self._server), connection.raw.cursor() as cursor:
                return table_identity(cursor, connection.raw.get_server_info(), name)
        except (SourceFault, UsageError) as error:
            if _code(error) not in UNTOLD:
                raise
            raise UsageError(
                f"{self._server.where} does not show the ids of its tables, so a table that takes the name of another "
                "would be read in its place. To read existing rows: "
                f"{cure(_code(error), self._server.user, name)}. {error}"
            ) from error.__cause__

    def _connected(self) -> Connection:
        if self._connection is None or not self._connection.raw.open:
            self._connection = Connection(self._server)
        return self._connection


def read_range(server: ServerUri, found: Present, of: Range) -> Iterator[list[Row]]:
    """The rows of a range, some at a time, without virtual columns.

    The table is locked only against DDL, until the last row is read.

    Raises: SourceMoved, before the first row, if the table has changed since it was found; SourceFault; MessageError
    for a value that cannot be read
    """
    table, library = found.table, pymysql()
    columns = [column for column in table.columns if not column.virtual]
    connection = Connection(server)
    try:
        readers = _readers(found, columns, lambda sql: str(connection.rows(sql)[0][0]))
        with wrapped(server):
            cursor = connection.raw.cursor(library.cursors.SSCursor)
            cursor.execute(_LONG)
            cursor.execute("START TRANSACTION READ ONLY")
            _check(cursor, found, library, connection.raw.get_server_info())
            names, types = _keys(found)
            where = condition(names, types, of, connection.raw.escape)
            chosen = ", ".join(selected_raw(column.name, _sent(found, column)) for column in columns)
            cursor.execute(f"SELECT {chosen} FROM {_sql_name(table.full_name)} WHERE {where}")
        stream = RowStream(cursor, [column.name for column in columns], readers)
        while True:
            with wrapped(server), _text_of(table):
                rows: list[Row] = stream.some(_AT_ONCE)
            if not rows:
                break
            yield rows
        cursor.close()
    finally:
        _abandon(connection.raw)


@contextmanager
def _locked(connection: Connection, name: TableName) -> Iterator[None]:
    """Block DDL of a table. Earlier DDL of it is in the binlog by this time. Raises: SourceFault"""
    connection.rows("START TRANSACTION READ ONLY")
    try:
        connection.rows(f"SELECT 1 FROM {_sql_name(name)} LIMIT 0")
        yield
    finally:
        if connection.raw.open:
            connection.rows("ROLLBACK")


@contextmanager
def _text_of(table: Table) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise MessageError(f"`{table.schema}`.`{table.name}` has text that is no UTF-8: {error}") from error


def same_rows(known: Table, found: Table) -> bool:
    """Whether two versions of a table have the same rows: names, order and types of the columns, and the key."""
    return list(map(_look, known.columns)) == list(map(_look, found.columns)) and handle_key(known) == handle_key(found)


def end_text(of: Range) -> str:
    """The end of a range as text for ``ranges``; ``""``: the table's end."""
    return "" if of.upto is None else key_text(of.upto)


def _abandon(raw: Any) -> None:
    """Close a connection of PyMySQL without first reading the unread rows."""
    if raw._result is not None:
        raw._result.unbuffered_active = False
    if raw.open:
        raw._force_close()


def _check(cursor: Any, found: Present, library: Any, version: str) -> None:
    """Take the lock that blocks ALTER until the transaction ends, then check the table."""
    name = _sql_name(found.table.full_name)
    try:
        cursor.execute(f"SELECT 1 FROM {name} LIMIT 0")
        cursor.fetchall()
        identity = table_identity(cursor, version, found.table.full_name)
        cursor.execute(f"SHOW CREATE TABLE {name}")
        (shown,) = cursor.fetchall()
    except library.MySQLError as error:
        if error.args and error.args[0] in GONE | ALTERED:
            raise SourceMoved(str(error.args[-1])) from error
        raise
    if plain_create(str(shown[1])) != found.create:
        raise SourceMoved("it was altered")
    if identity != found.identity:
        raise SourceMoved("another table has its name now, or it was emptied or rebuilt")


def _present(create: str, name: TableName, identity: str) -> Present:
    plain = plain_create(create)
    table = parse_create(_VERSIONED.sub("", plain), name[0], "escape")
    shown = presented(table)
    foreign = (one.name for one, other in zip(table.columns, shown.columns, strict=True) if one.type != other.type)
    return Present(shown, plain, frozenset(foreign), identity)


def _keys(found: Present) -> tuple[list[str], list[ColumnType]]:
    """The handle key, for ranges. Empty if it is generated, as rows do not have it then."""
    by_name = {column.name: column for column in found.table.columns}
    names = list(handle_key(found.table))
    if any(by_name[name].virtual for name in names):
        return [], []
    return names, [_sent(found, by_name[name]) for name in names]


def _sent(found: Present, column: Column) -> ColumnType:
    """The type with the character set in which the server sends it. Types that are no text there have none."""
    kind = column.type
    return replace(kind, charset="utf8mb4") if column.name in found.foreign and is_text(kind) else kind


def _readers(found: Present, columns: Sequence[Column], ask: Callable[[str], str]) -> dict[int, CellReader]:
    """Converters of cells to values, by the column's place. ``ask``: gives the only cell of a query."""
    kinds = [_sent(found, column) for column in columns]
    canonical = {at: read for at, kind in enumerate(kinds) if (read := _cell_reader(kind)) is not None}
    return {**canonical, **raw_readers(kinds, ask)}


def _cell_reader(kind: ColumnType) -> CellReader | None:
    """The converter of cells; ``None``: the server's text is already canonical."""
    if is_bytes(kind) or kind.zerofill or kind.name in _NOT_CANONICAL:
        return cell_reader(kind)
    if kind.name == "decimal":
        read = cell_reader(kind)
        return lambda cell: cell if cell[0] != "-" else read(cell)  # -0.00 has no sign
    return None


_NOT_CANONICAL = frozenset(("float", "double", "json"))
"""Types for which the server may send a text that is not canonical."""


def _look(column: Column) -> tuple[object, ...]:
    kind = column.type
    length = None if kind.name in INTEGER_BITS or kind.name in ("year", "enum", "set", "vector") else kind.length
    fine = (length, kind.decimal, kind.unsigned, kind.elements, is_bytes(kind))
    return column.name, kind.name, bool(column.virtual), *fine


def _sql_name(name: TableName) -> str:
    return f"{quoted(name[0])}.{quoted(name[1])}"


def _code(fault: Exception) -> int:
    code = getattr(fault.__cause__, "args", (0,))[0]
    return code if isinstance(code, int) else 0
