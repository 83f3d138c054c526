"""Rows and values in Spark SQL, for sinks whose tables Spark writes."""

import re
from collections.abc import Sequence

from ticdc_spark.changes.columns import ALWAYS, COUNT, OP, TIES
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Value
from ticdc_spark.sinks.base import Fill
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.spark.sql import quote, text_literal
from ticdc_spark.spark.types import LakeColumn, to_arrow

DATA_ERROR = re.compile(
    r"CAST_INVALID_INPUT|CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|USER_RAISED_EXCEPTION|ARITHMETIC_OVERFLOW"
)
"""Matches Spark's errors for a value that does not fit, but not those for a broken lake."""

_NUMBER = "_ticdc_number"


def merge_sql(table: str, view: str, columns: Sequence[LakeColumn], by: LakeColumn | None = None) -> str:
    """A MERGE of net changes: the last image of each key, with its op.

    ``table``, ``view``: for SQL. ``by``: the column that orders the changes; only rows that are not newer are changed.
    """
    names = [quote(column.name) for column in columns]
    on = " AND ".join(f"t.{quote(column.name)} = s.{quote(column.name)}" for column in columns if column.key)
    rest = [quote(column.name) for column in columns if not column.key]
    newer = "" if by is None else f" AND ({_is_newer(quote(by.name))})"
    update = f"WHEN MATCHED{newer} THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in rest)}" if rest else ""
    return (
        f"MERGE INTO {table} t USING {view} s ON {on} "
        f"WHEN MATCHED AND s.{OP} = 'd'{newer} THEN DELETE {update} "
        f"WHEN NOT MATCHED AND s.{OP} <> 'd' THEN "
        f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def counts_sql(table: str, view: str, columns: Sequence[LakeColumn], have: Sequence[str]) -> str:
    """A MERGE of counts: for each distinct row, how many copies are added or removed.

    Spark's MERGE cannot pick one of several equal rows. So if copies of a row are removed, all its copies are deleted,
    and the remaining ones are inserted again. They keep the values of columns that other writers added.
    ``table``, ``view``: for SQL. ``have``: the names of all columns of the table.
    """
    names, every = [quote(column.name) for column in columns], list(map(quote, have))
    cells = _cells(columns)
    same = " AND ".join(f"{cell.format('t')} <=> {cell.format('s')}" for cell in cells)
    mine = [name if name in names else "NULL" for name in every]
    stay = (
        f"SELECT {', '.join(f't.{name}' for name in every)}, s.{COUNT}, row_number() OVER "
        f"(PARTITION BY {', '.join(cell.format('s') for cell in cells)} ORDER BY s.{COUNT}) AS {_NUMBER} "
        f"FROM {table} t JOIN {view} s ON {same} WHERE s.{COUNT} < 0"
    )
    source = (
        f"SELECT 'd' AS {OP}, {', '.join(f'{cell} AS {name}' for cell, name in zip(mine, every, strict=True))} "
        f"FROM {view} WHERE {COUNT} < 0 "
        f"UNION ALL SELECT 'i', {', '.join(every)} FROM ({stay}) WHERE {_NUMBER} > -{COUNT} "
        f"UNION ALL SELECT 'i', {', '.join(mine)} FROM {view} LATERAL VIEW explode(sequence(1L, {COUNT})) AS {_NUMBER} "
        f"WHERE {COUNT} > 0"
    )
    return (
        f"MERGE INTO {table} t USING ({source}) s ON s.{OP} = 'd' AND {same} WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED AND s.{OP} = 'i' THEN "
        f"INSERT ({', '.join(every)}) VALUES ({', '.join(f's.{name}' for name in every)})"
    )


def _cells(columns: Sequence[LakeColumn]) -> list[str]:
    """Expressions that distinguish whole rows, with a placeholder for the table. Spark equates -0.0 and 0.0, so floats
    are compared as text, too."""
    names = [f"{{0}}.{quote(column.name).replace('{', '{{').replace('}', '}}')}" for column in columns]
    signed = [column.type.spark in ("float", "double", "array<float>") for column in columns]
    return names + [f"CAST({name} AS STRING)" for name, is_signed in zip(names, signed, strict=True) if is_signed]


def where_sql(where: Sequence[Sequence[Condition]]) -> str:
    """SQL of whether a row meets all conditions of one group in ``where``. Raises: as ``_condition``"""
    return " OR ".join(f"({' AND '.join(map(_condition, tests)) or 'true'})" for tests in where) or "false"


def _condition(one: Condition) -> str:
    """SQL of a condition. Raises: DecisionNeeded for a value that the column's type cannot hold"""
    name = quote(one.column.name)
    listed = f"rtrim({name})" if one.rtrim else name

    def sql(value: Value) -> str:
        return literal(one.column, Fill(value, one.lake))

    parts = [
        f"{name} {sign} {sql(value)}" for sign, value in ((">=", one.at_least), ("<", one.below)) if value is not None
    ]
    if one.any_of is not None:
        parts.append(f"{listed} IN ({', '.join(map(sql, one.any_of))})" if one.any_of else "false")
    if one.none_of:
        parts.append(f"{listed} NOT IN ({', '.join(map(sql, one.none_of))})")
    if one.remainder is not None:
        parts.append("abs({} % {}) = {}".format(name, *one.remainder))
    found = f"({' AND '.join(parts) or 'true'}) AND {name} IS NOT NULL"
    return f"({found} OR {name} IS NULL)" if one.or_null else f"({found})"


def _is_newer(time: str) -> str:
    """SQL of whether an ordered change replaces the row of its key. ``time``: the column, quoted."""
    return f"s.{time} > coalesce(t.{time}, 0) OR (s.{TIES} AND s.{time} = coalesce(t.{time}, 0)) OR s.{ALWAYS}"


def literal(column: LakeColumn, fill: Fill) -> str:
    """SQL of a constant for a column.

    Raises: DecisionNeeded if the column's type cannot hold it.
    """
    array, bad, _ = to_arrow(column, fill.lake)([fill.value])
    if bad:
        message = f"the default of the new column `{column.source}` cannot be read: {bad[0]}"
        raise DecisionNeeded(message)
    value = array[0].as_py()
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if column.type.arrow in {"local", "instant"}:
        value = value.replace(tzinfo=None)
    return f"CAST({text_literal(str(value))} AS {column.type.spark})"
