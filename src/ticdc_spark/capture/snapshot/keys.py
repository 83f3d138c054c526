"""Chunks of a server's table: ranges of keys, as SQL and as text, and whether the table is still the same."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec

from ticdc_spark.clients.mysql import quoted, selected
from ticdc_spark.clients.mysql_texts import is_raw, raw_literal
from ticdc_spark.errors import SourceFault
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import is_integer, no_key

Key: TypeAlias = tuple[Value, ...]
GONE = frozenset({1049, 1146})
"""Error codes of a server: there is no such database or table."""
ALTERED = frozenset({1054, 1412})
"""Error codes of a server: there is no such column, or the table was altered since the transaction began."""
MARGIN_MS = 1000
"""Added to the server's clock: a binlog has the time of commit in whole seconds."""
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")


class Range(msgspec.Struct, frozen=True):
    """Keys above one key, up to and including another; ``None``: from the first, to the last."""

    above: Key | None
    upto: Key | None


def condition(names: Sequence[str], types: Sequence[ColumnType], of: Range, literal: Callable[[Any], str]) -> str:
    """The WHERE of a range. ``literal``: writes a value as SQL."""
    above = [] if of.above is None else [_compare(names, types, of.above, ">", literal)]
    upto = [] if of.upto is None else [_compare(names, types, of.upto, "<", literal)]
    return " AND ".join([*above, *upto]) or "TRUE"


def _compare(
    names: Sequence[str], types: Sequence[ColumnType], key: Key, sign: Literal[">", "<"], literal: Callable[[Any], str]
) -> str:
    """A comparison of row values as single columns. The first column also comes alone, so that servers use an index."""
    columns = [quoted(name) for name in names]
    values = [_literal(kind, value, literal) for kind, value in zip(types, key, strict=True)]
    found = f"{columns[-1]} {sign}{'=' if sign == '<' else ''} {values[-1]}"
    for column, value in zip(columns[-2::-1], values[-2::-1], strict=True):
        found = f"({column} {sign} {value} OR ({column} = {value} AND {found}))"
    return found if len(columns) == 1 else f"({columns[0]} {sign}= {values[0]} AND {found})"


def _literal(kind: ColumnType, value: Value, literal: Callable[[Any], str]) -> str:
    if isinstance(value, bytes) and is_raw(kind):
        return raw_literal(kind, value)
    return literal(_sql_value(kind, value))


def _sql_value(kind: ColumnType, value: Value) -> Any:
    """The value in SQL. ENUM, SET and BIT are compared and sorted as numbers."""
    if is_integer(kind) and value is not None:
        return int(value)
    if kind.name == "decimal" and isinstance(value, str):
        return Decimal(value)
    return float(value) if kind.name in ("float", "double") and value is not None else value


@dataclass(frozen=True, kw_only=True)
class KeyedTable:
    """A table whose rows are read by ranges of its key."""

    source: str
    """The table's name as SQL."""
    names: Sequence[str]
    """The columns of the key."""
    types: Sequence[ColumnType]
    literal: Callable[[Any], str]
    """Writes a value as SQL."""
    select: Callable[[str, ColumnType], str] = selected
    """Gives the SELECT expression for a column of the key."""


def next_ranges(
    table: KeyedTable, fetch: Callable[[str], Key | None], upto: str, *, rows: int, count: int
) -> list[Range]:
    """The next ``count`` ranges of a table after a key, each of about ``rows`` rows. The table's last range has no end.

    ``fetch``: gives the first row of a query. ``upto``: the key's text (``key_text``).

    Raises: SourceFault for a key that is returned as its own successor, as utf8mb4 lacks some of its characters.
    DecisionNeeded for a table without a key.
    """
    source, names, types = table.source, table.names, table.types
    if not names:
        raise no_key(source, "[snapshot] or [job]")
    chosen = ", ".join(table.select(name, kind) for name, kind in zip(names, types, strict=True))
    ordered = ", ".join(map(quoted, names))
    above, found = read_key(upto), list[Range]()
    while len(found) < count:
        where = condition(names, types, Range(above, None), table.literal)
        end = fetch(f"SELECT {chosen} FROM {source} WHERE {where} ORDER BY {ordered} LIMIT 1 OFFSET {rows - 1}")
        if end is not None and end == above:
            raise SourceFault(
                f"{source}: ranges of its key ({ordered}) do not get past {end}: it has characters that the server "
                f"cannot convert to utf8mb4; correct that row, or exclude the table"
            )
        found.append(Range(above, end))
        if end is None:
            break
        above = end
    return found


def plain_create(create: str) -> str:
    """A CREATE statement without the parts that INSERT changes."""
    return _COUNTER.sub("", create)


def key_text(key: Key) -> str:
    """A key as text. See ``read_key``."""
    cells = [["b", b64encode(cell).decode()] if isinstance(cell, bytes) else ["t", cell] for cell in key]
    return msgspec.json.encode(cells).decode()


def read_key(text: str) -> Key | None:
    """The key of a text; ``None`` for ``""``."""
    if not text:
        return None
    cells = msgspec.json.decode(text.encode(), type=list[tuple[str, str]])
    return tuple(b64decode(cell) if kind == "b" else cell for kind, cell in cells)
