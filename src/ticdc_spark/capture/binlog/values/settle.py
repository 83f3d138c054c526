"""The real types of a table's columns, from the table map of its rows. A DDL leaves some details to the server."""

from __future__ import annotations

import re

from msgspec.structs import replace

from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.capture.binlog.wire.table_map import BLOB, TableMap, Wire
from ticdc_spark.capture.table_ids import version_of_rows
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.mysql import is_bytes, is_text

_BY_LENGTH = {1: "tiny", 2: "", 3: "medium", 4: "long"}
"""The kinds of TEXT and BLOB, by the bytes of the length before a value."""
_HIDDEN = re.compile(r"DB_ROW_HASH_\d+")


def settled(table: Table, wire: TableMap, charsets: Charsets) -> Table:
    """The table with its columns' real character sets, kinds of TEXT, and members."""
    known = dict(zip(wire.names, wire.columns, strict=False))
    columns = tuple(
        replace(column, type=_settled(column.type, known[column.name], charsets)) if column.name in known else column
        for column in table.columns
    )
    return table if columns == table.columns else replace(table, columns=columns, version=version_of_rows(table))


def _settled(kind: ColumnType, wire: Wire, charsets: Charsets) -> ColumnType:
    """The real type. CONVERT TO CHARACTER SET gives a longer kind of TEXT if the text may not fit the old one.
    ``TEXT(100)`` is the shortest kind for that many characters. So is a VARCHAR that is too long, unless sql_mode is
    strict.
    """
    if kind.name in ("enum", "set"):
        kind = _with_members(kind, tuple(charsets.text(member, wire.collation) for member in wire.members))
    elif not is_text(kind) and not is_bytes(kind):
        return kind
    if wire.collation is not None and charsets.has(wire.collation) and (is_text(kind) or kind.name in ("enum", "set")):
        charset, collate = charsets.names(wire.collation)
        if charset != "binary":
            kind = replace(kind, charset=charset, collate=collate)
    is_long = kind.name.endswith(("text", "blob")) or kind.name.startswith("var")
    if is_long and wire.code == BLOB and wire.meta in _BY_LENGTH:
        name = _BY_LENGTH[wire.meta] + ("text" if is_text(kind) else "blob")
        if name != kind.name:
            kind = replace(kind, name=name, length=2 ** (8 * wire.meta) - 1)
    return kind


def _with_members(kind: ColumnType, members: tuple[str, ...]) -> ColumnType:
    """A server stores members of ENUM and SET without trailing spaces."""
    same = [one.rstrip(" ") for one in members] == [one.rstrip(" ") for one in kind.elements]
    return replace(kind, elements=members) if same else kind


def is_hidden(name: str) -> bool:
    """Whether it is a column that MariaDB adds for a key on a long text. No statement sees it."""
    return _HIDDEN.fullmatch(name) is not None


def hidden(name: str) -> Column:
    """That column. It is skipped like a virtual column."""
    if not is_hidden(name):
        raise MessageError(f"binlog: column `{name}` is not known")
    return Column(name=name, type=ColumnType(name="bigint", length=20, unsigned=True), virtual=True)
