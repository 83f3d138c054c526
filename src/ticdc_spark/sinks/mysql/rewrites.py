"""Changes rows that are already in the target."""

from collections.abc import Sequence

from ticdc_spark.clients.mysql import quoted
from ticdc_spark.errors import DecisionNeeded, MessageError, SinkFault
from ticdc_spark.model import TableName, Value
from ticdc_spark.sinks.base import Fill, Stamp, unconverted
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.mysql.pending import Change, Statement
from ticdc_spark.sinks.mysql.staging import literals, text_literal
from ticdc_spark.sinks.mysql.tables import MysqlTables, sql_name
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.types import LakeColumn, to_arrow


class MysqlRewrites:
    """See ``sinks.base.Rewrites``."""

    def __init__(self, tables: MysqlTables) -> None:
        self._tables, self._client = tables, tables.client

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        """Applied at once, because the other table may change later."""
        self._tables.commits.flush(source)
        listed = ", ".join(quoted(column.name) for column in columns)
        insert = f"INSERT INTO {sql_name(table)} ({listed}) SELECT {listed} FROM {sql_name(source)}"
        if self._tables.with_key(table, columns):
            update = ", ".join(f"{quoted(one.name)} = VALUES({quoted(one.name)})" for one in columns)
            insert = f"{insert} ON DUPLICATE KEY UPDATE {update}"
        self._tables.commits.do(Change(table, ((insert, ()),), stamp), now=True)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        array, bad, _ = to_arrow(column, fill.lake)([fill.value])
        if bad:
            raise DecisionNeeded(f"the default of the new column `{column.source}` cannot be read: {bad[0]}")
        sql = f"UPDATE {sql_name(table)} SET {quoted(column.name)} = {literals(array)[0]}"
        self._tables.commits.do(Change(table, ((sql, ()),), stamp), now=True)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        target, new, was = sql_name(table), quoted(column.name), quoted(old)
        statements: list[Statement] = [(f"UPDATE {target} SET {new} = {was}", ())]
        try:
            if conversion.convert is not None:
                self._tables.commits.flush(table)
                self._client.prepare()
                found = self._client.run(f"SELECT DISTINCT CAST({was} AS CHAR) FROM {target} WHERE {was} IS NOT NULL")
                values = [str(row[0]) for row in found]
                pairs = [(value, conversion.convert(value)) for value in values]
                statements = [
                    (f"UPDATE {target} SET {new} = {text_literal(str(after))} WHERE {was} = {text_literal(value)}", ())
                    for value, after in pairs
                ]
            self._tables.commits.do(Change(table, tuple(statements), stamp), now=True)
        except (DecisionNeeded, MessageError) as error:
            if isinstance(error, DecisionNeeded) and error.__cause__ is None:
                raise  # an error of the fence
            raise DecisionNeeded(unconverted(column, str(error))) from error

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        sql = f"DELETE FROM {sql_name(table)} WHERE {where_sql(where)}"
        self._tables.commits.do(Change(table, ((sql, ()),), stamp))


def where_sql(where: Sequence[Sequence[Condition]]) -> str:
    """SQL of whether a row meets all conditions of one group in ``where``."""
    return " OR ".join(f"({' AND '.join(map(_test_of, tests)) or 'TRUE'})" for tests in where) or "FALSE"


def _test_of(condition: Condition) -> str:
    """A condition for SQL."""
    name, convert = quoted(condition.column.name), to_arrow(condition.column, condition.lake)

    def literal(value: Value) -> str:
        array, bad, _ = convert([value])
        if bad:
            raise SinkFault(bad[0])
        return literals(array)[0]

    listed = f"RTRIM({name})" if condition.rtrim else name
    tests = [] if condition.at_least is None else [f"{name} >= {literal(condition.at_least)}"]
    tests += [] if condition.below is None else [f"{name} < {literal(condition.below)}"]
    if condition.any_of is not None:
        values = ", ".join(map(literal, condition.any_of))
        tests.append(f"{listed} IN ({values})" if values else "FALSE")
    if condition.none_of:
        tests.append(f"{listed} NOT IN ({', '.join(map(literal, condition.none_of))})")
    if condition.remainder is not None:
        tests.append("ABS({} MOD {}) = {}".format(name, *condition.remainder))
    met = " AND ".join(tests) or f"{name} IS NOT NULL"
    return f"({met} OR {name} IS NULL)" if condition.or_null else f"({met})"
