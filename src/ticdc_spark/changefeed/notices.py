"""Notices about a changefeed's rules and the source's tables. None of them is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.filter.tables import table_rules
from ticdc_spark.config.matcher import compile_matcher
from ticdc_spark.model import Table

_NAMED = 8
"""How many tables a notice names. It counts the rest."""


def notices(changefeed: Changefeed, tables: Sequence[Table], *, all_known: bool) -> Iterator[str]:
    """Sentences about tables that are excluded because they lack a key, and ``filter.rules`` that accept no table.

    ``tables``: all tables of the source, accepted or not. ``all_known``: the source has no others. Without it, rules
    are not checked: the tables of a stream are known only when they arrive.
    """
    rules = table_rules(changefeed)
    followed = [table for table in tables if not rules.why_not_named(table.schema, table.name)]
    keyless = [table for table in followed if rules.why_ineligible(table)]
    if keyless:
        yield (
            f"excluded, as they have no primary key and no unique index over NOT NULL columns: {_names(keyless)}; "
            "`force-replicate` sends them anyway"
        )
    if not all_known:
        return
    for rule in changefeed.filter.rules:
        one = compile_matcher([rule], case_sensitive=changefeed.case_sensitive)
        if one.has_accepting_rules and not any(one.accepts(table.schema, table.name) for table in tables):
            yield f"filter.rules: {rule!r} accepts no table that the source has now"


def _names(tables: Sequence[Table]) -> str:
    names = sorted(f"{table.schema}.{table.name}" for table in tables)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
