"""A merged table at the source: SQL for all its shards together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ticdc_spark.clients.mysql import quoted
from ticdc_spark.model import Column, Table, TableName
from ticdc_spark.mysql import is_integer

Shards = Sequence[tuple[TableName, Table]]
"""The shards of a merged table: the name of each at the source, and its table with the job's name."""


def union(shards: Shards, origin: Sequence[str], columns: Sequence[str], where: str) -> str:
    """SQL for the rows of all shards, as a table with ``origin`` and ``columns``.

    ``where``: the condition of the rows that the target has; ``""``: it has all rows.
    """
    found = []
    for source, table in shards:
        names = zip(origin, table.full_name[-len(origin) :], strict=True)
        selected = [f"_utf8mb4 X'{value.encode().hex()}' AS {quoted(name)}" for name, value in names]
        selected += map(quoted, columns)
        kept = f" WHERE {where}" if where else ""
        found.append(f"SELECT {', '.join(selected)} FROM {'.'.join(map(quoted, source))}{kept}")
    return f"({' UNION ALL '.join(found)}) AS merged"


def uneven(shards: Shards) -> dict[str, str]:
    """Columns that are not compared because the shards differ in them, with reasons."""
    first: dict[str, Column] = {}
    reasons: dict[str, str] = {}
    for _, table in shards:
        for column in table.columns:
            other = first.setdefault(column.name, column)
            if column.type.name in ("enum", "set", "bit"):
                reasons[column.name] = "ENUM, SET and BIT of a merged table are not compared"
            elif other.type != column.type and not (is_integer(other.type) and is_integer(column.type)):
                reasons[column.name] = f"its type in `{table.schema}`.`{table.name}` differs from other tables"
    for _, table in shards:
        there = {column.name for column in table.columns}
        for name in first.keys() - there:
            reasons[name] = f"`{table.schema}`.`{table.name}` does not have it"
    return reasons
