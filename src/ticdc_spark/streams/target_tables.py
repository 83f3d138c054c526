"""Completes events for a target protocol: versions and details of tables, the tables of a DDL."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TypeAlias

from msgspec.structs import replace

from ticdc_spark.model import Bootstrap, RowChange, SchemaChange, Table
from ticdc_spark.protocols.shared.ddl_words import ddl_word
from ticdc_spark.protocols.wire_protocol import Traits
from ticdc_spark.streams.sql_details import SqlDetails

TablesOf: TypeAlias = Callable[[SchemaChange], tuple[Table | None, Table | None]]
"""Gives the table before and after a DDL that has none itself."""


def id_of_name(table: Table) -> int:
    """An id for a table whose source has none, made from its name.

    Equal names have the same id. Ids are above counted ones, and exact as a double.
    """
    name = f"{table.schema}\0{table.name}".lower()
    return (1 << 48) + int.from_bytes(sha256(name.encode("utf-8", "surrogatepass")).digest()[:6], "big")


class TargetTables:
    """Completes events for a target. Its memory is bounded by the number of tables."""

    def __init__(self, target: Traits) -> None:
        self._target = target
        self._details = SqlDetails() if target.needs_details else None
        self._versions: dict[tuple[str, str], tuple[Table, Table]] = {}

    def learn(self, event: SchemaChange | Bootstrap) -> None:
        """Take the table of a DDL or BOOTSTRAP, before it is written."""
        if self._details is None:
            return
        if isinstance(event, Bootstrap):
            self._details.learn(event.table)
        elif event.table or event.pre_table:
            self._details.follow(event)

    def row(self, change: RowChange) -> RowChange:
        """A row with the facts that the target needs. An ``upsert`` becomes an insert if the target has no upserts."""
        if change.op == "upsert" and not self._target.upserts:
            change = replace(change, op="insert")
        table = self.table(change.table, change.commit_ts)
        return change if table is change.table else replace(change, table=table)

    def table(self, table: Table, ts: int) -> Table:
        """A table for the target's messages, first seen or changed at ``ts``."""
        if self._details is not None:
            table = self._details.complete(table)
        if self._target.versioned_tables and (table.version is None or table.table_id is None):
            table = self._identified(table, ts)
        return table

    def ddl(self, change: SchemaChange, tables_of: TablesOf) -> SchemaChange:
        """A DDL with the target's word for its kind, and with tables if the target sends them.

        Raises: MessageError for SQL that cannot be read.
        """
        if not self._target.ddl_has_tables:
            return change
        if change.table is not None or change.pre_table is not None:
            return change if self._details is None else self._complete(change, self._details)
        before, after = tables_of(change)
        if self._target.versioned_tables:
            before, after = (table and self._identified(table, change.commit_ts) for table in (before, after))
        return replace(change, kind=ddl_word(change.query), table=after, pre_table=before)

    def captured_ddl(self, change: SchemaChange) -> SchemaChange:
        """A DDL from a source of changes, which has its tables, and a kind of ``ddl.effect.Kind``.

        Raises: MessageError for SQL that cannot be read.
        """
        if not self._target.ddl_has_tables:
            return change
        ts = change.commit_ts
        before, after = (table and self.table(table, ts) for table in (change.pre_table, change.table))
        if change.kind == "drop table":
            after = before  # TiCDC sends a dropped table also as the table after the DDL
        return replace(change, kind=ddl_word(change.query), table=after, pre_table=before)

    def _identified(self, table: Table, ts: int) -> Table:
        """The table with an id and a version: the commit ts at which its present schema was first seen.

        A row that is older than the first one gets its own version, as no version is above a row's commitTs.
        """
        name = table.full_name
        known = self._versions.get(name)
        is_late = known is not None and table.version is None and (known[1].version or 0) > ts
        if known is None or is_late or (known[0] is not table and known[0] != table):
            version = ts if table.version is None else table.version
            table_id = id_of_name(table) if table.table_id is None else table.table_id
            # one object for each version, as encoders compile code for it
            known = self._versions[name] = (table, replace(table, version=version, table_id=table_id))
        return known[1]

    def _complete(self, change: SchemaChange, details: SqlDetails) -> SchemaChange:
        before, after = (table and details.complete(table) for table in (change.pre_table, change.table))
        return replace(change, pre_table=before, table=after)
