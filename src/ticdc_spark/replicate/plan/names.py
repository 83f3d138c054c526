"""Which tables a DDL names. Pure."""

from collections.abc import Collection, Iterable

from ticdc_spark.ddl import change_tables, statement_of
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import CreateTable, RenameTables
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, TableName


def tables_before_and_after(change: SchemaChange) -> tuple[set[TableName], set[TableName]]:
    """The tables that a DDL names, before it and after it, by its SQL and by the schemas in its message. A shard's DDL
    names the merged table."""
    if change.merged is None:
        before, after = source_tables(change)
        return before | {*change.candidates}, after | {*change.candidates}
    named = {change.merged, *change.others}
    return named, named


def is_guessed(change: SchemaChange) -> bool:
    """Whether the SQL of a RENAME names a table without its database.

    Then only the table's name identifies it, unless the protocol sends the old table beside the SQL.
    """
    try:
        statement = parse(change.query)
    except MessageError:
        return False
    return isinstance(statement, RenameTables) and any(not old[0] and new[0] for old, new in statement.pairs)


def source_tables(change: SchemaChange) -> tuple[set[TableName], set[TableName]]:
    """As ``tables_before_and_after``, but a shard has its own name."""
    try:
        before, after = map(set, change_tables(change))
    except MessageError:
        before, after = set(), set()
    drops = bool(before) and not after
    if change.pre_table is not None:
        before.add(change.pre_table.full_name)
    if change.table is not None and not drops:  # some protocols send a dropped table as both
        after.add(change.table.full_name)
    if not before and not after and change.name:
        before.add(change.full_name)
    return before, after


def tables_of(change: SchemaChange) -> set[TableName]:
    """Every table that a DDL names; none for a DDL on a database."""
    before, after = tables_before_and_after(change)
    return before | after


def model_of(change: SchemaChange) -> TableName | None:
    """The table that a CREATE TABLE … LIKE names; ``None``: it is another DDL."""
    try:
        statement = statement_of(change)
    except MessageError:
        return None
    if not isinstance(statement, CreateTable) or statement.like is None:
        return None
    return statement.like[0] or change.schema, statement.like[1]


def joined_to(names: Collection[TableName], changes: Iterable[SchemaChange]) -> set[TableName]:
    """Tables, and all that DDLs join with them by naming several tables, as a RENAME does. A CREATE TABLE … LIKE joins
    the table with its model."""
    found = set(names)
    others = [joined for change in changes if len(joined := _joined_by(change)) > 1]
    while new := [joined for joined in others if joined & found and not joined <= found]:
        found.update(*new)
    return found


def _joined_by(change: SchemaChange) -> set[TableName]:
    # The model of a merged table's DDL is a shard, by its own name.
    model = None if change.merged is not None else model_of(change)
    return tables_of(change) if model is None else {*tables_of(change), model}
