"""Values of one type of the lake as values of another: by canonical values where the source's types are known."""

from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa

from ticdc_spark.errors import DecisionNeeded, MessageError
from ticdc_spark.mysql import fsp
from ticdc_spark.sinks.base import unconverted
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.encode.typed_images import from_arrow
from ticdc_spark.spark.types import LakeColumn, LakeType, arrow_type, to_arrow


def convert_values(conversion: ColumnConversion, old: LakeType, column: LakeColumn, values: list[Any]) -> list[Any]:
    """Convert values of a column. Raises: DecisionNeeded where one does not fit"""
    before, convert = conversion.before, conversion.convert
    try:
        if before is None or convert is None:
            return [_cast(old, column, value) for value in values]
        values = _without_finer_digits(before, values)
        cells, bad = from_arrow(before)(pa.array(values, arrow_type(before.type)))
        if bad:
            raise DecisionNeeded(unconverted(column, next(iter(bad.values()))))
        array, unread, _ = to_arrow(column, conversion.lake)([convert(cell) for cell in cells])
    except (MessageError, ValueError, ArithmeticError, pa.ArrowException) as error:
        raise DecisionNeeded(unconverted(column, str(error))) from error
    if unread:
        raise DecisionNeeded(unconverted(column, next(iter(unread.values()))))
    found: list[Any] = array.to_pylist()
    return found


def _without_finer_digits(column: LakeColumn, values: list[Any]) -> list[Any]:
    """Times without the digits that their column does not have, as where a DDL was left out: Spark's text has none."""
    if column.type.arrow not in ("local", "instant"):
        return values
    unit = 10 ** (6 - fsp(column.column.type))
    return [
        value.replace(microsecond=value.microsecond // unit * unit) if isinstance(value, datetime) else value
        for value in values
    ]


def _cast(old: LakeType, column: LakeColumn, value: Any) -> Any:
    """As Spark casts, where no more than the type in the lake is known."""
    if value is None:
        return None
    text = value.decode() if isinstance(value, bytes) else str(int(value)) if isinstance(value, bool) else str(value)
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
