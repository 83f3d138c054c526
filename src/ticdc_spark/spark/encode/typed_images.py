"""Typed columns of the lake back to canonical values: the inverse of ``types.to_arrow``.

What the lake's types have lost cannot be restored. A zero date is NULL. ENUM ``''`` is index 0 unless it is a member. A
TINYINT(1) stored as a boolean is 0 or 1. Text that was not UTF-8 is what the lake has instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Value
from ticdc_spark.mysql import canonical_float, enum_index, fsp, set_mask
from ticdc_spark.spark.types import Cells, LakeColumn

Cell = Callable[[Any], Value]
_DATE, _TIME, _SECONDS = 10, 26, 19
"""Characters of ``2024-02-29``, ``2024-02-29 12:34:56.000000``, ``2024-02-29 12:34:56``."""


def from_arrow(column: LakeColumn) -> Callable[[pa.Array], tuple[Cells, Mapping[int, str]]]:
    """Compile the conversion of an Arrow array of a column's lake type to canonical values.

    It also returns the rows whose value fits no MySQL column (NaN, a year beyond 9999), with the reason; their cell is
    ``None``.
    """
    whole, one = _conversion(column)

    def convert(array: pa.Array) -> tuple[Cells, Mapping[int, str]]:
        cells = whole(array).to_pylist()
        if one is None:
            return cells, {}
        try:
            return [None if cell is None else one(cell) for cell in cells], {}
        except MessageError:
            return _one_by_one(cells, one)

    return convert


def _one_by_one(cells: list[Any], one: Cell) -> tuple[Cells, dict[int, str]]:
    read: Cells = []
    bad: dict[int, str] = {}
    for at, cell in enumerate(cells):
        try:
            read.append(None if cell is None else one(cell))
        except MessageError as error:
            read.append(None)
            bad[at] = str(error)
    return read, bad


def _conversion(column: LakeColumn) -> tuple[Callable[[pa.Array], pa.Array], Cell | None]:
    """The conversion in Arrow of all values, and a conversion of each value after it."""
    source, kind = column.column.type, column.type
    match kind.arrow:
        case "int32" | "int64":
            return _text, None
        case "decimal":
            # Arrow writes small numbers of many digits with an exponent
            return (_text, None) if kind.scale <= 6 else (_same, _decimal)
        case "bool":
            return _number, None
        case "float" | "double":
            return _text, _float
        case "date":
            return _text, partial(_fixed, length=_DATE)
        case "local" | "instant":
            digits = fsp(source)
            return _times, partial(_time, kept=_SECONDS + digits + 1 if digits else _SECONDS)
        case "floats":
            return _same, _vector
    if source.name in ("enum", "set"):
        find = enum_index if source.name == "enum" else set_mask
        return _same, cache(partial(find, source))
    return _same, None


def _same(array: pa.Array) -> pa.Array:
    return array


def _text(array: pa.Array) -> pa.Array:
    return pc.cast(array, pa.string())


def _number(array: pa.Array) -> pa.Array:
    return _text(pc.cast(array, pa.int8()))


def _times(array: pa.Array) -> pa.Array:
    return _text(pc.cast(array, pa.timestamp("us")))  # for an instant: in UTC


def _decimal(number: Decimal) -> str:
    return format(number, "f")


def _float(text: str) -> str:
    # Arrow's text is the shortest of that width, but it writes large and small numbers in another form
    if "e" not in text and "n" not in text and "0.0000" not in text:
        return text
    return canonical_float(text, 64)


def _fixed(text: str, length: int) -> str:
    if len(text) != length:
        raise MessageError(f"{text!r} is beyond MySQL's years")
    return text


def _time(text: str, kept: int) -> str:
    if len(text) != _TIME:
        raise MessageError(f"{text!r} is beyond MySQL's years")
    if text[kept:].strip(".0"):
        raise MessageError(f"{text!r} has more digits than the column")
    return text[:kept]


def _vector(numbers: Sequence[float]) -> str:
    # TiDB writes no exponents
    short = (canonical_float(text, 64) for text in _text(pa.array(numbers, pa.float32())).to_pylist())
    return "[" + ",".join(format(Decimal(text), "f") for text in short) + "]"
