"""Compute the schemas before and after a DDL by folding its SQL, for protocols that only send SQL (Open, canal-json).

If a message has the schemas (Simple), they stay, and the fold continues from them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from ticdc_spark.config.shards import is_merged, plain_key, shard_of
from ticdc_spark.ddl import (
    Charsets,
    apply_change,
    change_tables,
    charsets_after,
    column_renames,
    fold,
    statement_of,
)
from ticdc_spark.ddl.statements import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    CreateTable,
    DropTables,
    RenameTables,
    RestoreTable,
    TruncateTable,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, SchemaChange, Table, TableName
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.replicate.plan.catch_up import database_of
from ticdc_spark.replicate.plan.ddl_actions import NAMED_OTHERWISE, UNCERTAIN
from ticdc_spark.replicate.plan.names import model_of, source_tables
from ticdc_spark.replicate.plan.parked import is_parked, parked_name, parked_of
from ticdc_spark.replicate.schemas.history import ANY_VERSION, VALID_THEN
from ticdc_spark.replicate.schemas.partitioned import change_without_partitions, with_partitions, without_partitions
from ticdc_spark.replicate.state.progress import KnownSchema, QueuedDdl
from ticdc_spark.replicate.state.table import TableState, is_unfollowed

IsParking: TypeAlias = Callable[[TableName], bool]


@dataclass(frozen=True, kw_only=True)
class SchemaRules:
    """The rules of a job that decide which schemas its DDLs have."""

    sanitised: bool = False
    """Rows have other names than DDL for tables and columns with special characters (Avro)."""
    is_included: Callable[[str, str], bool] = lambda _schema, _name: True
    """Whether the job replicates a name."""
    is_skipped: Callable[[SchemaChange], bool] = lambda _change: False
    """Whether a DDL is skipped."""
    lacking: Mapping[TableName, int] = field(default_factory=dict)
    """Tables that may lack a DDL, each with the commit_ts up to which it may."""
    may_come: Callable[[TableName, int], bool] = lambda _name, _ts: False
    """Whether the job may not have read all DDLs of a table up to a commit_ts."""
    has_partitions: bool = True
    """Whether the partitions of tables are followed. Without watermarks, they are not exact."""
    zone: str | None = None
    """The time zone of the sessions that run DDLs."""
    is_parking: IsParking = lambda _name: False
    """Whether a dropped or emptied table can come back."""
    charsets: Charsets = field(default_factory=dict)
    """The default character sets of databases before the DDLs."""
    shards: Mapping[TableName, Table] = field(default_factory=dict)
    """Tables whose rows go into a merged table."""


PLAIN_RULES = SchemaRules()


def with_schemas(
    ddls: Sequence[QueuedDdl],
    states: Mapping[TableName, TableState],
    known: Sequence[KnownSchema],
    rules: SchemaRules = PLAIN_RULES,
) -> list[QueuedDdl]:
    """Fill in the schemas of DDLs, in the order in which they are applied.

    A DDL stays without schemas, and is refused later, if its table is not known or its SQL is not understood. It is
    also refused if rows have other names than it. A DDL whose table may lack an earlier DDL is ``UNCERTAIN``. So is a
    CREATE LIKE while DDLs of its model may still come.
    """
    files: dict[TableName, Table] = {
        _named_by(schema): schema.table for schema in known if plain_key(schema.key) == ANY_VERSION
    }
    # Schemas of tables that no DDL created: they describe the table before its first DDL.
    described = {
        _named_by(schema): schema.table for schema in known if plain_key(schema.key) == VALID_THEN and schema.since
    }
    tables = {**files, **{name: table for name, table in described.items() if name not in states}}
    tables |= {
        name: _named(state.table, name)
        for name, state in states.items()
        if state.table is not None and not state.is_gone
    }
    tables |= rules.shards
    unsure = {name for name, state in states.items() if state.has_unsure_columns}
    parked = ParkedTables(states, rules.is_parking)
    charsets = rules.charsets
    filled = []
    for ddl in ddls:
        change = ddl.change
        model = model_of(change)
        before, after = source_tables(change)
        sources = before if model is None else {*before, model}
        doubted = {name for name in sources if name in unsure or not rules.is_included(*name)}
        if model is not None and model in states and is_newer(states[model], change.commit_ts):
            doubted.add(model)
        if model is not None and rules.may_come(model, change.commit_ts):
            doubted.add(model)
        if model is not None and model in states and is_unfollowed(states[model]):
            doubted.add(model)  # Its DDL may not be sent, or be in a topic that is not read.
        like = None if model in doubted else model
        change = parked.follow(change, None if rules.is_skipped(change) else tables)
        if is_restored(change):
            assert change.table is not None, "it comes back"
            tables = {**tables, change.table.full_name: change.table}
        elif change.table is None:
            taken = model or _goes_on_from(change)
            # A schema file may be of another time than the DDL.
            if taken in doubted or (taken in files and tables.get(taken) is files[taken]):
                change = msgspec.structs.replace(change, kind=UNCERTAIN)
            (change, after_it), known_before = _filled(change, tables, charsets), tables
            after_it = _made_since(change, tables, states, rules) | after_it
            change, tables = with_partitions(change, known_before, like, from_sql=True, zone=rules.zone), after_it
            if change.table is not None:
                tables = {**tables, change.table.full_name: change.table}
        else:
            change = msgspec.structs.replace(change, table=with_generated(change, tables))
            change = with_partitions(change, tables, like, from_sql=False, zone=rules.zone)
            if change.pre_table is not None:
                tables.pop(change.pre_table.full_name, None)
            assert change.table is not None, "it has one"
            tables[change.table.schema, change.table.name] = change.table
        charsets = charsets_after(charsets, [change])
        unsure -= before
        if doubted or change.kind == UNCERTAIN or rules.is_skipped(change):
            unsure |= after
        else:
            unsure -= after
        lacking = {name for name in after if rules.lacking.get(name, 0) >= change.commit_ts}
        unsure |= lacking
        untold = after if rules.is_skipped(change) or not rules.has_partitions else lacking
        tables |= {name: without_partitions(tables[name]) for name in untold if name in tables}
        change = change if rules.has_partitions else change_without_partitions(change)
        if rules.sanitised and _names(change) != {sanitized(name) for name in _names(change)}:
            change = msgspec.structs.replace(change, kind=NAMED_OTHERWISE)
        filled.append(msgspec.structs.replace(ddl, change=change))
    return filled


def _made_since(
    change: SchemaChange, tables: Mapping[TableName, Table], states: Mapping[TableName, TableState], rules: SchemaRules
) -> dict[TableName, Table]:
    """The tables that stay at a DROP DATABASE that is queued again, for a table that is read late."""
    if not database_of(change):
        return {}
    passed = {name for name, state in states.items() if state.applied >= change.commit_ts}
    passed |= {*rules.shards} if any(map(is_merged, passed)) else set()
    return {name: table for name, table in tables.items() if name in passed}


def _named_by(known: KnownSchema) -> TableName:
    """The table that a schema describes, by its name at the source."""
    return known.full_name if shard_of(known.key) is None else known.table.full_name


class ParkedTables:
    """The tables that can come back, as DDLs are followed."""

    def __init__(self, states: Mapping[TableName, TableState], is_parking: IsParking) -> None:
        self._is_parking = is_parking
        self._tables = {
            name: _named(state.table, state.full_name)
            for name, state in parked_of(states.values()).items()
            if state.table is not None
        }

    def follow(self, change: SchemaChange, tables: Mapping[TableName, Table] | None) -> SchemaChange:
        """Record the tables that a DDL drops or empties. A DDL that brings a table back gets its schema. ``tables``:
        before the DDL; ``None``: the DDL is skipped."""
        try:
            statement = statement_of(change)
            before = change_tables(change)[0]
        except MessageError:
            return change
        if isinstance(statement, DropTables | TruncateTable):
            for name in before:
                self._tables.pop(name, None)
                table = None if tables is None else tables.get(name, change.pre_table or change.table)
                if table is not None and self._is_parking(name):
                    self._tables[name] = _named(table, parked_name(name, change.commit_ts))
        if not isinstance(statement, RestoreTable):
            return change
        held = self._tables.pop((statement.name[0] or change.schema, statement.name[1]), None)
        if held is None:
            return change
        ((new, *_),) = (change_tables(change)[1],)
        table = _named(held if change.table is None else change.table, new)
        table = msgspec.structs.replace(table, partitioning=held.partitioning)
        return msgspec.structs.replace(change, table=table, pre_table=held)


def is_restored(change: SchemaChange) -> bool:
    """Whether a DDL brings a parked table back, and has its schema."""
    return change.pre_table is not None and is_parked(change.pre_table.full_name)


def with_generated(change: SchemaChange, tables: Mapping[TableName, Table]) -> Table | None:
    """The table in a DDL's message (Simple), with the information that only SQL has: which columns are generated.

    Columns that the SQL does not name are as in ``tables``, which are before the DDL. If the table is not there, it is
    not known which of them are generated.
    """
    table = change.table
    if table is None:
        return None
    try:
        statement, renames = statement_of(change), column_renames(change.query)
    except MessageError:
        return table
    before = change.pre_table or table
    known = tables.get(before.full_name)
    named: list[Column] = [] if known is None else list(known.columns)
    if isinstance(statement, CreateTable):
        named = [one.column for one in statement.columns]
        if statement.like is not None and (model := model_of(change)) is not None and model in tables:
            named = list(tables[model].columns)
    elif isinstance(statement, AlterTable):
        parts = [part.definition.column for part in statement.parts if isinstance(part, AddColumn | ChangeColumn)]
        renamed = {old.casefold(): new for old, new in renames.items()}
        named = [msgspec.structs.replace(one, name=renamed.get(one.name.casefold(), one.name)) for one in named] + parts
    by_name = {one.name.casefold(): one for one in named}
    columns = []
    for column in table.columns:
        of = by_name.get(column.name.casefold(), column)
        how = msgspec.structs.replace(column, virtual=of.virtual, stored=of.stored, expression=of.expression)
        columns.append(how)
    return msgspec.structs.replace(table, columns=tuple(columns))


def _goes_on_from(change: SchemaChange) -> TableName | None:
    """The table that a TRUNCATE, an ALTER or a RENAME names."""
    try:
        statement = statement_of(change)
        names = change_tables(change)[0]
    except MessageError:
        return None
    goes_on = isinstance(statement, TruncateTable | AlterTable | RenameTables)
    return names[0] if goes_on and names else None


def is_newer(state: TableState, commit_ts: int) -> bool:
    """Whether a table may have other columns than at a commit_ts: a DDL or a full read came since."""
    began = 0 if state.load is None else state.load.base
    return max(state.ddl_ts, state.emptied, began) > commit_ts


def _names(change: SchemaChange) -> set[str]:
    """Every name in a DDL that rows have as well."""
    try:
        before, after = change_tables(change)
    except MessageError:
        before = after = ()
    names = {change.schema, change.name} | {name for table in (*before, *after) for name in table}
    for table in filter(None, (change.table, change.pre_table)):
        names |= {table.schema, table.name, *(column.name for column in table.columns)}
    return names - {""}


def _filled(
    change: SchemaChange, tables: dict[TableName, Table], charsets: Charsets
) -> tuple[SchemaChange, dict[TableName, Table]]:
    effect = apply_change(tables, change, charsets)
    if effect.unsupported:
        return change, tables
    after = fold(tables, effect)
    before: Table | None = None
    new: Table | None = None
    if effect.created:
        new = effect.created[0]
    elif effect.altered:
        before, new = effect.altered[0].before, effect.altered[0].after
    elif effect.renamed:
        before = tables.get(effect.renamed[0][0])
        new = after.get(effect.renamed[0][1])
    elif effect.truncated:
        before = new = tables.get(effect.truncated[0])
    elif effect.dropped and effect.kind == "drop table":
        before = tables.get(effect.dropped[0])
    elif effect.kind == "alter table":
        try:
            names = change_tables(change)[1]
        except MessageError:
            names = ()
        before = new = tables.get(names[0]) if names else None
    return msgspec.structs.replace(change, table=new, pre_table=before), after


def _named(table: Table, name: TableName) -> Table:
    """A table with its name in the lake: its schema keeps the old name until the last commit of a RENAME."""
    if table.full_name == name:
        return table
    return msgspec.structs.replace(table, schema=name[0], name=name[1])


def named_after(
    ddls: Sequence[QueuedDdl], keeps: Callable[[SchemaChange], bool] = lambda _drop: False
) -> frozenset[TableName]:
    """The tables that queued DDLs make or drop: rows of these need not wait for a schema.

    A table whose first DDL changes, renames or empties it is excluded: that DDL needs the same schema as the rows
    before it. ``keeps``: whether the lake keeps the table of a DROP.
    """
    names: set[TableName] = set()
    changed: set[TableName] = set()
    met: set[TableName] = set()
    for ddl in sorted(ddls, key=lambda ddl: ddl.change.commit_ts):
        try:
            before, after = change_tables(ddl.change)
            statement = statement_of(ddl.change)
        except MessageError:
            continue
        drops = isinstance(statement, DropTables) and not keeps(ddl.change)
        if isinstance(statement, AlterTable | RenameTables | TruncateTable | DropTables) and not drops:
            changed.update(set(before) - met)
        met.update(before, after)
        names.update(before if drops else after)
    return frozenset(names - changed)
