"""How much of a column an index has, in the units of SQL: characters of a text, and bytes of every other type."""

from __future__ import annotations

from msgspec.structs import replace

from ticdc_spark.model import ColumnType, Index
from ticdc_spark.mysql import INTEGER_BITS, fsp

_WITH_LENGTH = frozenset(("char", "varchar", "binary", "varbinary"))
_ENDLESS = 2**32
"""No prefix has a whole TEXT or BLOB."""
_FIXED = {"float": 4, "double": 8, "date": 3, "year": 1} | {name: bits // 8 for name, bits in INTEGER_BITS.items()}
_TIMES = {"time": 3, "datetime": 5, "timestamp": 4}
_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of so many digits of a DECIMAL."""
_SET_BYTES = (1, 1, 2, 3, 4, 8, 8, 8, 8)
"""Of a SET, by the bytes that its bits need."""
_MOST_BYTES = {"latin1": 1, "ascii": 1, "binary": 1, "gbk": 2, "utf8": 3, "utf8mb3": 3}
"""Of one character. All others have four: it counts only for an ENUM or SET, which has at most eight bytes."""


def whole_size(kind: ColumnType) -> int:
    """The length from which on a prefix has the whole column; 0: an index always has it whole."""
    if kind.name.endswith(("text", "blob")):
        return _ENDLESS
    return (kind.length or 0) if kind.name in _WITH_LENGTH else 0


def size_in_key(kind: ColumnType) -> int:
    """The length of a whole column in an index; 0: it is not counted, and a column in its place is whole, too."""
    name, length = kind.name, kind.length or 0
    if name in _WITH_LENGTH:
        return length
    if name in _TIMES:
        return _TIMES[name] + (fsp(kind) + 1) // 2
    if name == "bit":
        return (length + 7) // 8
    if name == "decimal":
        part = kind.decimal or 0
        return sum(4 * (digits // 9) + _DIGITS[digits % 9] for digits in (length - part, part))
    if name in ("enum", "set"):
        size = (1 if len(kind.elements) < 256 else 2) if name == "enum" else _SET_BYTES[(len(kind.elements) + 7) // 8]
        return size // _MOST_BYTES.get(kind.charset or "", 4)
    return _FIXED.get(name, 0)


def measured(index: Index, whole: dict[str, int]) -> Index:
    """The index without prefixes that have the whole column. ``whole``: the ``whole_size`` of each column."""
    if not index.prefixes:
        return index
    prefixes = tuple(
        prefix if prefix < whole.get(name, prefix) else 0
        for name, prefix in zip(index.columns, index.prefixes, strict=True)
    )
    return replace(index, prefixes=prefixes if any(prefixes) else ())
