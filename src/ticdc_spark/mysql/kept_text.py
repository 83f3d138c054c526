"""Type changes that leave every value unchanged. Pure."""

from ticdc_spark.model import ColumnType
from ticdc_spark.mysql.types import INTEGER_BITS, fsp, integer_range, is_text


def keeps_text(old: ColumnType, new: ColumnType) -> bool:
    """Whether every value of a column has the same text after a change of its type."""
    if old.name in INTEGER_BITS and new.name in INTEGER_BITS:
        before, after = integer_range(old), integer_range(new)
        return before is not None and after is not None and after[0] <= before[0] and before[1] <= after[1]
    if is_text(old) and is_text(new):
        return old.name != "char" and _length(new) >= _length(old)
    if old.name != new.name:
        return False
    if old.name == "decimal":
        return old.decimal == new.decimal and (new.length or 10) >= (old.length or 10)
    if old.name in ("datetime", "timestamp"):
        return fsp(new) >= fsp(old)
    if old.elements:
        return new.elements[: len(old.elements)] == old.elements
    return old == new


def _length(kind: ColumnType) -> int:
    return _LENGTHS.get(kind.name, kind.length or 0)


_LENGTHS = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
