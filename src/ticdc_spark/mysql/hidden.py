"""Columns that TiDB adds to soft-delete and active-active tables. Rows have them, but no DDL names them."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from ticdc_spark.model import Column, Table
from ticdc_spark.mysql.types import parse_type

SOFT_DELETE_TIME = "_tidb_softdelete_time"
"""The column whose value marks a row as deleted: queries of TiDB do not return the row."""
HIDDEN_COLUMNS = (
    Column(name=SOFT_DELETE_TIME, type=parse_type("timestamp(6)"), virtual=False, stored=False),
    Column(name="_tidb_origin_ts", type=parse_type("bigint unsigned"), virtual=False, stored=False),
)
HIDDEN_NAMES = frozenset(column.name for column in HIDDEN_COLUMNS)


def with_hidden_columns(table: Table, names: Collection[str]) -> Table:
    """A table with the named hidden columns appended that it does not have yet."""
    there = {column.name for column in table.columns}
    added = tuple(column for column in HIDDEN_COLUMNS if column.name in names and column.name not in there)
    return replace(table, columns=(*table.columns, *added)) if added else table


def keep_hidden_columns(table: Table, before: Table | None) -> Table:
    """A table after a DDL, with its earlier hidden columns: no DDL names them, so none drops them."""
    columns = () if before is None else before.columns
    return with_hidden_columns(table, {column.name for column in columns} & HIDDEN_NAMES)
