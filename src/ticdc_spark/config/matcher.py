"""TiCDC's matchers, compiled. The last rule that matches a name decides. A name that none matches is not accepted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ticdc_spark.config.rules import ColumnRule, Pattern, Rule, compiled_regex, parse_column_rules, parse_rules

SYSTEM_SCHEMAS = frozenset(
    (
        "information_schema",
        "performance_schema",
        "metrics_schema",
        "inspection_schema",
        "mysql",
        "sys",
        # schemas of TiDB's tools, which TiCDC's new architecture excludes too
        "dm_heartbeat",
        "tidb_cdc",
        "lightning_task_info",
        "workload_schema",
    )
)
"""Never replicated, whatever the rules are. Lower case."""


class Matcher:
    """Compiled rules over tables. Cheap to pickle: regular expressions are compiled at their first use."""

    def __init__(self, rules: Sequence[Rule], *, case_sensitive: bool) -> None:
        self._rules = tuple(rules)
        self._case_sensitive = case_sensitive

    @property
    def has_accepting_rules(self) -> bool:
        """Whether a rule accepts something; comments and ``!`` rules do not."""
        return any(rule.accepts for rule in self._rules)

    def accepts(self, schema: str, table: str) -> bool:
        """Whether the last rule that matches the table accepts it. A system schema's tables are never accepted."""
        return not is_system_schema(schema) and self.matches(schema, table)

    def matches(self, schema: str, table: str) -> bool:
        """``accepts``, for system schemas too."""
        if not self._case_sensitive:
            schema, table = fold_case(schema), fold_case(table)
        for rule in reversed(self._rules):
            if self._matches(rule.schema, schema) and self._matches(rule.table, table):
                return rule.accepts
        return False

    def accepts_schema(self, schema: str) -> bool:
        """Whether a database's own DDL is accepted: a rule accepts some table of it, and no later rule excludes all.

        ``test.t1`` accepts ``test``; ``!test.t1`` does not exclude it, ``!test.*`` does.
        """
        if is_system_schema(schema):
            return False
        if not self._case_sensitive:
            schema = fold_case(schema)
        for rule in reversed(self._rules):
            if (rule.accepts or rule.table.kind == "any") and self._matches(rule.schema, schema):
                return rule.accepts
        return False

    def _matches(self, pattern: Pattern, name: str) -> bool:
        return _matches(pattern, name, self._case_sensitive)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matcher) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self._rules, self._case_sensitive))

    def __reduce__(self) -> tuple[object, ...]:
        return _matcher, (self._rules, self._case_sensitive)


class ColumnMatcher(msgspec.Struct, frozen=True):
    """Compiled rules over columns; names compare without case."""

    rules: tuple[ColumnRule, ...]

    def accepts(self, column: str) -> bool:
        """Whether the last rule that matches the column accepts it."""
        name = fold_case(column)
        for rule in reversed(self.rules):
            if _matches(rule.column, name, case_sensitive=False):
                return rule.accepts
        return False


def compile_matcher(rules: Sequence[str], *, case_sensitive: bool, folder: Path | None = None) -> Matcher:
    """Compile rules over tables. Files that they name are read now; relative paths start at ``folder``.

    Raises: UsageError that names the rule, and its file and line.
    """
    return Matcher(parse_rules(rules, folder=folder), case_sensitive=case_sensitive)


def compile_column_matcher(rules: Sequence[str], *, folder: Path | None = None) -> ColumnMatcher:
    """Compile rules over columns. Raises: UsageError that names the rule."""
    return ColumnMatcher(parse_column_rules(rules, folder=folder))


def is_system_schema(schema: str) -> bool:
    """Whether a schema is one of ``SYSTEM_SCHEMAS``; case does not matter."""
    return schema.lower() in SYSTEM_SCHEMAS


def fold_case(name: str) -> str:
    """Lower case, rune by rune as Go does it: one character stays one character, and a final sigma is not special."""
    if name.isascii():
        return name.lower()
    return "".join("i" if char == "\u0130" else char.lower() for char in name)


def _matcher(rules: tuple[Rule, ...], case_sensitive: bool) -> Matcher:
    return Matcher(rules, case_sensitive=case_sensitive)


def _matches(pattern: Pattern, name: str, case_sensitive: bool) -> bool:
    if pattern.kind == "any":
        return True
    if pattern.kind == "name":
        return name == (pattern.text if case_sensitive else fold_case(pattern.text))
    return compiled_regex(pattern.text if case_sensitive else "(?i)" + pattern.text).search(name) is not None
