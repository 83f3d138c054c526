"""Reads whole tables of a MySQL-compatible database: TiDB as of a commit_ts, MariaDB and MySQL at present.

A chunk is a range of the table's handle key, read by one SELECT in its own transaction. Values are the text or bytes
that the server sends. ``spark.types`` converts them to the lake's types.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from ticdc_spark.capture.snapshot.base import TooOld, Wanted, Wave, comments_of, has_wanted, table_of
from ticdc_spark.capture.snapshot.identity import UNTOLD, cure, table_identity
from ticdc_spark.capture.snapshot.kept_rows import KeptRows
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
from ticdc_spark.capture.snapshot.typed import typed
from ticdc_spark.clients.mysql import TOO_OLD, as_of, connect, connection_options, driver, quoted, selected
from ticdc_spark.clients.mysql_rows import RowStream
from ticdc_spark.clients.mysql_texts import asks, raw_readers, selected_raw
from ticdc_spark.clients.upstream import CellReader, Upstream
from ticdc_spark.ddl import Comments, parse_create
from ticdc_spark.errors import EnvironmentFault, MessageError, SourceFault
from ticdc_spark.model import ColumnType, Row, Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.tasks import MOVED, UNREADABLE, ArrowTask, Counter, SourceMoved, in_worker

log = logging.getLogger(__name__)
_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys", "metrics_schema", "INFORMATION_SCHEMA")
_BATCH = 20_000
_REFUSED = frozenset({(1044,), (1045,), (1064,), (1142,), (1143,), (1227,), (1698,)})
"""Codes of errors that do not pass by themselves: a missing grant, a wrong password, SQL that the server does not
know. Only a person can fix them, so they are not retried."""
_NO_LOGIN = frozenset({(1045,), (1698,)})
_NO_GRANT = frozenset({(1044,), (1142,), (1143,), (1227,)})


class DatabaseReader:
    """Reads whole tables from the upstream database, chunk by chunk."""

    fixed: int | None = None

    def __init__(self, uri: str) -> None:
        """``uri``: for ``clients.upstream``. Raises: UsageError"""
        self._uri = uri
        self._options = connection_options(uri)
        self._where = f"{self._options['host']}:{self._options['port']}"
        self._mysql = driver()
        self._connection: Any = None
        self._known_version = ""
        self._untold = False
        """Whether the server does not show the ids of its tables."""

    @property
    def exact(self) -> bool:
        return "TiDB" in self._version

    @property
    def _version(self) -> str:
        if not self._known_version:
            self._known_version = str(self._one("SELECT VERSION()")[0])
        return self._known_version

    def tables(self) -> Sequence[TableName]:
        hidden = ", ".join(f"'{name}'" for name in _SYSTEM)
        with self._cursor() as cursor:
            cursor.execute(
                "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' "
                f"AND TABLE_SCHEMA NOT IN ({hidden}) ORDER BY 1, 2"
            )
            return [(str(schema), str(name)) for schema, name in cursor.fetchall()]

    def schema(self, name: TableName, at: int | None) -> Table | None:
        found = self._create(name, at)
        return None if found is None else table_of(found, name[0])

    def comments(self, name: TableName, at: int | None) -> Comments:
        return comments_of(self._create(name, at))

    def identity(self, name: TableName) -> str:
        version = self._version
        with self._cursor() as cursor:
            try:
                return table_identity(cursor, version, name)
            except self._mysql.MySQLError as error:
                if error.args[0] not in UNTOLD:
                    raise
                if not self._untold:
                    self._untold = True
                    log.warning(
                        "%s does not show the ids of its tables: %s. If a table takes the name of another that is "
                        "read, only its DDL shows it. Cure: %s",
                        self._where,
                        error.args[-1],
                        cure(error.args[0], self._options["user"], name),
                    )
                return ""

    def estimate(self, name: TableName) -> int:
        with self._cursor() as cursor:
            cursor.execute(
                "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", name
            )
            row = cursor.fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    def now(self) -> int:
        if self.exact:
            return self._current_ts()
        clock = float(self._one("SELECT UNIX_TIMESTAMP(NOW(6))")[0])
        return (int(clock * 1000) + MARGIN_MS) << 18

    def _current_ts(self) -> int:
        """TiDB's clock. Committed changes are at or below it, later ones above."""
        with self._cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT @@tidb_current_ts")
            ts = int(cursor.fetchone()[0])
            cursor.execute("COMMIT")
            return ts

    def wave(self, wanted: Wanted) -> Wave:
        create = self._create(wanted.name, wanted.at)
        if create is None:
            raise SourceMoved("the table is gone")
        table = parse_create(create, wanted.name[0], "escape")
        if not has_wanted(table, wanted):
            raise SourceMoved("it has other columns, or another key")
        keys = handle_key(table)
        ranges = self._ranges(table, keys, wanted)
        read = _Read(self._options, table, wanted, keys, tuple(ranges), plain_create(create), version=self._version)
        last = ranges[-1].upto
        return Wave(parts=len(ranges), read=read, upto="" if last is None else key_text(last), done=last is None)

    def rows(self, table: Table, keys: Sequence[Row], at: int | None) -> list[Row]:
        with Upstream(self._uri) as upstream:
            upstream.exact = self.exact and at is not None
            try:
                return upstream.rows(table, keys, at or 0)
            except SourceFault as fault:
                code = fault.__cause__.args[:1] if fault.__cause__ is not None else ()
                if code not in _REFUSED:
                    raise
                raise EnvironmentFault(f"{fault}{self._cure(code)}") from fault

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            connection.close()

    def _ranges(self, table: Table, keys: Sequence[str], wanted: Wanted) -> list[Range]:
        """The next ranges, each of about ``chunk_rows`` rows. The table's last range has no end.

        Raises: DecisionNeeded for a table without a key, unless it is read as of a commit_ts
        """
        if not keys and wanted.at is not None:
            return [Range(None, None)]
        types = [column.type for name in keys for column in table.columns if column.name == name]
        tidb = self.exact
        source = f"{quoted(table.schema)}.{quoted(table.name)}"
        with self._cursor(wanted.at) as cursor:

            def fetch(query: str) -> Key | None:
                cursor.execute(query)
                row = cursor.fetchone()
                return None if row is None else tuple(row)

            keyed = KeyedTable(
                source=source, names=keys, types=types, literal=self._connection.escape, select=_selection(tidb)
            )
            return next_ranges(keyed, fetch, wanted.upto, rows=wanted.chunk_rows, count=wanted.parts)

    def _create(self, name: TableName, at: int | None) -> str | None:
        with self._cursor(at) as cursor:
            try:
                cursor.execute(f"SHOW CREATE TABLE {quoted(name[0])}.{quoted(name[1])}")
            except self._mysql.MySQLError as error:
                if error.args and error.args[0] in GONE:
                    return None
                raise
            return str(cursor.fetchone()[1])

    def _one(self, query: str) -> Any:
        with self._cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchone()

    @contextmanager
    def _cursor(self, at: int | None = None) -> Iterator[Any]:
        """A cursor as of a commit_ts. Raises: SourceFault; TooOld"""
        try:
            if self._connection is None or not self._connection.open:
                self._connection = connect(self._options)
            with self._connection.cursor() as cursor:
                if at is not None:
                    cursor.execute(as_of(at))
                try:
                    yield cursor
                finally:
                    if at is not None:
                        cursor.execute(as_of(None))
        except self._mysql.MySQLError as error:
            self.close()
            if error.args and error.args[0] in TOO_OLD:
                raise TooOld(str(error.args[-1])) from error
            fault = _fault(self._where, error)
            if error.args[:1] not in _REFUSED:
                raise fault from error
            raise EnvironmentFault(f"{fault}{self._cure(error.args[:1])}") from error

    def _cure(self, code: tuple[Any, ...]) -> str:
        if code in _NO_LOGIN:
            return ". Correct the user or password of `upstream`"
        if code in _NO_GRANT:
            return f". Cure: GRANT SELECT, PROCESS ON *.* TO the user {self._options['user']!r}"
        return ""


class _Read:
    """The code of tasks, which is sent to them."""

    def __init__(
        self,
        options: dict[str, Any],
        table: Table,
        wanted: Wanted,
        keys: Sequence[str],
        ranges: tuple[Range, ...],
        create: str,
        *,
        version: str,
    ) -> None:
        self.options, self.table, self.wanted, self.version = options, table, wanted, version
        self.tidb = "TiDB" in version
        self.keys, self.ranges, self.create = tuple(keys), ranges, create
        self.begin = "START TRANSACTION READ ONLY" if wanted.at is None else as_of(wanted.at)
        """The statement before the SELECT of a chunk."""

    def __call__(self, zeros: Counter) -> ArrowTask:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from self._part(self.ranges[number], zeros)

        return in_worker(run)

    def _part(self, of: Range, zeros: Counter) -> Iterator[pa.RecordBatch]:
        mysql = driver()
        where = f"{self.options['host']}:{self.options['port']}"
        try:
            with closing(connect(self.options)) as connection:
                kept = KeptRows(self.wanted, self.table)
                readers = self._readers(connection, kept)
                cursor = connection.cursor(mysql.cursors.SSCursor)
                at = self.wanted.at
                cursor.execute(self.begin)
                cursor.execute(self._query(of, kept, connection.escape))
                stream = RowStream(cursor, reads=readers)
                while rows := stream.some(_BATCH):
                    if wanted := kept.of(rows):
                        yield typed(wanted, self.wanted.columns, self.wanted.lake, zeros)
                if at is None:
                    self._check(cursor)
                cursor.close()
        except mysql.MySQLError as error:
            code = error.args[0] if error.args else 0
            if code in GONE | ALTERED:
                raise MessageError(f"{MOVED}: {error.args[-1]}") from error
            raise _fault(where, error) from error
        except UnicodeDecodeError as error:
            name = f"`{self.table.schema}`.`{self.table.name}`"
            raise MessageError(f"{UNREADABLE}: {name} has text that is no UTF-8: {error}") from error

    def _check(self, cursor: Any) -> None:
        """Check that the rows were of this table. The transaction of the SELECT blocks DDL until its end.

        Raises: MessageError if it was not
        """
        schema, name = self.table.schema, self.table.name
        cursor.execute(f"SHOW CREATE TABLE {quoted(schema)}.{quoted(name)}")
        if plain_create(str(cursor.fetchone()[1])) != self.create:
            raise MessageError(f"{MOVED}: it was altered")
        cursor.fetchall()
        wanted = self.wanted.identity
        if wanted and table_identity(cursor, self.version, (schema, name)) != wanted:
            raise MessageError(f"{MOVED}: another table has its name now, or it was emptied or rebuilt")

    def _readers(self, connection: Any, kept: KeptRows) -> dict[int, CellReader]:
        if self.tidb:
            return {}
        types = {column.name: column.type for column in self.table.columns}
        kinds = [column.column.type for column in self.wanted.columns]
        with connection.cursor() as cursor:
            return raw_readers([*kinds, *(types[name] for name in kept.columns[len(kinds) :])], asks(cursor))

    def _query(self, of: Range, kept: KeptRows, literal: Any) -> str:
        types = {column.name: column.type for column in self.table.columns}
        virtual = {column.name for column in self.table.columns if column.virtual}
        select = _selection(self.tidb)
        chosen = ", ".join("NULL" if name in virtual else select(name, types[name]) for name in kept.columns)
        where = condition(self.keys, [types[name] for name in self.keys], of, literal)
        return f"SELECT {chosen} FROM {quoted(self.table.schema)}.{quoted(self.table.name)} WHERE {where}"


def _selection(tidb: bool) -> Callable[[str, ColumnType], str]:
    """The SELECT expression of a column. TiDB has all text in UTF-8, so it needs no conversion."""
    return selected if tidb else selected_raw


def _fault(where: str, error: Exception) -> SourceFault:
    return SourceFault(f"a table cannot be read from {where}: {error.args[-1] if error.args else error}")
