"""Which tables a changefeed follows, and why it excludes others."""

from __future__ import annotations

from collections.abc import Callable

from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.config.matcher import Matcher, compile_matcher, is_system_schema
from ticdc_spark.model import Table

_EVERYTHING = ("*.*",)
"""``filter.rules`` if the file has none."""


def table_rules(changefeed: Changefeed) -> TableRules:
    """The rules of a changefeed. Raises: UsageError for rules that are wrong."""
    matcher = compile_matcher(changefeed.filter.rules or _EVERYTHING, case_sensitive=changefeed.case_sensitive)
    return TableRules(matcher, force_replicate=changefeed.force_replicate)


def named_tables(changefeed: Changefeed) -> Callable[[str, str], bool]:
    """A test whether the rules accept a schema and table. With it, a source need not read other tables.

    Raises: UsageError for rules that are wrong.
    """
    rules = table_rules(changefeed)
    return lambda schema, table: not rules.why_not_named(schema, table)


class TableRules:
    """``filter.rules`` and ``force-replicate``."""

    def __init__(self, matcher: Matcher, *, force_replicate: bool) -> None:
        self.matcher = matcher
        self._force = force_replicate

    def why_left_out(self, table: Table) -> str:
        """Why a table is not sent, as one sentence; ``""``: it is sent."""
        return self.why_not_named(table.schema, table.name) or self.why_ineligible(table)

    def why_not_named(self, schema: str, table: str) -> str:
        """Why the rules do not accept a name; ``""``: they do."""
        if is_system_schema(schema):
            return f"`{schema}` is a system schema"
        return "" if self.matcher.accepts(schema, table) else "`filter.rules` does not accept it"

    def why_ineligible(self, table: Table | None) -> str:
        """Why rows of a table cannot be distinguished; ``""``: they can, or ``force-replicate`` is set."""
        if self._force or table is None or has_valid_index(table):
            return ""
        return "it has no primary key and no unique index over NOT NULL columns (`force-replicate` sends it anyway)"


def has_valid_index(table: Table) -> bool:
    """Whether a table has a primary key, or a unique index whose columns are all NOT NULL."""
    required = {column.name for column in table.columns if not column.nullable}
    return any(
        index.primary or (index.unique and index.columns and required.issuperset(index.columns))
        for index in table.indexes
    )
