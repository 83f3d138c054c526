"""Turns rows of the generic form back into changes: the inverse of ``generic``."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ticdc_spark.datasource.schemas import Known
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import (
    Bootstrap,
    Change,
    ColumnType,
    Message,
    Op,
    Row,
    RowChange,
    SchemaChange,
    Table,
    Value,
    Watermark,
)
from ticdc_spark.mysql import enum_index, set_mask
from ticdc_spark.streams.reader import Found
from ticdc_spark.streams.sql_tables import SqlTables

OPS: Mapping[str, Op] = {
    "insert": "insert",
    "update_postimage": "update",
    "delete": "delete",
    "upsert": "upsert",
}
NEEDED = ("_change_type", "_commit_version", "schema", "table", "before", "after")
"""The columns that a frame must have."""
_IMAGE = msgspec.json.Decoder(dict[str, str | dict[str, str] | None])
_TABLE = msgspec.json.Decoder(Table)
_DDL = msgspec.json.Decoder(SchemaChange)


class RowsToChanges:
    """Reads rows. Each task has its own, and reads the rows of a partition in their order."""

    def __init__(self, given: Known, topic: str | None) -> None:
        """``given``: tables for rows without ``table_schema``. ``topic``: for all rows; ``None``: from their column."""
        self._given = given
        self._topic = topic
        self._tables: dict[str, Table] = {}
        self._sql = SqlTables()

    def tables_of(self, change: SchemaChange) -> tuple[Table | None, Table | None]:
        """The tables before and after a DDL, if the DDLs of the task show them."""
        return self._sql.around(change)

    def read(self, row: Mapping[str, Any]) -> Found:
        """The change of a row, and the place of its message. Raises: UsageError naming the column and what is
        allowed"""
        topic = self._topic or row.get("topic")
        if not topic:
            raise UsageError("column topic: a row has none; set the option topic")
        if (row.get("partition") or 0) < 0:
            raise UsageError(f"column partition: found {row['partition']}; allowed: 0 or more")
        message = Message(
            topic=topic, partition=row.get("partition") or 0, offset=row.get("offset") or 0, key=None, value=None
        )
        try:
            event = self._event(row)
        except (MessageError, msgspec.MsgspecError, ValueError) as error:
            place = f"{message.topic}/{message.partition}/{message.offset}"
            raise UsageError(f"a row cannot be written ({place}, {row['schema']}.{row['table']}): {error}") from error
        return Found(message, row.get("seq") or 0, event)

    def _event(self, row: Mapping[str, Any]) -> Change:
        kind, ts, text = row["_change_type"], row["_commit_version"] or 0, row.get("table_schema")
        if kind in OPS:
            table = self._table(row, text)
            types = {column.name: column.type for column in table.columns}
            before, after = (_image(types, row[side], side) for side in ("before", "after"))
            if (before if kind == "delete" else after) is None:
                raise MessageError(f"a row of kind {kind} needs the column {'before' if kind == 'delete' else 'after'}")
            return RowChange(
                op=OPS[kind],
                table=table,
                commit_ts=ts,
                before=before,
                after=after,
                table_id=row.get("table_id"),
                partial=bool(row.get("partial")),
            )
        if kind == "watermark":
            return Watermark(ts)
        if text is None and kind in ("ddl", "bootstrap"):
            raise MessageError(f"a row of kind {kind} needs the column table_schema: read it with with-schemas = true")
        if text is not None and kind == "bootstrap":
            return Bootstrap(_TABLE.decode(text))
        if text is not None and kind == "ddl":
            change = _DDL.decode(text)
            if change.table is None and change.pre_table is None:
                self._sql.follow(change)
            return change
        allowed = ", ".join([*OPS, "ddl", "watermark", "bootstrap"])
        raise MessageError(f"column _change_type: found {kind!r}; allowed: {allowed}")

    def _table(self, row: Mapping[str, Any], text: str | None) -> Table:
        if text is not None:
            found = self._tables.get(text)
            if found is None:
                found = self._tables[text] = _TABLE.decode(text)
            return found
        given = self._given.newest((row["schema"], row["table"]))
        if given is None:
            raise MessageError(
                "its schema is not known; read it with with-schemas = true, or set the option ddl to its CREATE TABLE"
            )
        return given


def _image(types: Mapping[str, ColumnType], text: str | None, side: str) -> Row | None:
    if text is None:
        return None
    image = _IMAGE.decode(text)
    for name in image:
        if name not in types:
            raise MessageError(f"column {side}: the table has no column `{name}`")
    return {name: _value(types[name], cell, name) for name, cell in image.items()}


_INDEX: Mapping[str, Callable[[ColumnType, str], str]] = {"enum": enum_index, "set": set_mask}


def _value(kind: ColumnType, cell: str | dict[str, str] | None, name: str) -> Value:
    if isinstance(cell, dict):
        try:
            return binascii.a2b_base64(cell["base64"], strict_mode=True)
        except (KeyError, binascii.Error) as error:
            raise MessageError(f'column `{name}`: found {cell!r}; allowed: text, null or {{"base64": …}}') from error
    if cell is None or kind.name not in _INDEX or not kind.elements:
        return cell
    if cell.isdigit() and cell not in kind.elements:
        return cell  # a number, if no member has this name
    return _INDEX[kind.name](kind, cell)
