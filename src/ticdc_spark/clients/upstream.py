"""Looks up rows of the upstream database by their keys: in TiDB as of a commit ts, in MySQL and MariaDB at present.

It speaks MySQL's protocol through PyMySQL. Values come in their canonical form.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any, TypeAlias

from ticdc_spark.clients.mysql import (
    HIDDEN,
    MISSING,
    TOO_OLD,
    as_of,
    connect,
    connection_options,
    driver,
    quoted,
    selected,
)
from ticdc_spark.clients.mysql_texts import Decode, asks, is_sent_raw, raw_readers, selected_raw
from ticdc_spark.errors import MessageError, SourceFault
from ticdc_spark.model import ColumnType, Row, Table, Value
from ticdc_spark.mysql import (
    TIME_TYPES,
    canonical_datetime,
    canonical_decimal,
    canonical_float,
    canonical_integer,
    fsp,
    handle_key,
    is_bytes,
    is_integer,
    is_text,
)

_LOG = logging.getLogger(__name__)
_MIXED, _NO_GRANT = 1267, 1044
"""Illegal mix of collations; access denied to a database."""
_AT_ONCE = 200
"""How many keys one query has."""


class Upstream(AbstractContextManager["Upstream"]):
    """A connection to the upstream, made at the first lookup. For one thread."""

    def __init__(self, uri: str) -> None:
        """``uri``: ``mysql://user:password@host:port``; special characters are URL-encoded.

        Raises: UsageError for another URI, or without PyMySQL.
        """
        self._options = connection_options(uri)
        self._where = f"{self._options['host']}:{self._options['port']}"
        self._mysql = driver()
        self._connection: Any = None
        self._decoders: dict[str, Decode] = {}
        """Decoders of character sets, from the server's tables."""
        self.exact = True
        """Whether rows are as of their commit ts. Known after the first lookup."""

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        self._decoders = {}
        if connection is not None and connection.open:
            connection.close()

    def lookup(self, table: Table, keys: Sequence[Row], commit_ts: int) -> list[Row | None]:
        """The rows with these keys as of ``commit_ts``, in the order of ``keys``; ``None`` for a missing row.

        Virtual columns of the table are read too. A database other than TiDB has only present rows, which is logged
        once as a warning.

        Raises: MessageError if the table or a column is missing, or that time is garbage-collected; SourceFault if the
        database cannot be reached or refuses the request.
        """
        rows = self.rows(table, keys, commit_ts)
        names = handle_key(table)
        of_key = {tuple(row[name] for name in names): row for row in rows}
        return [of_key.get(tuple(key[name] for name in names)) for key in keys]

    def rows(self, table: Table, keys: Sequence[Row], commit_ts: int) -> list[Row]:
        """As ``lookup``, but every row that the database finds, in any order. It compares keys by their collation, so a
        row may have another key than those asked for."""
        rows: list[Row] = []
        try:
            with self._connected().cursor() as cursor:
                query = _Query(table, {} if self.exact else _raw_types(cursor, table), cursor, self._decoders)
                if self.exact:
                    cursor.execute(as_of(commit_ts))
                try:
                    for start in range(0, len(keys), _AT_ONCE):
                        cursor.execute(*query.sql(keys[start : start + _AT_ONCE]))
                        rows += map(query.row, cursor.fetchall())
                finally:
                    if self.exact:
                        cursor.execute(as_of(None))
        except self._mysql.MySQLError as error:
            raise self._wrapped(error, f"rows of `{table.schema}`.`{table.name}`", commit_ts) from error
        except UnicodeDecodeError as error:
            raise MessageError(f"`{table.schema}`.`{table.name}`: the upstream sent text that is no UTF-8") from error
        return rows

    def show_create(self, schema: str, name: str, commit_ts: int) -> str:
        """The CREATE TABLE of a table as of ``commit_ts``, or the present one of a database other than TiDB.

        Raises: MessageError if the table is missing, or that time is garbage-collected; SourceFault if the database
        cannot be reached or refuses the request.
        """
        what = f"TABLE {quoted(schema)}.{quoted(name)}"
        try:
            return self._shown(what, commit_ts)
        except self._mysql.MySQLError as error:
            raise self._wrapped(error, f"the schema of `{schema}`.`{name}`", commit_ts) from error

    def show_create_database(self, name: str, commit_ts: int) -> str:
        """The CREATE DATABASE of a database as of ``commit_ts``, or the present one if that time is garbage-collected.

        Raises: as ``show_create``; MessageError if the user may not see the database
        """
        what, of = f"DATABASE {quoted(name)}", f"the default character set of `{name}`"
        try:
            try:
                return self._shown(what, commit_ts)
            except self._mysql.MySQLError as error:
                if _code(error) not in TOO_OLD:
                    raise
                return self._shown(what, None)
        except self._mysql.MySQLError as error:
            if _code(error) == _NO_GRANT:
                raise MessageError(f"{of} cannot be looked up: {error.args[-1]}") from error
            raise self._wrapped(error, of, commit_ts) from error

    def _shown(self, what: str, commit_ts: int | None) -> str:
        """What SHOW CREATE shows, now or as of a commit_ts."""
        with self._connected().cursor() as cursor:
            if self.exact and commit_ts is not None:
                cursor.execute(as_of(commit_ts))
            try:
                cursor.execute(f"SHOW CREATE {what}")
                return str(cursor.fetchone()[1])
            finally:
                if self.exact and commit_ts is not None:
                    cursor.execute(as_of(None))

    def _connected(self) -> Any:
        if self._connection is not None:
            try:
                self._connection.ping(reconnect=False)
                return self._connection
            except self._mysql.MySQLError:
                self.close()
        self._connection = connect(self._options)
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            version = str(cursor.fetchone()[0])
        if "TiDB" not in version and self.exact:
            self.exact = False
            _LOG.warning(
                "the upstream %s is %s, not TiDB: rows are looked up as they are now, not as of their commit",
                self._where,
                version,
            )
        return self._connection

    def _wrapped(self, error: Exception, what: str, commit_ts: int) -> MessageError | SourceFault:
        """``what``: was looked up, as text."""
        code = _code(error)
        text = str(error.args[-1]) if error.args else str(error)
        if code == _MIXED:
            return MessageError(f"{what} cannot be looked up: a key has characters that its column lacks: {text}")
        if code in MISSING:
            return MessageError(f"{what} cannot be looked up, the upstream lacks the {MISSING[code]}: {text}")
        if code in TOO_OLD:
            return MessageError(
                f"{what} cannot be looked up as of {commit_ts}: it is garbage-collected (tidb_gc_life_time): {text}"
            )
        return SourceFault(f"cannot look up {what} in the upstream {self._where}: {text}")


def _code(error: Exception) -> int:
    """The server's code of an error; 0: it has none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


class _Query:
    """A table's query by keys, and how its rows are read."""

    def __init__(self, table: Table, raw: Mapping[str, ColumnType], cursor: Any, decoders: dict[str, Decode]) -> None:
        """``raw``: the types of columns that are read as bytes, by column name in lower case. ``decoders``: the known
        ones of the server."""
        columns = [column for column in table.columns if not column.name.startswith(HIDDEN)]
        types = {column.name: column.type for column in columns}
        self._names = [column.name for column in columns]
        self._keys = handle_key(table)
        if not self._keys:
            raise MessageError(f"`{table.schema}`.`{table.name}` has no handle key to look rows up by")
        kinds = [_sent(column.type, raw.get(column.name.casefold(), _NOT_RAW)) for column in columns]
        own = raw_readers(kinds, asks(cursor), decoders)
        self._reads = [own.get(at) or cell_reader(column.type) for at, column in enumerate(columns)]
        self._writes = [(name, _writer(types[name])) for name in self._keys]
        chosen = ", ".join(
            selected_raw(column.name, kinds[at]) if at in own else selected(column.name, column.type)
            for at, column in enumerate(columns)
        )
        source = f"{quoted(table.schema)}.{quoted(table.name)}"
        self._head = f"SELECT {chosen} FROM {source} WHERE ".replace("%", "%%")
        self._one = f"({' AND '.join(quoted(name).replace('%', '%%') + ' = %s' for name in self._keys)})"

    def sql(self, keys: Sequence[Row]) -> tuple[str, list[Any]]:
        """The query and its arguments."""
        where = " OR ".join([self._one] * len(keys))
        return self._head + where, [write(key[name]) for key in keys for name, write in self._writes]

    def row(self, cells: Iterable[Any]) -> Row:
        """The row, in canonical form."""
        read = zip(self._names, self._reads, cells, strict=True)
        return {name: None if cell is None else of(cell) for name, of, cell in read}


_TYPES = """SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND (CHARACTER_SET_NAME IS NOT NULL OR DATA_TYPE = 'vector')"""
_NOT_RAW = ColumnType(name="int")


def _sent(known: ColumnType, sent: ColumnType) -> ColumnType:
    return sent if is_text(known) or known.name == sent.name == "vector" else _NOT_RAW


def _raw_types(cursor: Any, table: Table) -> dict[str, ColumnType]:
    """Types of columns that are sent as bytes. Messages do not always have a column's character set."""
    cursor.execute(_TYPES, table.full_name)
    kinds = {
        str(name).casefold(): ColumnType(name="vector" if kind == "vector" else "text", charset=str(charset))
        for name, kind, charset in cursor.fetchall()
    }
    return {name: kind for name, kind in kinds.items() if is_sent_raw(kind)}


CellReader: TypeAlias = Callable[[Any], Value]
"""Converts PyMySQL's text or bytes to the canonical value."""


def cell_reader(column_type: ColumnType) -> CellReader:
    """Converts PyMySQL's text or bytes to the canonical value."""
    if is_bytes(column_type):
        return lambda cell: cell if isinstance(cell, bytes) else cell.encode()
    readers: Mapping[str, CellReader] = {
        "decimal": lambda cell: canonical_decimal(cell, column_type.decimal or 0),
        "float": lambda cell: canonical_float(cell, 32),
        "double": lambda cell: canonical_float(cell, 64),
        **dict.fromkeys(TIME_TYPES, lambda cell: canonical_datetime(cell, fsp(column_type))),
    }
    if is_integer(column_type):
        return lambda cell: canonical_integer(_text(cell))
    found = readers.get(column_type.name)
    return _text if found is None else lambda cell: found(_text(cell))


def _text(cell: str | bytes) -> str:
    return cell if isinstance(cell, str) else cell.decode()


def _writer(column_type: ColumnType) -> Callable[[Any], Any]:
    """Converts a key's canonical value for PyMySQL. ENUM, SET and BIT compare as numbers."""
    if is_integer(column_type):
        return int
    if column_type.name == "decimal":
        return Decimal
    return float if column_type.name in ("float", "double") else lambda value: value
