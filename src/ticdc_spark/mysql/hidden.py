"""Columns that TiDB gives to soft-delete and active-active tables; rows have them, and no DDL names them."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from ticdc_spark.model import Column, Table
from ticdc_spark.mysql.types import parse_type

SOFT_DELETE_TIME = "_tidb_softdelete_time"
"""The column whose value says that a row is deleted: queries of TiDB do not show the row."""
HIDDEN_COLUMNS = (
    Column(name=SOFT_DELETE_TIME, type=parse_type("timestamp(6)"), virtual=False, stored=False),
    Column(name="_tidb_origin_ts", type=parse_type("bigint unsigned"), virtual=False, stored=False),
)
HIDDEN_NAMES = frozenset(column.name for column in HIDDEN_COLUMNS)


def with_hidden_columns(table: Table, names: Collection[str]) -> Table:
    """A table with those of the hidden columns that are named and that it does not have yet, behind the others."""
    there = {column.name for column in table.columns}
    added = tuple(column for column in HIDDEN_COLUMNS if column.name in names and column.name not in there)
    return replace(table, columns=(*table.columns, *added)) if added else table


def keep_hidden_columns(table: Table, before: Table | None) -> Table:
    """A table after a DDL with the hidden columns that it had before: no DDL names them, so none drops them."""
    columns = () if before is None else before.columns
    return with_hidden_columns(table, {column.name for column in columns} & HIDDEN_NAMES)
