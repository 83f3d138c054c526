"""Which tables have a history table, and its name: the rules of ``[[history]]``, compiled. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ticdc_spark.config.job import Job, Recording
from ticdc_spark.config.routes import CURE, compiled, shown
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.target_names import named
from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName
from ticdc_spark.names import aside_of, folded


class Histories:
    """Finds the rule of a table. Arguments are names of the source."""

    def __init__(self, rules: tuple[Recording, ...]) -> None:
        self._compiled = [(table_filter(rule.tables), rule) for rule in rules]

    def of(self, table: TableName) -> TableName | None:
        """The history's name in the target, by the first rule that matches the table; ``None``: it has no history."""
        rule = self._rule(table)
        if rule is None:
            return None
        schema, _, name = rule.target.partition(".")
        return named(schema, table), named(name, table)

    def befores(self, table: TableName) -> bool:
        """Whether a table's history has the rows that updates replace."""
        rule = self._rule(table)
        return rule is not None and rule.before_images

    def _rule(self, table: TableName) -> Recording | None:
        if not table[1] or aside_of(table[1])[1]:
            return None
        return next((rule for takes, rule in self._compiled if takes(*table)), None)


@lru_cache(16)
def histories(rules: tuple[Recording, ...]) -> Histories:
    """The rules, compiled once."""
    return Histories(rules)


class Shared(NamedTuple):
    """Two tables, or a table and a history, that would have one name in the target."""

    what: str
    section: str
    """What to change in the job file."""
    cure: str


def shared(job: Job, tables: Iterable[TableName]) -> Shared | None:
    """The first two whose names are equal or differ only by case; ``None``: there are none."""
    routes, rules = compiled(job.routes), histories(job.histories)
    tables = list(dict.fromkeys(tables))
    if found := routes.shared(tables):
        return Shared(found, "[[route]]", CURE)
    owners = {folded(routes.target(table)): shown(table) for table in tables} if job.histories else {}
    for table in tables if job.histories else ():
        place = rules.of(table)
        if place is None:
            continue
        mine = f"the history of {shown(table)}"
        other = owners.setdefault(folded(place), mine)
        if other.casefold() != mine.casefold():
            what = f"{mine} and {other} would both be {shown(place)} in the target"
            cure = 'Give it another one with `target` under [[history]], such as "{schema}_history.{table}"'
            return Shared(what, "[[history]]", cure)
    return None


def stop_if_shared(job: Job, tables: Iterable[TableName]) -> None:
    """Raises: UsageError if two tables, or a table and a history, would have one name in the target"""
    if found := shared(job, tables):
        raise UsageError(f"{job.file}: {found.section}: {found.what}. {found.cure}")
