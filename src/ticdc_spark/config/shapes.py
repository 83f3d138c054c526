"""What a rule of ``[[route]]`` does to a table: columns are dropped, masked or renamed, and rows filtered. Pure."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from ticdc_spark.config.job import Route
from ticdc_spark.config.matcher import compile_column_matcher
from ticdc_spark.config.row_filters import row_filter
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table
from ticdc_spark.mysql import handle_key

HASH, NULL, CONSTANT = "hash", "null", "constant:"
"""Values of ``mask-columns``. A text follows the last one."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How a table differs from the source, by the source's names."""

    dropped: frozenset[str] = frozenset()
    masked: tuple[tuple[str, str], ...] = ()
    """Columns, each with its value in ``mask-columns``."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Columns, each with its name in the target."""
    where: str = ""
    """The condition that rows must meet to be kept; ``""``: all are kept."""

    def __bool__(self) -> bool:
        return bool(self.dropped or self.masked or self.renamed or self.where)

    @property
    def is_hashed(self) -> bool:
        """Whether a column is hashed."""
        return any(how == HASH for _, how in self.masked)

    @property
    def hidden(self) -> frozenset[str]:
        """The columns whose values the target does not have, in lower case."""
        return frozenset(name.casefold() for name in (*self.dropped, *(name for name, _ in self.masked)))


AS_IT_IS = Shape()


@lru_cache(1024)
def shape_of(rule: Route | None, table: Table) -> Shape:
    """The shape of a table. ``rule``: the one that matches it, if any."""
    if rule is None or not (rule.drop_columns or rule.mask_columns or rule.rename_columns or rule.where):
        return AS_IT_IS
    drops = compile_column_matcher(rule.drop_columns)
    masks = [(compile_column_matcher((pattern,)), how) for pattern, how in rule.mask_columns]
    names = {old.casefold(): new for old, new in rule.rename_columns}
    dropped = frozenset(column.name for column in table.columns if drops.accepts(column.name))
    dropped -= {*rule.origin}
    left = [column.name for column in table.columns if column.name not in {*dropped, *rule.origin}]
    found = [(name, next((how for takes, how in masks if takes.accepts(name)), "")) for name in left]
    return Shape(
        dropped=dropped,
        masked=tuple((name, how) for name, how in found if how),
        renamed=tuple((name, names[name.casefold()]) for name in left if name.casefold() in names),
        where=rule.where or "",
    )


def stop_if_wrong(shape: Shape, table: Table) -> None:
    """Raises: UsageError if rows could not be found by their key, two columns would have one name, or the condition
    does not fit"""
    where, keys = f"`{table.schema}`.`{table.name}`: [[route]]", handle_key(table)
    masks, names = dict(shape.masked), dict(shape.renamed)
    if shape.where:
        row_filter(shape.where, table)
    for key in keys:
        if key in shape.dropped:
            raise UsageError(f"{where} drop-columns: `{key}` is in the key, by which rows are found; hash it instead")
        if masks.get(key, HASH) != HASH:
            raise UsageError(
                f'{where} mask-columns: `{key}` is in the key, and "{masks[key]}" makes all keys alike; use "{HASH}"'
            )
    owners: dict[str, str] = {}
    for column in (one.name for one in table.columns if one.name not in shape.dropped):
        name = names.get(column, column)
        other = owners.setdefault(name.casefold(), column)
        if other != column:
            raise UsageError(f"{where} rename-columns: `{other}` and `{column}` would both be `{name}` in the target")
