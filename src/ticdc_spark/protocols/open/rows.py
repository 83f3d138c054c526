"""Writes keys and images of the Open protocol. Writers are compiled once per table."""

from __future__ import annotations

from collections.abc import Collection

from ticdc_spark.model import Column, Index, RowChange, Table
from ticdc_spark.mysql import INTEGER_BITS, handle_key
from ticdc_spark.protocols.open.types import (
    BINARY,
    GENERATED,
    HANDLE,
    MULTIPLE,
    NULLABLE,
    PRIMARY,
    UNIQUE,
    UNSIGNED,
    codec_for,
)
from ticdc_spark.protocols.shared.go_text import escape_html_text, quote
from ticdc_spark.protocols.shared.json_writer import JsonWriter, Part


class RowWriter:
    """Writes the rows of one table: keys and images."""

    def __init__(self, table: Table, zone: str) -> None:
        self.table = table
        self.keys = frozenset(handle_key(table))
        self._row_id = _row_id_column(table)
        names = (("scm", table.schema), ("tbl", table.name))
        self._names = escape_html_text("".join(f',"{field}":{quote(name)}' for field, name in names if name))
        self._images = JsonWriter(
            table,
            [
                Part(column.name, _head(table, column, self.keys), codec_for(column.type).write(column.type, zone))
                for column in sorted(table.columns, key=lambda column: column.name)
                if not column.virtual
            ],
            tail="}",
        )
        self.image = self._images.write

    def key(self, change: RowChange, *, keys_only: bool, location: str) -> bytes:
        """The key of a change. ``keys_only``: its images have only handle key columns."""
        more = ',"ohk":true' if keys_only and not location else ""
        if location:
            more = escape_html_text(f',"ccl":{quote(location)}')
        row_id, partition = self._handle(change), change.table_id
        shown = f',"rid":{row_id}' if row_id else ""
        if partition and partition != self.table.table_id:
            shown += f',"ptn":{partition}'
        return f'{{"ts":{change.commit_ts}{self._names}{shown},"t":1{more}}}'.encode()

    def _handle(self, change: RowChange) -> int:
        """TiDB's handle, if the row has it: the value of an integer clustered primary key. Otherwise 0 (omitted)."""
        row = change.after or change.before or {}
        value = row.get(self._row_id) if self._row_id else None
        if not isinstance(value, str):
            return 0
        handle = int(value)
        return handle - (1 << 64) if handle >= 1 << 63 else handle


def _indexes(table: Table) -> list[Index]:
    """The table's indexes, without the "primary" that Simple invents for a unique handle key."""
    unique = {index.columns for index in table.indexes if index.unique and not index.primary}
    return [index for index in table.indexes if index.name != "primary" or index.columns not in unique]


def _row_id_column(table: Table) -> str | None:
    # TiDB has no index for such a key, so a schema names it "primary" in lower case
    for index in _indexes(table):
        if index.primary and index.name == "primary" and len(index.columns) == 1:
            types = {column.name: column.type.name for column in table.columns}
            return index.columns[0] if types.get(index.columns[0]) in INTEGER_BITS else None
    return None


def _head(table: Table, column: Column, keys: Collection[str]) -> str:
    handle = '"h":true,' if column.name in keys else ""
    code, flags = codec_for(column.type).code, _flags(table, column, keys)
    return f'{quote(column.name)}:{{"t":{code},{handle}"f":{flags},"v":'


def _flags(table: Table, column: Column, keys: Collection[str]) -> int:
    kind = column.type
    flags = BINARY * (kind.charset == "binary") | NULLABLE * column.nullable | UNSIGNED * kind.unsigned
    flags |= HANDLE * (column.name in keys) | GENERATED * bool(column.virtual or column.stored)
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
