"""Table maps and row events: finds the bytes of the rows and their reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ticdc_spark.capture.binlog.group import Group, Rows
from ticdc_spark.capture.binlog.schemas import SYSTEM_SCHEMAS
from ticdc_spark.capture.binlog.server import Facts
from ticdc_spark.capture.binlog.statements import Tables
from ticdc_spark.capture.binlog.values.rows import RowReader
from ticdc_spark.capture.binlog.wire.events import ROW_KINDS, Event, Kind, rows_head, table_id_of
from ticdc_spark.capture.binlog.wire.table_map import TableMap, table_map
from ticdc_spark.errors import DecisionNeeded, MessageError
from ticdc_spark.model import Table

Wanted: TypeAlias = Callable[[str, str], bool]
_DUMMY = 0xFFFFFF
"""The table id of the empty row event that may end a statement."""
_SEQUENCE = (
    "next_not_cached_value",
    "minimum_value",
    "maximum_value",
    "start_value",
    "increment",
    "cache_size",
    "cycle_option",
    "cycle_count",
)
"""The columns of a sequence, which MariaDB logs as a table of one row."""


class RowEvents:
    """Remembers table maps and readers."""

    def __init__(self, *, facts: Facts, wanted: Wanted, max_bytes: int) -> None:
        self._mariadb = facts.mariadb
        self._names = facts.names
        self._charsets = facts.charsets
        self.wanted = wanted
        self._max_bytes = max_bytes
        self._maps: dict[int, tuple[bytes, TableMap]] = {}
        self._readers: dict[bytes, RowReader | None] = {}

    def forget(self) -> None:
        """Forget readers, as schemas have changed."""
        self._readers.clear()

    def table_map(self, event: Event) -> None:
        """Note a table of the following rows. A server reuses ids after a restart."""
        table_id = table_id_of(event)
        known = self._maps.get(table_id)
        if known is None or known[0] != event.body:
            self._maps[table_id] = event.body, table_map(event.body, mariadb=self._mariadb)[1]

    def take(self, event: Event, group: Group, tables: Tables, where: str) -> None:
        """Add a row event to its group, if its table is wanted.

        Raises: MessageError, DecisionNeeded.
        """
        table_id = table_id_of(event)
        if table_id not in self._maps:
            if table_id == _DUMMY:
                return
            raise MessageError(f"rows of table id {table_id}, which no table map names")
        body, wire = self._maps[table_id]
        key = body[8:]
        if key in self._readers:
            reader = self._readers[key]
        else:
            reader = self._readers[key] = self._reader(wire, tables)
        if reader is None:
            return
        group.size += event.size
        if group.size > self._max_bytes:
            raise DecisionNeeded(
                f"binlog {where}: a transaction has more than {self._max_bytes:,} bytes of rows, the limit of "
                "max-transaction-bytes in source-uri; raise it, its rows are kept on disk"
            )
        if event.kind == Kind.PARTIAL_UPDATE_ROWS:
            raise MessageError(
                f"a row of `{wire.schema}`.`{wire.name}` with parts of its JSON: a session has changed "
                "binlog_row_value_options, which must be empty. Begin a new changefeed, or exclude the table"
            )
        head = rows_head(event)
        if not head.whole:
            raise MessageError(
                f"a row of `{wire.schema}`.`{wire.name}` without all its columns: a session has changed "
                "binlog_row_image, which must be FULL. Begin a new changefeed, or exclude the table"
            )
        group.add(Rows(reader, ROW_KINDS[event.kind], head.rows, where))

    def _reader(self, wire: TableMap, tables: Tables) -> RowReader | None:
        if wire.schema.lower() in SYSTEM_SCHEMAS or not self.wanted(wire.schema, wire.name):
            return None
        if self._mariadb and wire.names == _SEQUENCE:
            return None
        table = tables.get(wire.full_name)
        if table is None and self._names == "folded":
            table = _by_lower(tables, wire.schema, wire.name)
        if table is None:
            raise MessageError(
                f"rows of `{wire.schema}`.`{wire.name}`, whose schema is not known: it was created with "
                "sql_log_bin=0, or SELECT on it is not granted. Begin a new changefeed, or exclude the table"
            )
        return RowReader(table, wire, self._charsets)


def _by_lower(tables: Tables, schema: str, name: str) -> Table | None:
    wanted = (schema.lower(), name.lower())
    return next((table for (one, two), table in tables.items() if (one.lower(), two.lower()) == wanted), None)
