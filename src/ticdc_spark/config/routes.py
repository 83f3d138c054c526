"""The names that the tables of a job have in its target: the rules of ``[[route]]``, compiled. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ticdc_spark.config.job import Route
from ticdc_spark.config.layout import PLAIN, Layout, parse_partition, parse_sort
from ticdc_spark.config.shapes import shape_of, stop_if_wrong
from ticdc_spark.config.shards import is_merged, merged_name, merged_table, stop_if_no_shard, target_of
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.target_names import SOURCE, groups_of, is_named, named, names_in
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.names import aside_of, folded, folded_part

_ANY = "\0"
"""Stands in for any table that no rule names. No table has this name."""


class Routes:
    """Finds the rule of a table, and what it says. Arguments are names of the source."""

    def __init__(self, rules: tuple[Route, ...]) -> None:
        self.rules = rules
        self._compiled = [(table_filter(rule.tables), rule) for rule in rules]
        self._found: dict[TableName, Route | None] = {}
        self._targets: dict[TableName, TableName] = {}
        self.merges = any(rule.origin for rule in rules)
        """Whether a rule merges tables."""

    def __bool__(self) -> bool:
        """Whether there is a rule."""
        return bool(self.rules)

    def rule(self, table: TableName) -> Route | None:
        """The first rule that matches a table. None matches an empty name."""
        if not table[1]:
            return None
        if table not in self._found:
            takes = self._merging(table) if self.merges and is_merged(table) else self._taking(table)
            self._found[table] = takes
        return self._found[table]

    def _taking(self, table: TableName) -> Route | None:
        return next((rule for takes, rule in self._compiled if takes(*table) and _matches(rule, table)), None)

    def _merging(self, merged: TableName) -> Route | None:
        target = target_of(merged)
        return next((rule for rule in self.rules if rule.origin and is_named(_names_of(rule), target)), None)

    def merged(self, table: TableName) -> TableName | None:
        """The merged table of a shard; ``None``: the table is no shard. Raises: UsageError

        Parts of the shard's name in it are in lower case, as messages may have any case.
        """
        rule = self._taking(table) if self.merges and table[1] else None
        if rule is None or not rule.origin:
            return None
        stop_if_no_shard(table)
        found = merged_name(_named_by(rule, table, fold=True))
        if self.rule(found) is not rule:
            target = shown(target_of(found))
            raise UsageError(
                f"[[route]] origin: two rules make tables {target} in the target. Put their `tables` into one rule, or "
                "give each rule another target-table"
            )
        return found

    def known_as(self, table: TableName) -> TableName:
        """The name by which the job knows a table of the source. Raises: UsageError"""
        return table if is_merged(table) else self.merged(table) or table

    def origin(self, table: TableName) -> tuple[str, ...]:
        """The columns that name the shard of a merged table's row; none for every other table."""
        rule = self.rule(table) if is_merged(table) else None
        return () if rule is None else rule.origin

    def target(self, table: TableName) -> TableName:
        """A table's name in the target. A table that was set aside stays in the same database."""
        if table not in self._targets:
            self._targets[table] = self._target(table)
        return self._targets[table]

    def _target(self, table: TableName) -> TableName:
        if self.merges and is_merged(table):
            return table if self.rule(table) is None else target_of(table)
        name, suffix = aside_of(table[1])
        rule = self.rule((table[0], name))
        if rule is None:
            return table
        schema, held = _named_by(rule, (table[0], name))
        return schema, held + suffix

    def database(self, schema: str) -> tuple[str, bool]:
        """The target's database for a database's tables that no rule names, and whether it has only tables of this
        one. ``""``: each table has its own database."""
        rule = self._taking((schema, _ANY))
        expression = (None if rule is None else rule.target_schema) or "{schema}"
        if {*names_in(expression)} - {SOURCE[0]}:
            return "", False
        return named(expression, (schema, "")), "{schema}" in expression

    def layout(self, table: TableName) -> Layout:
        """The layout of a new table, with the source's column names."""
        rule = self.rule(table)
        if rule is None:
            return PLAIN
        return Layout(
            partition_by=tuple(map(parse_partition, rule.partition_by)),
            sort_by=tuple(map(parse_sort, rule.sort_by)),
            properties=rule.properties,
        )

    def stop_if_wrong(self, table: Table, *, is_new: bool = False) -> None:
        """Raises: UsageError if a rule does not fit a table. ``is_new``: the table will be created."""
        name = table.full_name
        rule, merged = self.rule(name), None if is_merged(name) else self.merged(name)
        if rule is not None and merged is not None:
            table = merged_table(merged, rule.origin, table)
        shape = shape_of(rule, table)
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
        """A sentence about two tables whose names in the target would be equal or differ only by case; ``""``: there
        are none."""
        owners: dict[TableName, TableName] = {}
        for table in map(self.known_as, tables) if self.rules else ():
            target = self.target(table)
            other = owners.setdefault(folded(target), table)
            if folded(other) != folded(table):
                return f"{shown(other)} and {shown(table)} would both be {shown(target)} in the target"
        return ""


def _names_of(rule: Route) -> TableName:
    return rule.target_schema or "{schema}", rule.target_table or "{table}"


def _named_by(rule: Route, table: TableName, *, fold: bool = False) -> TableName:
    # The expression is matched with the name as it is: in lower case it may match in another way, or not at all.
    groups = {} if rule.regex is None else groups_of(rule.regex, table) or {}
    if fold:
        table, groups = folded(table), {group: folded_part(text) for group, text in groups.items()}
    schema, name = (named(expression, table, groups) for expression in _names_of(rule))
    if rule.regex is not None and not (schema and name):
        key = "target-table" if schema else "target-schema"
        raise UsageError(
            f"[[route]] {key}: the groups of `regex` are empty for {shown(table)}, so it has no name. Add text to "
            f"{key}, or let `regex` take the table only where a group has a letter"
        )
    return schema, name


def _matches(rule: Route, table: TableName) -> bool:
    return rule.regex is None or groups_of(rule.regex, table) is not None


@lru_cache(16)
def compiled(rules: tuple[Route, ...]) -> Routes:
    """The rules, compiled once."""
    return Routes(rules)


CURE = (
    "Give each a name of its own, for example with {schema} and {table} in target-table; or exclude one with "
    "`tables` under [job]"
)
"""What to do about two tables with one name."""


def shown(table: TableName) -> str:
    """A name for people."""
    return f"`{table[0]}`.`{table[1]}`"
