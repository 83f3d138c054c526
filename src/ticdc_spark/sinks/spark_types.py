"""The source's types and names in tables of a lake with Spark's types."""

from collections.abc import Sequence

import msgspec

from ticdc_spark.model import Table
from ticdc_spark.mysql import Ambiguous
from ticdc_spark.names import escape, unescape
from ticdc_spark.sinks.conversions import conversion
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_columns


class LakeNames:
    """See ``sinks.type_map.NameRule``."""

    def held(self, name: str) -> str:
        return escape(name)

    def source(self, held: str) -> str:
        return unescape(held)

    def fits(self, name: str) -> bool:
        return True


class SparkTypes:
    """See ``sinks.type_map.TypeMap``. The names of types are Spark's."""

    def columns(self, table: Table, key: tuple[str, ...], options: LakeOptions) -> tuple[LakeColumn, ...]:
        return lake_columns(table, key, options)

    def promotes(self, old: str, new: str) -> bool:
        """What a lake changes by metadata alone."""
        if (old, new) in {("int", "bigint"), ("float", "double")}:
            return True
        if old.startswith("decimal(") and new.startswith("decimal("):
            (old_precision, old_scale), (precision, scale) = (map(int, kind[8:-1].split(",")) for kind in (old, new))
            return scale == old_scale and precision > old_precision
        return False

    def widens(self, old: str, new: str) -> bool:
        return SparkTypes.promotes(self, old, new)

    def conversion(
        self, old: LakeColumn, new: LakeColumn, zone: str | None, ambiguous: Ambiguous
    ) -> ColumnConversion | None:
        found = conversion(old, new, zone, ambiguous)
        if found.keeps_lake:
            return None
        source = msgspec.structs.replace(new.column, type=old.column.type)
        before = msgspec.structs.replace(new, type=old.type, column=source)
        return ColumnConversion(expression=found.template, before=before, convert=found.python, inexact=found.reason)

    def add_columns(self, columns: Sequence[LakeColumn]) -> str:
        return f"ADD COLUMNS ({', '.join(f'{quote(column.name)} {column.type.spark}' for column in columns)})"

    def cast(self, old: str, new: LakeColumn) -> ColumnConversion:
        """Convert as MySQL does; a value that does not fit fails and never becomes NULL."""
        return ColumnConversion(expression=_cast(old, new.type.spark))


def _cast(old: str, new: str) -> str:
    if old == "string" and new == "binary":
        return "encode({old}, 'UTF-8')"
    if old == "binary" and new == "string":
        return "decode({old}, 'UTF-8')"
    if old in {"float", "double", "string"} and new in {"int", "bigint"}:
        return f"CAST(round(CAST({{old}} AS double)) AS {new})"
    if old.startswith("decimal") and new in {"int", "bigint"}:
        return f"CAST(round({{old}}) AS {new})"
    if old == "boolean" and new != "string":
        return f"CAST(CAST({{old}} AS int) AS {new})"
    if old == "boolean":
        return "CAST(CAST({old} AS int) AS string)"
    return f"CAST({{old}} AS {new})"
