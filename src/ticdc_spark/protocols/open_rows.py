"""Rows to images of the Open protocol: compiled once per table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Index, Row, RowChange, Table
from ticdc_spark.mysql import INTEGER_BITS, handle_key
from ticdc_spark.protocols.go_text import escape_html
from ticdc_spark.protocols.open_types import (
    BINARY,
    GENERATED,
    HANDLE,
    MULTIPLE,
    NULLABLE,
    PRIMARY,
    UNIQUE,
    UNSIGNED,
    form,
)

_ENCODER = msgspec.json.Encoder()


class _Part(NamedTuple):
    """A column: what stands before its value, and how that is written."""

    name: str
    head: bytes
    write: Callable[[Any], Any]


class ImageWriter:
    """Writes the images of one table."""

    def __init__(self, table: Table, zone: str) -> None:
        self.table = table
        self.keys = frozenset(handle_key(table))
        self._parts = [
            _Part(column.name, _head(table, column, self.keys), form(column.type).write(column.type, zone))
            for column in sorted(table.columns, key=lambda column: column.name)
            if not column.virtual
        ]
        self._names = {part.name for part in self._parts}
        self._row_id = _row_id_column(table)

    def image(self, row: Row, only: Collection[str] | None) -> bytes:
        """The image of a row, or of ``only`` these columns of it.

        Raises: MessageError if the row has a column that the table has not.
        """
        if not row.keys() <= self._names:
            raise MessageError(
                f"`{self.table.schema}`.`{self.table.name}` has no column {sorted(row.keys() - self._names)}"
            )
        cells = []
        for name, head, write in self._parts:
            if name in row and (only is None or name in only):
                value = row[name]
                cells.append(head + (b"null" if value is None else _ENCODER.encode(write(value))) + b"}")
        return escape_html(b"{" + b",".join(cells) + b"}")

    def row_id(self, change: RowChange) -> int:
        """TiDB's handle where the row tells it: the value of an integer clustered primary key; else 0 (left out)."""
        row = change.after or change.before or {}
        value = row.get(self._row_id) if self._row_id else None
        if not isinstance(value, str):
            return 0
        handle = int(value)
        return handle - (1 << 64) if handle >= 1 << 63 else handle

    def partition(self, change: RowChange) -> int:
        """The physical id of a partition; 0 (left out) for a table without partitions."""
        return 0 if change.table_id in (None, self.table.table_id) else change.table_id or 0


def _indexes(table: Table) -> list[Index]:
    """The indexes that the table has; without the "primary" that Simple makes up for a unique handle key."""
    unique = {index.columns for index in table.indexes if index.unique and not index.primary}
    return [index for index in table.indexes if index.name != "primary" or index.columns not in unique]


def _row_id_column(table: Table) -> str | None:
    # TiDB has no index for such a key, so that a schema names it "primary" in lower case
    for index in _indexes(table):
        if index.primary and index.name == "primary" and len(index.columns) == 1:
            types = {column.name: column.type.name for column in table.columns}
            return index.columns[0] if types.get(index.columns[0]) in INTEGER_BITS else None
    return None


def _head(table: Table, column: Column, keys: Collection[str]) -> bytes:
    handle = b'"h":true,' if column.name in keys else b""
    code, flags = form(column.type).code, _flags(table, column, keys)
    return _ENCODER.encode(column.name) + b':{"t":%d,%b"f":%d,"v":' % (code, handle, flags)


def _flags(table: Table, column: Column, keys: Collection[str]) -> int:
    kind = column.type
    flags = BINARY * (kind.charset == "binary") | NULLABLE * column.nullable | UNSIGNED * kind.unsigned
    flags |= HANDLE * (column.name in keys) | GENERATED * bool(column.virtual)
    for index in _indexes(table):
        if column.name not in index.columns:
            continue
        if index.primary:
            flags |= PRIMARY
        elif index.unique:
            flags |= UNIQUE
        # "multiple" is the first column of a plain index, and every column of one with several
        if len(index.columns) > 1 or not (index.primary or index.unique):
            flags |= MULTIPLE * (len(index.columns) > 1 or column.name == index.columns[0])
    return flags
