"""Virtual generated columns: their values, which no message has, computed of the other columns of a row. Pure.

Only expressions are computed whose values every server finds alike. Others stay NULL: text compared by a collation,
quotients, regular expressions, FLOAT and DOUBLE, TIMESTAMP (which depends on the session), and virtual columns of
virtual columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from msgspec.structs import replace

from ticdc_spark.config.shards import is_merged
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Column, Row, Table, Value
from ticdc_spark.mysql import is_integer

Expressions = tuple[tuple[str, str], ...]
"""Columns with their expressions."""
_SOURCES = frozenset(
    (
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "datetime", "json"),
        *("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
    )
)
"""The types of columns that an expression may name."""


class Computed(NamedTuple):
    """A column, compiled for one version of its table."""

    name: str
    reads: tuple[str, ...]
    """The columns that its expression names, as the table has them."""
    value: Callable[[Row], Value]
    """Raises: MessageError if the source has no such value"""

    def cells(self, columns: Sequence[Sequence[Value]], count: int) -> list[Value]:
        """The values of rows; NULL where the column cannot hold the value. ``columns``: a list for each of ``reads``.
        ``count``: of rows."""
        found: list[Value] = []
        for row in zip(*columns, strict=True) if columns else repeat((), count):
            try:
                found.append(self.value(dict(zip(self.reads, row, strict=True))))
            except (MessageError, ArithmeticError, ValueError):
                found.append(None)  # a strict server refuses such a row, and others cut the value
        return found


def computable(table: Table, shown: Collection[str]) -> Expressions:
    """The virtual columns of a table whose values the job can compute.

    ``shown``: the source's names of the columns that the target has unmasked
    """
    virtual = [column for column in table.columns if column.virtual and column.name in shown]
    return tuple((column.name, column.expression) for column in virtual if not why_null(column, table, shown))


def why_null(column: Column, table: Table, shown: Collection[str]) -> str:
    """Why the job does not compute a virtual column; ``""``: it does. ``shown``: as for ``computable``."""
    if is_merged(table.full_name):
        return "the table is made of several"
    if not column.expression:
        return "no DDL and no full read said how it is computed"
    try:
        reads = computed(column.name, column.expression, table).reads
    except UsageError as error:
        return str(error)
    hidden = [name for name in reads if name not in shown]
    return f"it would show column `{hidden[0]}`, which [[route]] drops or masks" if hidden else ""


def still_computed(before: Expressions, tables: tuple[Table, Table], renames: dict[str, str]) -> Expressions:
    """The columns whose values in existing rows a DDL leaves as they are, by their names after it.

    ``tables``: before and after it. ``renames``: of columns, old name to new name; of those that it drops and adds, to
    itself.
    """
    old, new = ({column.name.casefold(): column for column in table.columns} for table in tables)
    renamed = {one.casefold(): other.casefold() for one, other in renames.items()}
    moved = {*renamed, *renamed.values()}
    found: list[tuple[str, str]] = []
    for name, expression in before:
        was, column = old.get(name.casefold()), new.get(renamed.get(name.casefold(), name.casefold()))
        if was is None or column is None or not (column.virtual and _is_same(column.expression, expression)):
            continue
        named = _named(expression)
        kept = all(one in old and one in new and _is_alike(old[one], new[one]) for one in named)
        stays = kept and _is_alike(was, column)
        if stays and named.isdisjoint(moved):
            found.append((column.name, expression))
    return tuple(found)


@lru_cache(1024)
def computed(name: str, expression: str, table: Table) -> Computed:
    """Compile a column. Raises: UsageError if its values cannot be computed"""
    # imported late: only a table with such a column waits for the parser
    from ticdc_spark.config.expressions.assignment import assigned, is_utf8
    from ticdc_spark.config.expressions.generated import compile_generated

    column = next((one for one in table.columns if one.name == name), None)
    if column is None:
        raise UsageError(f"the table has no column `{name}`")
    named = _named(expression)
    reads = [one for one in table.columns if one.name.casefold() in named]
    for one in reads:
        if one.type.name not in _SOURCES:
            raise UsageError(f"it names column `{one.name}` of type {one.type.name}")
        if one.type.zerofill:
            raise UsageError(f"it names column `{one.name}`, which is ZEROFILL")
        if not is_utf8(one.type):
            raise UsageError(f"it names column `{one.name}` in character set {one.type.charset or 'unknown'}")
    return Computed(name, tuple(one.name for one in reads), assigned(compile_generated(expression, table), column.type))


def _is_same(one: str, other: str) -> bool:
    from ticdc_spark.config.expressions.generated import is_same

    try:
        return bool(one) and is_same(one, other)
    except UsageError:
        return False  # a DDL wrote what cannot be read


def _is_alike(old: Column, new: Column) -> bool:
    """Whether a column has the same values in expressions. The display width and the collation do not matter there."""
    one, other = (
        replace(column.type, collate=None, length=None if is_integer(column.type) else column.type.length)
        for column in (old, new)
    )
    return one == other


def _named(expression: str) -> frozenset[str]:
    from ticdc_spark.config.expressions.generated import names_of

    return names_of(expression)
