"""Partition rules: which partition of its topic a row goes to, by TiCDC's hash.

The hash begins with 0. Each write changes it: exclusive or with the written bytes' CRC-32 (IEEE). Schema and table
are one write, each column's name and value another. A NULL is not written, as in the new architecture. The classic one
writes ``null`` for the columns of a ``columns`` rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import TypeAlias
from zlib import crc32

from ticdc_spark.changefeed.config.settings import DispatchRule
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Column, Row, RowChange, Table
from ticdc_spark.mysql import handle_key, is_utc, local_timestamp

Partitioner: TypeAlias = Callable[[RowChange, int], int]
"""(row change, number of partitions) → partition. Raises MessageError for a row that lacks the columns."""
_Bytes: TypeAlias = Callable[[str], bytes]


def compile_partitioner(rule: DispatchRule, table: Table, *, time_zone: str) -> Partitioner:
    """Compile a rule for one version of a table.

    ``time_zone``: for hashing a TIMESTAMP. Raises: UsageError, with the table's name, for an index or column that does
    not exist or cannot be used.
    """
    kind = rule.partition.lower()
    if kind == "ts":
        return _by_commit_ts
    columns = dispatch_columns(rule, table)
    if not columns:
        return partial(_by_hash, table_hash(table.schema, table.name))
    writes = tuple(_write(column, time_zone) for column in columns)
    return partial(_by_columns, table_hash(table.schema, table.name), writes, table)


def dispatch_columns(rule: DispatchRule, table: Table) -> tuple[Column, ...]:
    """The columns whose values a rule hashes; none for ``default``, ``table`` and ``ts``. Raises: UsageError."""
    kind = rule.partition.lower()
    if kind == "columns":
        return _named(rule.columns, table)
    if kind not in ("index-value", "rowid"):
        return ()
    by_name = {column.name: column for column in table.columns}
    if rule.index is None or not rule.index:
        return tuple(by_name[name] for name in handle_key(table) if name in by_name)
    return _of_index(rule.index, table)


def table_hash(schema: str, table: str) -> int:
    """The hash of every row of a table, for ``default`` and ``table``."""
    return crc32(table.encode(), crc32(schema.encode()))


def _by_commit_ts(change: RowChange, partitions: int) -> int:
    return change.commit_ts % partitions


def _by_hash(number: int, _change: RowChange, partitions: int) -> int:
    return number % partitions


def _by_columns(
    number: int, writes: Sequence[tuple[str, int, _Bytes]], table: Table, change: RowChange, partitions: int
) -> int:
    row = change.before if change.after is None else change.after
    try:
        for name, seed, of in writes:
            value = row[name]  # type: ignore[index]
            if value is not None:
                number ^= crc32(of(value) if value.__class__ is str else value, seed)  # type: ignore[arg-type]
    except (KeyError, TypeError) as error:
        raise _missing(table, [name for name, _, _ in writes], row) from error
    return number % partitions


def _missing(table: Table, names: Sequence[str], row: Row | None) -> MessageError:
    lacks = [name for name in names if name not in (row or {})]
    return MessageError(f"`{table.schema}`.`{table.name}`: a row lacks {lacks}, by which it is dispatched")


def _write(column: Column, time_zone: str) -> tuple[str, int, _Bytes]:
    """Hash a column: the CRC after its name, and the text of its value."""
    return column.name, crc32(column.name.encode()), _text_of(column, time_zone)


def _text_of(column: Column, time_zone: str) -> _Bytes:
    name = column.type.name
    if name in ("float", "double"):
        return _plain_number
    if name == "timestamp" and not is_utc(time_zone):
        return lambda text: local_timestamp(text, time_zone).encode()
    return str.encode


def _plain_number(text: str) -> bytes:
    """A float without an exponent, with the same digits."""
    return (format(Decimal(text), "f") if "e" in text else text).encode()


def _named(names: Sequence[str], table: Table) -> tuple[Column, ...]:
    by_name = {column.name.lower(): column for column in table.columns}
    where = f"`{table.schema}`.`{table.name}`: columns of a dispatcher"
    found = []
    for name in names:
        column = by_name.get(name.lower())
        if column is None:
            have = ", ".join(column.name for column in table.columns)
            raise UsageError(f"{where}: there is no column {name!r}; it has {have}")
        if column.virtual:
            raise UsageError(f"{where}: {name!r} is a virtual generated column, which no row has")
        found.append(column)
    return tuple(found)


def _of_index(name: str, table: Table) -> tuple[Column, ...]:
    where = f"`{table.schema}`.`{table.name}`: index of a dispatcher"
    index = next((index for index in table.indexes if index.name.lower() == name.lower()), None)
    if index is None:
        have = ", ".join(index.name for index in table.indexes) or "none"
        raise UsageError(f"{where}: there is no index {name!r}; it has {have}")
    if not index.unique and not index.primary:
        raise UsageError(f"{where}: {name!r} is not unique; an index by which rows are dispatched must be")
    return _named(index.columns, table)
