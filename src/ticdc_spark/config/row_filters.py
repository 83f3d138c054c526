"""Which rows of a table the target has: the condition ``where`` of ``[[route]]``, over canonical values. Pure.

The condition must give the same answer for a message of any protocol, a full read and a dump. So it uses only what all
of them know. Text compares as in ``utf8mb4_bin``, whatever the collation of its column. A TIMESTAMP is in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Column, ColumnType, Row, Table, Value
from ticdc_spark.mysql import HIDDEN_NAMES, fsp, is_text
from ticdc_spark.mysql.kept_text import keeps_text

WHERE = "[[route]] where"
"""How errors name a condition."""


class RowFilter(msgspec.Struct, frozen=True):
    """A condition, compiled for one version of a table."""

    columns: tuple[str, ...]
    """The columns that it names, as the table has them."""
    meets: Callable[[Row], bool]

    def unkept(self, cells: Sequence[Sequence[Value]], rows: Sequence[int], bad: dict[int, str]) -> set[int]:
        """The rows that do not meet it. ``cells``: a list for each of ``columns``. ``rows``: the rows to test.

        ``bad`` gets the rows for which the condition cannot be evaluated, with the reason.
        """
        found: set[int] = set()
        for at in rows:
            try:
                kept = self.meets({name: cells[place][at] for place, name in enumerate(self.columns)})
            except (MessageError, UsageError, ValueError, ArithmeticError) as error:
                bad[at] = f"{WHERE}: {error}"
                continue
            if not kept:
                found.add(at)
        return found


@lru_cache(1024)
def row_filter(where: str, table: Table) -> RowFilter:
    """A condition over the columns of a table. Raises: UsageError that names both"""
    # imported late: only a job with a condition waits for the parser
    from ticdc_spark.config.expressions.compile import compile_condition

    named = named_columns(where)
    meets = compile_condition(where, _judged(table), time_zone="UTC", where=WHERE, only_one=False)
    return RowFilter(tuple(column.name for column in table.columns if column.name.casefold() in named), meets)


@lru_cache(1024)
def named_columns(where: str) -> frozenset[str]:
    """The columns that a condition names, in lower case. Raises: UsageError if it cannot be read, or names none"""
    from ticdc_spark.config.expressions.compile import columns_of, parse_expression

    named = columns_of(parse_expression(where))
    if not named:
        raise UsageError(f"{WHERE} {where!r} names no column")
    if hidden := sorted(named & HIDDEN_NAMES):
        raise UsageError(f"{WHERE} {where!r} names {hidden[0]}, which is hidden: a full read does not see it")
    return named


def source_condition(where: str, table: Table, *, tidb: bool) -> str | None:
    """A condition for a MySQL-compatible server that selects the same rows; ``None``: it may select others.

    ``tidb``: whether the server is a TiDB, whose REGEXP and quotients the job has. The session must be in UTC.
    """
    from ticdc_spark.config.expressions.compile import depends_on_server, with_columns

    if not tidb and depends_on_server(where):
        return None
    named = [column for column in table.columns if column.name.casefold() in named_columns(where)]
    if any(column.type.elements for column in named):
        return None  # compared by a collation or as a number, depending on its use
    return with_columns(
        where, {column.name.casefold(): _exact(column.name) for column in named if is_text(column.type)}
    )


def changed_column(where: str, old: Table, new: Table) -> str:
    """A column of the condition whose values a DDL may have changed. Other rows may then meet it. ``""``: none."""
    after = {column.name.casefold(): column for column in new.columns}
    for column in old.columns if where else ():
        there = after.get(column.name.casefold())
        if there is not None and column.name.casefold() in named_columns(where) and not _is_same(column, there):
            return column.name
    return ""


def _exact(name: str) -> str:
    return f"CONVERT(`{name.replace('`', '``')}` USING utf8mb4) COLLATE utf8mb4_bin"


def _is_same(old: Column, new: Column) -> bool:
    one, other = _plain(old.type), _plain(new.type)
    return one == other or (keeps_text(one, other) and fsp(one) == fsp(other))


def _judged(table: Table) -> Table:
    return replace(table, columns=tuple(replace(one, type=_plain(one.type)) for one in table.columns))


def _plain(kind: ColumnType) -> ColumnType:
    """A type without its collation."""
    return replace(kind, charset=None, collate=None) if is_text(kind) or kind.elements else kind
