"""Follow the partitions of tables through the SQL of DDLs, since messages do not have them. Pure."""

from collections.abc import Mapping

import msgspec

from ticdc_spark.ddl import statement_of
from ticdc_spark.ddl.partitions import change_partitions, created_partitions
from ticdc_spark.ddl.statements import Alteration, AlterTable, ChangeColumn, Charset, CreateTable, MoveRows
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Partitioning, SchemaChange, Table, TableName
from ticdc_spark.mysql import TEXT_TYPES


def with_partitions(
    change: SchemaChange,
    tables: Mapping[TableName, Table],
    model: TableName | None,
    *,
    from_sql: bool,
    zone: str | None = None,
) -> SchemaChange:
    """A DDL with the partitions of its tables filled in.

    ``tables``: before the DDL. ``model``: the table that CREATE LIKE names. ``from_sql``: the schemas come from SQL,
    which may not say which collation text has. ``zone``: the time zone of the session that ran the DDL.
    """
    if change.table is None:
        return change
    try:
        statement = statement_of(change)
    except MessageError:
        return _having(change, None, None)
    if isinstance(statement, CreateTable):
        liked = tables.get(model) if model is not None else None
        found = created_partitions(statement, from_sql=from_sql, zone=zone)
        return _having(change, None, found if liked is None else liked.partitioning)
    source = change.pre_table or change.table
    known = tables.get(source.full_name)
    if isinstance(statement, AlterTable):  # EXCHANGE PARTITION comes with the other table as the table before it.
        known = tables.get((statement.name[0] or change.schema, statement.name[1]), known)
    if isinstance(statement, AlterTable) and (other := _other_of(statement, change)) is not None:
        return _exchanged(change, statement, known, tables.get(other), zone)
    before = None if known is None else known.partitioning
    after = before
    if isinstance(statement, AlterTable):
        after = change_partitions(before, statement.parts, zone)
        if from_sql and after is not None and _may_change_collations(statement, after, change.table):
            after = None
        if change.pre_table is None and any(isinstance(part, MoveRows) for part in statement.parts):
            change = msgspec.structs.replace(change, pre_table=change.table)  # The DDL changes no column.
    return _having(change, before, after)


def _other_of(statement: AlterTable, change: SchemaChange) -> TableName | None:
    """The table that gets the rows of a partition by EXCHANGE PARTITION."""
    others = [part.other for part in statement.parts if isinstance(part, MoveRows) and part.other is not None]
    return (others[0][0] or change.schema, others[0][1]) if others else None


def _exchanged(
    change: SchemaChange, statement: AlterTable, known: Table | None, other: Table | None, zone: str | None
) -> SchemaChange:
    """Turn an EXCHANGE PARTITION into a DDL of the partitioned table: its message may be of the other table."""
    before = None if known is None else known.partitioning
    if before is not None and other is None:
        before = msgspec.structs.replace(before, doubt="the job does not know the other table")
    table = change.table if known is None else known
    if change.table is not None and table is not None and change.table.full_name == _name(table):
        table = change.table
    change = msgspec.structs.replace(change, table=table, pre_table=known or change.table)
    return _having(
        change, before, change_partitions(None if known is None else known.partitioning, statement.parts, zone)
    )


def _name(table: Table) -> TableName:
    return table.schema, table.name


def _may_change_collations(statement: AlterTable, found: Partitioning, table: Table) -> bool:
    names = {name.casefold() for name in found.columns}
    is_text = any(one.type.name in TEXT_TYPES for one in table.columns if one.name.casefold() in names)
    may = (Charset, ChangeColumn, MoveRows)
    return is_text and any(isinstance(part, may) and not _is_of_partitions_only(part) for part in statement.parts)


def _is_of_partitions_only(part: Alteration) -> bool:
    return isinstance(part, MoveRows) and not part.what.upper().startswith("PARTITION")


def _having(change: SchemaChange, before: Partitioning | None, after: Partitioning | None) -> SchemaChange:
    assert change.table is not None, "it has one"
    table = msgspec.structs.replace(change.table, partitioning=after)
    if change.pre_table is None:
        return msgspec.structs.replace(change, table=table)
    return msgspec.structs.replace(
        change, table=table, pre_table=msgspec.structs.replace(change.pre_table, partitioning=before)
    )


def without_partitions(table: Table) -> Table:
    """A table without its known partitions."""
    return table if table.partitioning is None else msgspec.structs.replace(table, partitioning=None)


def change_without_partitions(change: SchemaChange) -> SchemaChange:
    """A DDL whose tables have no known partitions."""
    table, before = (one and without_partitions(one) for one in (change.table, change.pre_table))
    return msgspec.structs.replace(change, table=table, pre_table=before)
