"""Virtual generated columns: their values, which no message has, computed of the other columns of a row. Pure.

Only expressions are computed whose values every server finds alike. Others stay NULL: text compared by a collation,
quotients, regular expressions, FLOAT and DOUBLE, TIMESTAMP (which depends on the session), and virtual columns of
virtual columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from ticdc_spark.config.shards import is_merged
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Column, ColumnType, Row, Table, Value
from ticdc_spark.mysql import fsp, integer_range, is_integer, is_text

if TYPE_CHECKING:
    from ticdc_spark.config.expressions.nodes import Node

Expressions = tuple[tuple[str, str], ...]
"""Columns with their expressions."""
_SOURCES = frozenset(
    (
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "datetime", "json"),
        *("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
    )
)
"""The types of columns that an expression may name."""
_TEXT_BYTES = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
_NUMBER = re.compile(r" *[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+) *")
_LONGEST = 200
"""Most characters of a text that is read as a number."""
_UTF8MB3 = 0xFFFF
"""The highest code point that utf8mb3 has."""


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

    ``tables``: before and after it. ``renames``: of columns, old name to new name.
    """
    old, new = ({column.name.casefold(): column for column in table.columns} for table in tables)
    renamed = {one.casefold(): other.casefold() for one, other in renames.items()}
    found: list[tuple[str, str]] = []
    for name, expression in before:
        was, column = old.get(name.casefold()), new.get(renamed.get(name.casefold(), name.casefold()))
        if was is None or column is None or not (column.virtual and _is_same(column.expression, expression)):
            continue
        named = _named(expression)
        kept = all(one in old and one in new and _is_alike(old[one], new[one]) for one in named)
        stays = kept and _is_alike(was, column)
        if stays and named.isdisjoint(renamed):
            found.append((column.name, expression))
    return tuple(found)


@lru_cache(1024)
def computed(name: str, expression: str, table: Table) -> Computed:
    """Compile a column. Raises: UsageError if its values cannot be computed"""
    # imported late: only a table with such a column waits for the parser
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
        if not _is_utf8(one.type):
            raise UsageError(f"it names column `{one.name}` in character set {one.type.charset or 'unknown'}")
    return Computed(name, tuple(one.name for one in reads), _assigned(column, compile_generated(expression, table)))


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


def _is_utf8(kind: ColumnType) -> bool:
    return not is_text(kind) or (kind.charset or "").startswith("utf8")


def _assigned(column: Column, node: Node) -> Callable[[Row], Value]:
    """The function that gives a column its value, as an INSERT does in strict mode.

    Raises: UsageError if it is not known how
    """
    convert = _CONVERSIONS.get((_family(column.type), node.kind))
    if convert is None or (node.kind == "datetime" and node.scale > fsp(column.type)):
        raise UsageError(f"servers may convert its {node.kind} value to {column.type.name} differently")

    def value(row: Row) -> Value:
        found = node.of(row)
        return None if found is None else convert(found, column.type)

    return value


def _family(kind: ColumnType) -> str:
    if is_text(kind) and _is_utf8(kind):
        return "text"
    if kind.name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return "int"
    return kind.name if kind.name in ("decimal", "date", "datetime") else ""


def _integer(value: Any, kind: ColumnType) -> str:
    low, high = integer_range(kind) or (0, 0)
    if not low <= value <= high:
        raise MessageError(f"{value} is out of the range of {kind.name}")
    return str(int(value))


def _rounded(value: Decimal, kind: ColumnType) -> str:
    from ticdc_spark.config.expressions.convert import round_half_up

    return _integer(int(round_half_up(value, 0)), kind)


def _decimal(value: Any, kind: ColumnType) -> str:
    from ticdc_spark.config.expressions.convert import round_half_up

    scale = kind.decimal or 0
    found = round_half_up(Decimal(value), scale)
    if abs(found) >= Decimal(10) ** ((kind.length or 10) - scale):
        raise MessageError(f"{value} is out of the range of decimal({kind.length},{scale})")
    text = format(found, f".{scale}f")
    return text.removeprefix("-") if not found else text


def _text(value: str, kind: ColumnType) -> str:
    if kind.charset != "utf8mb4" and any(ord(letter) > _UTF8MB3 for letter in value):
        raise MessageError(f"{kind.charset} lacks a character")
    if kind.name in _TEXT_BYTES:
        if len(value.encode(errors="surrogateescape")) > _TEXT_BYTES[kind.name]:
            raise MessageError(f"a text is longer than {kind.name}")
        return value
    size = kind.length or 0
    if len(value.rstrip(" ")) > size:
        raise MessageError(f"a text is longer than {kind.name}({size})")
    return value.rstrip(" ") if kind.name == "char" else value[:size]


def _digits(value: str, kind: ColumnType) -> str:
    return _rounded(_number_of(value), kind)


def _number(value: str, kind: ColumnType) -> str:
    return _decimal(_number_of(value), kind)


def _number_of(text: str) -> Decimal:
    """The number of a text that has nothing else. Raises: MessageError"""
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise MessageError(f"{text!r} is no number")
    return Decimal(text.strip(" "))


def _date(value: str, _kind: ColumnType) -> str:
    return value[:10]


def _moment(value: str, kind: ColumnType) -> str:
    digits = fsp(kind)
    if value[20 + digits :].strip("0"):
        raise MessageError(f"{value} has more digits after the point than the column")
    return value[: 20 + digits] if digits else value[:19]


_CONVERSIONS: dict[tuple[str, str], Callable[[Any, ColumnType], str]] = {
    ("int", "int"): _integer,
    ("int", "decimal"): _rounded,
    ("int", "text"): _digits,
    ("decimal", "int"): _decimal,
    ("decimal", "decimal"): _decimal,
    ("decimal", "text"): _number,
    ("text", "text"): _text,
    ("text", "int"): lambda value, kind: _text(str(int(value)), kind),
    ("date", "date"): _date,
    ("datetime", "datetime"): _moment,
    ("datetime", "date"): _moment,
}
"""By the column's type and the kind of the expression's value."""
