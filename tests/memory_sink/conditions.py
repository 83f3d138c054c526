"""Which rows in memory meet conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.memory_sink.lake import LakeRow
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Value
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.spark.types import to_arrow


def met_by(where: Sequence[Sequence[Condition]], ids: Mapping[str, int]) -> Callable[[LakeRow], bool]:
    """Whether a row meets every condition of one of ``where``. ``ids``: of the fields of its table."""
    missing = [one.column.name for tests in where for one in tests if one.column.name not in ids]
    if missing:
        raise SinkFault(f"there is no column {missing[0]}")
    either = [[_test_of(one, ids[one.column.name]) for one in tests] for tests in where]
    return lambda row: any(all(test(row) for test in tests) for tests in either)


def _test_of(condition: Condition, at: int) -> Callable[[LakeRow], bool]:
    """Whether a row meets a condition. ``at``: the id of its field."""

    def typed(value: Value) -> Any:
        array, bad, _ = to_arrow(condition.column, condition.lake)([value])
        if bad:
            raise SinkFault(bad[0])
        return array[0].as_py()

    least, below = typed(condition.at_least), typed(condition.below)
    listed = None if condition.any_of is None else [typed(value) for value in condition.any_of]
    excluded = [typed(value) for value in condition.none_of]
    is_text = condition.column.type.arrow == "string"

    def meets(row: LakeRow) -> bool:
        value = row.get(at)
        if value is None:
            return condition.or_null
        if isinstance(value, str) != is_text:
            return False  # Another writer put a value of another type there.
        compared = value.rstrip(" ") if condition.rtrim else value
        is_listed = (listed is None or compared in listed) and compared not in excluded
        if condition.remainder is not None:
            divisor, remainder = condition.remainder
            is_listed = is_listed and abs(value) % divisor == remainder
        return is_listed and (least is None or value >= least) and (below is None or value < below)

    return meets
