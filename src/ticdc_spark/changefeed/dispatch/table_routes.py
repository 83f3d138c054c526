"""Tables that are sent under other names: ``target-schema`` and ``target-table`` of ``sink.dispatchers``.

Only messages change: their names of databases and tables, in fields and in SQL. Filters, topics, partitions and column
selectors use the source's names. Source: TiCDC's page "Table Routing" (v8.5.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from ticdc_spark.changefeed.config.settings import Changefeed, DispatchRule
from ticdc_spark.config.matcher import Matcher, compile_matcher
from ticdc_spark.config.target_names import named
from ticdc_spark.ddl.lex import Name
from ticdc_spark.ddl.renaming import with_table_names
from ticdc_spark.errors import MessageError, UnsupportedDdl
from ticdc_spark.model import RowChange, SchemaChange, Table, TableName
from ticdc_spark.protocols.base import Encoded, Encoder

_TABLES_KEPT = 4096


class TableRoutes:
    """The names under which tables are sent. The first rule with a target that matches a table decides."""

    def __init__(self, changefeed: Changefeed) -> None:
        sensitive = changefeed.case_sensitive
        self._rules: list[tuple[Matcher, DispatchRule]] = [
            (compile_matcher(rule.matcher, case_sensitive=sensitive), rule)
            for rule in changefeed.dispatchers
            if rule.target_schema or rule.target_table
        ]
        self._tables: dict[int, tuple[Table, Table]] = {}
        self._sources: dict[TableName, TableName] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": {}}

    def __bool__(self) -> bool:
        """Whether there is a rule."""
        return bool(self._rules)

    def target(self, name: TableName) -> TableName:
        """The name under which a table is sent, or a database, whose table name is ``""``. Raises: UnsupportedDdl if
        the rules give a database several names"""
        schema, table = name
        if not schema:
            return name
        if not table:
            return self._database(schema), ""
        for matcher, rule in self._rules:
            if matcher.matches(schema, table):
                return named(rule.target_schema, name) or schema, named(rule.target_table, name) or table
        return name

    def source(self, name: TableName) -> TableName:
        """The source's name of a table, from the name under which it was sent last."""
        return self._sources.get(name, name)

    def _database(self, schema: str) -> str:
        found = {
            named(rule.target_schema, (schema, "")) or schema: rule
            for matcher, rule in self._rules
            if matcher.accepts_schema(schema)
        }
        if len(found) > 1:
            names = " and ".join(f"`{name}`" for name in found)
            raise UnsupportedDdl(
                f"sink.dispatchers: tables of `{schema}` are sent to {names}, so the target of a DDL of the "
                "database is unknown. Create the databases there by hand, and exclude the DDL: ignore-event of an "
                "entry of filter.event-filters"
            )
        return next(iter(found), schema)

    def table(self, table: Table) -> Table:
        """A table under its new name; the same object for the same table."""
        kept = self._tables.get(id(table))
        if kept is None or kept[0] is not table:
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            schema, name = self.target(table.full_name)
            new = table if (schema, name) == table.full_name else replace(table, schema=schema, name=name)
            kept = self._tables[id(table)] = table, new
        new = kept[1]
        self._sources[new.full_name] = table.schema, table.name
        return new

    def row(self, change: RowChange) -> RowChange:
        """A row change of a table under its new name."""
        table = self.table(change.table)
        return change if table is change.table else replace(change, table=table)

    def ddl(self, change: SchemaChange) -> SchemaChange:
        """A DDL with the new names of its tables, also in its SQL. Raises: UnsupportedDdl if that is not possible"""
        try:
            query = with_table_names(change.query, partial(_meant, change), self.target)
        except MessageError as error:
            raise UnsupportedDdl(
                f"{error}, so it cannot be sent with target-schema and target-table of sink.dispatchers. Exclude it "
                f"with ignore-event or ignore-sql of an entry of filter.event-filters: {change.query}"
            ) from error
        of = change.table or change.pre_table
        # A session that uses another database qualifies the table with its database.
        old = change.full_name if of is None else of.full_name
        new = self.target(old)
        if query == change.query and new == old:
            return change
        return replace(
            change,
            query=query,
            schema=new[0],
            name=new[1],
            table=None if change.table is None else self.table(change.table),
            pre_table=None if change.pre_table is None else self.table(change.pre_table),
            named=tuple(map(self.target, change.named)),
        )

    def conflict(self, tables: Iterable[TableName]) -> str:
        """A sentence about two tables that would be sent under one name; ``""``: there are none."""
        owners: dict[TableName, TableName] = {}
        for name in tables if self._rules else ():
            new = self.target(name)
            other = owners.setdefault(new, name)
            if other != name:
                return (
                    f"sink.dispatchers: {_shown(other)} and {_shown(name)} would both be sent as {_shown(new)}. Give "
                    "each its own name, for example with {schema} and {table} in target-table, or exclude one "
                    "with filter.rules"
                )
        return ""

    def still_in(self, database: str, tables: Iterable[TableName]) -> TableName | None:
        """A table of another database that is sent to the same target as ``database``. Raises: UnsupportedDdl"""
        target = self.target((database, ""))[0].casefold()
        return next((name for name in tables if self.target(name)[0].casefold() == target), None)


class RoutedEncoder:
    """An encoder that writes tables under their new names."""

    def __init__(self, encoder: Encoder, routes: TableRoutes) -> None:
        self._encoder, self._routes = encoder, routes

    def rows(self, changes: Iterable[RowChange]) -> Iterator[Encoded]:
        return self._encoder.rows(map(self._routes.row, changes))

    def ddl(self, change: SchemaChange) -> Encoded | None:
        return self._encoder.ddl(self._routes.ddl(change))

    def watermark(self, commit_ts: int) -> Encoded | None:
        return self._encoder.watermark(commit_ts)

    def bootstrap(self, table: Table) -> Encoded | None:
        return self._encoder.bootstrap(self._routes.table(table))


def _meant(change: SchemaChange, place: int, name: Name) -> TableName:
    """The table or database that a name in a DDL's SQL means, spelled as at the source.

    A name without a database is the table that the DDL changes, by its old or new name, or another one in its database.
    """
    schema, table = name
    before, after = change.pre_table, change.table
    if not table:
        own = schema is not None and schema.casefold() == change.schema.casefold()
        return change.schema if own else schema or "", ""
    for one in (before, after) if place == 0 else (after, before):
        if one is None or one.name.casefold() != table.casefold():
            continue
        if schema is None or schema.casefold() == one.schema.casefold():
            return one.schema, one.name
    if schema is None:
        schema = change.schema if before is None else before.schema
    return schema, table


def _shown(name: TableName) -> str:
    return f"`{name[0]}`.`{name[1]}`"
