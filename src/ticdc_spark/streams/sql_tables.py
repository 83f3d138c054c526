"""Derives tables from a stream of DDL, for protocols whose DDL is only SQL."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from ticdc_spark.ddl import Charsets, apply_ddl, charsets_after, ddl_tables, fold
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, Table, TableName

_DDL_SEEN = 4096


class SqlTables:
    """The tables derived from DDL, for protocols whose DDL is only SQL."""

    def __init__(self) -> None:
        self.tables: dict[TableName, Table] = {}
        self.charsets: Charsets = {}
        self._dropped: dict[TableName, Table] = {}
        self._seen: OrderedDict[tuple[int, str, str], tuple[Table | None, Table | None]] = OrderedDict()

    def around(self, change: SchemaChange) -> tuple[Table | None, Table | None]:
        """The table before and after a DDL that was followed."""
        return self._seen.get(_identity(change), (None, None))

    def has_followed(self, change: SchemaChange) -> bool:
        """Whether this DDL was followed before, as every partition has it."""
        return _identity(change) in self._seen

    def follow(self, change: SchemaChange, described: Iterable[Table] = ()) -> None:
        """Follow a DDL, once. ``described``: the tables after it that its SQL does not describe completely."""
        if self.has_followed(change):
            return
        names = _named(change)
        before = next((self.tables[name] for name in names if name in self.tables), None)
        self._apply(change)
        for table in described:
            self.tables.setdefault(table.full_name, table)
        after = next((self.tables[name] for name in reversed(names) if name in self.tables), None)
        self._seen[_identity(change)] = (before, after)
        if len(self._seen) > _DDL_SEEN:
            self._seen.popitem(last=False)

    def _apply(self, change: SchemaChange) -> None:
        effect = apply_ddl(self.tables, change.schema, change.query, dropped=self._dropped, charsets=self.charsets)
        self.charsets = charsets_after(self.charsets, [change])
        if effect.unsupported:
            # the known schemas of these tables are no longer valid
            for name in _named(change):
                self.tables.pop(name, None)
            return
        for name in effect.dropped:
            if name in self.tables:
                self._dropped[name] = self.tables[name]
        self.tables = fold(self.tables, effect)


def _identity(change: SchemaChange) -> tuple[int, str, str]:
    return change.commit_ts, change.schema, change.query


def _named(change: SchemaChange) -> tuple[TableName, ...]:
    try:
        before, after = ddl_tables(change.query, change.schema)
    except MessageError:
        return (change.full_name,)
    return (*before, *after)
