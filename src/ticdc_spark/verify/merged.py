"""A merged table at the source: its shards as one, in SQL. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ticdc_spark.clients.mysql import quoted
from ticdc_spark.model import Column, Table, TableName
from ticdc_spark.mysql import is_integer

Shards = Sequence[tuple[TableName, Table]]
"""The shards of a merged table: the name of each at the source, and the table under the job's name for it."""


def union(shards: Shards, origin: Sequence[str], columns: Sequence[str], where: str) -> str:
    """The rows of all shards, as a table that has ``origin`` and ``columns``.

    ``where``: the condition of the rows that the target has; ``""``: it has all.
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
    """Columns that are not compared, since the shards differ in them, each with the reason."""
    first: dict[str, Column] = {}
    reasons: dict[str, str] = {}
    for _, table in shards:
        for column in table.columns:
            other = first.setdefault(column.name, column)
            if column.type.name in ("enum", "set", "bit"):
                reasons[column.name] = "ENUM, SET and BIT of a merged table are not compared"
            elif other.type != column.type and not (is_integer(other.type) and is_integer(column.type)):
                reasons[column.name] = f"`{table.schema}`.`{table.name}` has another type of it than others"
    for _, table in shards:
        there = {column.name for column in table.columns}
        for name in first.keys() - there:
            reasons[name] = f"`{table.schema}`.`{table.name}` does not have it"
    return reasons
