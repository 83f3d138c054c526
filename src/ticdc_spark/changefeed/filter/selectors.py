"""Column selectors: which columns of a table are sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ticdc_spark.changefeed.config.settings import ColumnSelector, DispatchRule
from ticdc_spark.changefeed.dispatch.partitions import dispatch_columns
from ticdc_spark.config.matcher import ColumnMatcher, Matcher, compile_column_matcher, compile_matcher
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key


class Selector(msgspec.Struct, frozen=True):
    """A compiled entry of ``sink.column-selectors``."""

    matcher: Matcher
    columns: ColumnMatcher


def compile_selectors(selectors: Sequence[ColumnSelector], *, case_sensitive: bool) -> tuple[Selector, ...]:
    """Compile the entries. Raises: UsageError that names the rule."""
    return tuple(
        Selector(
            compile_matcher(selector.matcher, case_sensitive=case_sensitive), compile_column_matcher(selector.columns)
        )
        for selector in selectors
    )


def sent_columns(selectors: Sequence[Selector], table: Table, rule: DispatchRule | None = None) -> tuple[str, ...]:
    """The columns of a table that are sent, in its order. The first selector that accepts the table decides, else all.

    Virtual generated columns are never sent. ``rule``: the dispatcher of the table, whose columns must be sent.
    Raises: UsageError if the handle key, or a column of a ``columns`` dispatcher, would be excluded.
    """
    stored = tuple(column.name for column in table.columns if not column.virtual)
    selector = next((one for one in selectors if one.matcher.accepts(table.schema, table.name)), None)
    if selector is None:
        return stored
    kept = tuple(name for name in stored if selector.columns.accepts(name))
    where = f"column-selectors: `{table.schema}`.`{table.name}`"
    key = handle_key(table)
    for name in key:
        if name not in kept:
            raise UsageError(f"{where}: column {name!r} is excluded, but belongs to the handle key ({', '.join(key)})")
    if not key and not _keeps_unique(table, kept):
        raise UsageError(f"{where}: no primary key and no unique index is left of the columns {', '.join(kept) or '–'}")
    if rule is not None:
        for column in dispatch_columns(rule, table):
            if column.name not in kept:
                raise UsageError(f"{where}: column {column.name!r} is excluded, but a dispatcher needs it")
    return kept


def select_columns(table: Table, kept: Sequence[str]) -> Table:
    """The table with only these columns, and the indexes whose columns are all kept."""
    names = frozenset(kept)
    return replace(
        table,
        columns=tuple(column for column in table.columns if column.name in names),
        indexes=tuple(index for index in table.indexes if names.issuperset(index.columns)),
    )


def _keeps_unique(table: Table, kept: Sequence[str]) -> bool:
    unique = [index for index in table.indexes if index.unique or index.primary]
    return any(set(kept).issuperset(index.columns) for index in unique)
