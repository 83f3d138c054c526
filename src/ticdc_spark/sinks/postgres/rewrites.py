"""Changes rows that are already in the target."""

from collections.abc import Sequence

from ticdc_spark.clients.postgres import quoted
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import TableName, Value
from ticdc_spark.sinks.base import Fill, Stamp
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.postgres.convert import convert
from ticdc_spark.sinks.postgres.rows import PostgresRows
from ticdc_spark.sinks.postgres.staging import texts
from ticdc_spark.sinks.postgres.tables import put_stamp, sql_name
from ticdc_spark.sinks.postgres.types import type_name
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.types import LakeColumn, LakeOptions, to_arrow


class PostgresRewrites:
    """See ``sinks.base.Rewrites``."""

    def __init__(self, rows: PostgresRows) -> None:
        self._rows, self._tables = rows, rows.tables

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        convert(self._rows, table, old, column, conversion, stamp)

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        met, values = where_sql(where)
        with self._tables.step() as cursor:
            cursor.execute(f"DELETE FROM {sql_name(table)} WHERE {met}", values)
            put_stamp(cursor, table, stamp)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        names = [quoted(column.name) for column in columns]
        keys, listed = [quoted(column.name) for column in columns if column.key], ", ".join(names)
        on = " AND ".join(f"t.{name} = s.{name}" for name in keys)
        with self._tables.step() as cursor:
            cursor.execute(f"DELETE FROM {sql_name(table)} t USING {sql_name(source)} s WHERE {on}")
            cursor.execute(f"INSERT INTO {sql_name(table)} ({listed}) SELECT {listed} FROM {sql_name(source)}")
            put_stamp(cursor, table, stamp)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        try:
            value = text_of(column, fill.lake, fill.value)
        except ValueError as error:
            raise DecisionNeeded(f"the default of the new column `{column.source}` cannot be read: {error}") from error
        with self._tables.step() as cursor:
            sql = f"UPDATE {sql_name(table)} SET {quoted(column.name)} = $1::{type_name(column)}"
            cursor.execute(sql, (value,))
            put_stamp(cursor, table, stamp)


def text_of(column: LakeColumn, options: LakeOptions, value: Value) -> str | None:
    """A canonical value as text for the server. Raises: ValueError"""
    array, bad, _ = to_arrow(column, options)([value])
    if bad:
        raise ValueError(bad[0])
    found: str | None = texts(array)[0].as_py()
    return found


def where_sql(where: Sequence[Sequence[Condition]]) -> tuple[str, list[str] | None]:
    """SQL of whether a row meets all conditions of one group in ``where``, and its parameters."""
    values: list[str] = []
    some = (" AND ".join(_test_of(one, values) for one in tests) or "TRUE" for tests in where)
    return " OR ".join(f"({met})" for met in some) or "FALSE", values or None


def _test_of(condition: Condition, values: list[str]) -> str:
    """A condition for SQL; adds its parameters to ``values``."""
    column = condition.column
    kind = type_name(column)
    name = quoted(column.name)
    compared = f'{name} COLLATE "C"' if kind == "text" else name
    listed = f"rtrim({name}, ' ')" if condition.rtrim else name

    def place(value: Value) -> str:
        try:
            values.append(text_of(column, condition.lake, value) or "")
        except ValueError as error:
            raise SinkFault(str(error)) from error
        return f"${len(values)}::{kind}"

    tests = [] if condition.at_least is None else [f"{compared} >= {place(condition.at_least)}"]
    tests += [] if condition.below is None else [f"{compared} < {place(condition.below)}"]
    if condition.any_of is not None:
        some = ", ".join(map(place, condition.any_of))
        tests.append(f"{listed} IN ({some})" if some else "FALSE")
    if condition.none_of:
        tests.append(f"{listed} NOT IN ({', '.join(map(place, condition.none_of))})")
    if condition.remainder is not None:
        tests.append("abs({}::numeric % {}) = {}".format(name, *condition.remainder))
    met = " AND ".join(tests) or f"{name} IS NOT NULL"
    return f"({met} OR {name} IS NULL)" if condition.or_null else f"({met})"
