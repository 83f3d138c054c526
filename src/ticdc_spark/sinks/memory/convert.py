"""Values of one type of the lake as values of another, as Spark's casts do it."""

from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from ticdc_spark.sinks.base import ColumnConversion
from ticdc_spark.spark.types import LakeColumn, LakeType


def convert_value(conversion: ColumnConversion, old: LakeType, column: LakeColumn, value: Any) -> Any:
    """Convert one value. Raises: ValueError where it does not fit."""
    if value is None:
        return None
    text = _text(value)
    match column.type.arrow:
        case "string":
            return text
        case "binary":
            return value if isinstance(value, bytes) else text.encode()
        case "int32" | "int64":
            return int(Decimal(text).quantize(Decimal(1), ROUND_HALF_UP))
        case "float" | "double":
            return float(text)
        case "decimal":
            return Decimal(text).quantize(Decimal(1).scaleb(-column.type.scale), ROUND_HALF_UP)
        case "bool":
            return text != "0"
        case "date":
            return date.fromisoformat(text[:10])
        case "local" | "instant":
            return datetime.fromisoformat(text)
        case _:
            message = f"{old.spark} is not converted to {column.type.spark}"
            raise ValueError(message)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return value.decode() if isinstance(value, bytes) else str(value)
