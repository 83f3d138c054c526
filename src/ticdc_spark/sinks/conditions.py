"""Conditions on the rows of a table, for example of the partition that a DDL drops."""

import msgspec

from ticdc_spark.model import Value
from ticdc_spark.spark.types import LakeColumn, LakeOptions


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on the values of one column. Values are canonical; ``None`` is no bound."""

    column: LakeColumn
    at_least: Value = None
    below: Value = None
    any_of: tuple[Value, ...] | None = None
    none_of: tuple[Value, ...] = ()
    remainder: tuple[int, int] | None = None
    """For an integer: (divisor, remainder) of its absolute value."""
    rtrim: bool = False
    """For text: ``any_of`` and ``none_of`` compare without trailing spaces."""
    or_null: bool = False
    """Whether NULL also meets the condition."""
    lake: LakeOptions = LakeOptions()
