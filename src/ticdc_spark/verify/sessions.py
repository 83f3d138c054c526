"""Sessions of compared databases: the moment that they see, and the conversion of their values to Arrow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from ticdc_spark.capture.snapshot.keys import ALTERED, GONE
from ticdc_spark.clients import mysql, postgres
from ticdc_spark.clients.mysql_rows import RowStream
from ticdc_spark.clients.mysql_texts import Decode, asks, is_raw, raw_readers
from ticdc_spark.errors import EnvironmentFault, SinkFault, SourceFault
from ticdc_spark.model import ColumnType
from ticdc_spark.mysql import is_bytes
from ticdc_spark.spark.types import LakeColumn, LakeOptions, arrow_type, to_arrow
from ticdc_spark.verify.database import to_batch

_BATCH = 20_000
_GONE = frozenset({"3F000", "42P01", "42703"})
"""PostgreSQL's codes for a missing schema, table or column."""


class Altered(Exception):
    """A table has changed since its comparison began. Only used internally."""


def too_old(text: str) -> EnvironmentFault:
    """The error if TiDB has removed the rows to compare. ``text``: TiDB's error."""
    return EnvironmentFault(
        f"the source no longer has the rows of the job's timestamp: {text}. Wait until the job has caught up, "
        "or raise tidb_gc_life_time"
    )


_TEXT = ColumnType(name="longtext")


class MysqlSessions:
    """Sessions of a MySQL-compatible server, one for each thread. See ``database.Sessions``."""

    def __init__(
        self,
        uri: str,
        lake: LakeOptions,
        begin: Sequence[str] = (),
        fault: type[SourceFault | SinkFault] = SourceFault,
        *,
        tidb: bool = False,
        vectors: bool = True,
    ) -> None:
        """``begin``: statements that make a session see one moment. ``vectors``: a VECTOR of the source is one here;
        else it is text."""
        self._vectors = vectors
        self._options, self._lake, self._begin = mysql.connection_options(uri), lake, begin
        self._fault, self._tidb = fault, tidb
        self._own, self._opened, self._decoders = threading.local(), list[Any](), dict[str, Decode]()
        self._where = f"{self._options['host']}:{self._options['port']}"

    def open(self) -> None:
        """Begin this thread's session now. Raises: SourceFault, SinkFault"""
        with self._faults():
            self._connection()

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with self._faults(), self._connection().cursor() as cursor:
            cursor.execute(sql)
            return [*cursor.fetchall()]

    def batches(self, sql: str, columns: Sequence[LakeColumn]) -> Iterator[pa.RecordBatch]:
        with self._faults():
            connection = self._connection()
            kinds = [column.column.type for column in columns]
            if not self._vectors:
                kinds = [_TEXT if kind.name == "vector" else kind for kind in kinds]
            with connection.cursor() as asking:
                readers = {} if self._tidb else raw_readers(kinds, asks(asking), self._decoders)
            cursor = connection.cursor(mysql.driver().cursors.SSCursor)
            cursor.execute(sql)
            stream = RowStream(cursor, reads=readers)
            try:
                while rows := stream.some(_BATCH):
                    yield to_batch(rows, columns, self._convert)
            finally:
                cursor.close()

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._opened:
            connection._force_close()

    def _connection(self) -> Any:
        found = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = mysql.connect(self._options)
            self._opened.append(found)
            with found.cursor() as cursor:
                for statement in self._begin:
                    cursor.execute(statement)
        return found

    def _convert(self, column: LakeColumn, cells: list[Any]) -> tuple[pa.Array, dict[int, str]]:
        kind = column.column.type
        if is_bytes(kind):
            cells = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
        elif is_raw(kind) and any(type(cell) is bytes for cell in cells):
            unread = {at: f"column `{column.source}`: no text" for at, cell in enumerate(cells) if type(cell) is bytes}
            array, _, _ = to_arrow(column, self._lake)([None if at in unread else one for at, one in enumerate(cells)])
            return array, unread
        else:
            cells = [cell.decode() if type(cell) is bytes else cell for cell in cells]
        array, bad, _ = to_arrow(column, self._lake)(cells)
        return array, bad

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except mysql.driver().MySQLError as error:
            code, text = (error.args[0] if error.args else 0), str(error.args[-1] if error.args else error)
            if code in GONE | ALTERED:
                raise Altered(text) from error
            if code in mysql.TOO_OLD:
                raise too_old(text) from error
            raise self._fault(f"{self._where}: {text}") from error


class PostgresSession:
    """One session of a PostgreSQL database, as of its first query. See ``database.Sessions``."""

    def __init__(self, uri: str, open_: Callable[..., Any] = postgres.connect) -> None:
        options = postgres.connection_options(uri)
        self._where = f"{options['host']}:{options['port']}/{options['dbname']}"
        with self._faults():
            self._connection = open_(options, "ticdc-spark verify")
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with self._faults(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [*cursor.fetchall()]

    def batches(self, sql: str, columns: Sequence[LakeColumn]) -> Iterator[pa.RecordBatch]:
        with self._faults(), self._connection.cursor(name="verify") as cursor:
            cursor.execute(sql)
            while rows := cursor.fetchmany(_BATCH):
                yield to_batch(rows, columns, from_text)

    def close(self) -> None:
        """Close the connection."""
        with suppress(postgres.driver().Error):
            self._connection.close()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except postgres.driver().Error as error:
            text = error.diag.message_primary or " ".join(str(error).split())
            if error.sqlstate in _GONE:
                raise Altered(text) from error
            raise SinkFault(f"{self._where}: {text}") from error


def from_text(column: LakeColumn, cells: list[Any]) -> tuple[pa.Array, dict[int, str]]:
    """The values that ``dialects.Postgres`` selects of a column, in its type, and the cells that cannot be read."""
    try:
        return _from_text(column, cells), {}
    except (ValueError, pa.ArrowException):
        bad = dict[int, str]()
        for at, cell in enumerate(cells):
            try:
                _from_text(column, [cell])
            except (ValueError, pa.ArrowException):
                bad[at] = f"column `{column.source}`: {cell!r:.100} is no {column.column.type.name}"
        return _from_text(column, [None if at in bad else cell for at, cell in enumerate(cells)]), bad


def _from_text(column: LakeColumn, cells: list[Any]) -> pa.Array:
    kind, of = arrow_type(column.type), column.type.arrow
    if of == "binary":
        return pa.array([None if cell is None else bytes.fromhex(cell) for cell in cells], kind)
    if of == "floats":
        split = [None if cell is None else [float(one) for one in cell[1:-1].split(",") if one] for cell in cells]
        return pa.array(split, kind)
    texts = pa.array(cells, pa.string())
    return texts.cast(pa.timestamp("us")).cast(kind) if of == "instant" else texts.cast(kind)
