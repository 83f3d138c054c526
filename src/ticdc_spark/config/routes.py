"""The names that the tables of a job have in its target: the rules of ``[[route]]``, compiled. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ticdc_spark.config.job import Route
from ticdc_spark.config.layout import PLAIN, Layout, parse_partition, parse_sort
from ticdc_spark.config.shapes import shape_of, stop_if_wrong
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.target_names import named
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.names import aside_of

_ANY = "\0"
"""The name of a table that no rule names. No table has it."""


class Routes:
    """Which rule is a table's, and what follows from it. Names that are given are the source's."""

    def __init__(self, rules: tuple[Route, ...]) -> None:
        self.rules = rules
        self._compiled = [(table_filter(rule.tables), rule) for rule in rules]
        self._found: dict[TableName, Route | None] = {}
        self._targets: dict[TableName, TableName] = {}

    def __bool__(self) -> bool:
        """Whether there is a rule."""
        return bool(self.rules)

    def rule(self, table: TableName) -> Route | None:
        """The first rule that takes a table. None takes what has no name."""
        if not table[1]:
            return None
        if table not in self._found:
            self._found[table] = next((rule for takes, rule in self._compiled if takes(*table)), None)
        return self._found[table]

    def target(self, table: TableName) -> TableName:
        """A table's name in the target. One that was set aside stays beside the table that it was."""
        if table not in self._targets:
            self._targets[table] = self._target(table)
        return self._targets[table]

    def _target(self, table: TableName) -> TableName:
        name, suffix = aside_of(table[1])
        rule = self.rule((table[0], name))
        if rule is None:
            return table
        names = (rule.target_schema or "{schema}", rule.target_table or "{table}")
        schema, held = (named(expression, (table[0], name)) for expression in names)
        return schema, held + suffix

    def database(self, schema: str) -> tuple[str, bool]:
        """The database in the target of those tables of a database that no rule names, and whether it has only tables
        of this one. ``""``: each of them has its own."""
        rule = next((rule for takes, rule in self._compiled if takes(schema, _ANY)), None)
        expression = (None if rule is None else rule.target_schema) or "{schema}"
        if "{table}" in expression:
            return "", False
        return named(expression, (schema, "")), "{schema}" in expression

    def layout(self, table: TableName) -> Layout:
        """How a table is laid out when it is made, by the source's names of columns."""
        rule = self.rule(table)
        if rule is None:
            return PLAIN
        return Layout(
            partition_by=tuple(map(parse_partition, rule.partition_by)),
            sort_by=tuple(map(parse_sort, rule.sort_by)),
            properties=rule.properties,
        )

    def stop_if_wrong(self, table: Table, *, is_new: bool = False) -> None:
        """Stop where a rule does not fit a table. ``is_new``: it is to be made. Raises: UsageError"""
        name = (table.schema, table.name)
        shape = shape_of(self.rule(name), table)
        stop_if_wrong(shape, table)
        layout = self.layout(name) if is_new else PLAIN
        there = {column.name.casefold() for column in table.columns if column.name not in shape.dropped}
        for key, columns in (("partition-by", layout.partition_by), ("sort-by", layout.sort_by)):
            for one in columns:
                if one.column.casefold() not in there:
                    raise UsageError(
                        f"{shown(name)}: [[route]] {key}: the table has no column `{one.column}` in the target"
                    )

    def shared(self, tables: Iterable[TableName]) -> str:
        """Two tables that would have one name in the target, or names that differ by case alone, as one sentence;
        ``""``: there are none."""
        owners: dict[TableName, TableName] = {}
        for table in tables if self.rules else ():
            target = self.target(table)
            other = owners.setdefault(_folded(target), table)
            if _folded(other) != _folded(table):
                return f"{shown(other)} and {shown(table)} would both be {shown(target)} in the target"
        return ""


@lru_cache(16)
def compiled(rules: tuple[Route, ...]) -> Routes:
    """The rules, compiled once."""
    return Routes(rules)


CURE = (
    "Give each a name of its own, for example with {schema} and {table} in target-table; or leave one out with "
    "`tables` under [job]"
)
"""What there is to do about two tables of one name."""


def shown(table: TableName) -> str:
    """A name for people."""
    return f"`{table[0]}`.`{table[1]}`"


def _folded(table: TableName) -> TableName:
    return table[0].casefold(), table[1].casefold()
