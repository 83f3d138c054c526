"""Rows that TiDB rewrote for MODIFY COLUMN: their values before the DDL, converted, are the old images after it."""

from __future__ import annotations

from tests.support.vectors import cases, needs_vectors
from ticdc_spark.model import Column, RowChange, Value
from ticdc_spark.mysql import format_type
from ticdc_spark.sinks.conversions import conversion
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_type

pytestmark = needs_vectors


def lake(column: Column) -> LakeColumn:
    return LakeColumn(source="c", name="c", type=lake_type(column.type, LakeOptions()), column=column)


def test_rows_that_tidb_rewrote_have_our_values() -> None:
    seen: dict[tuple[str, str, Value, str], tuple[Column, Value]] = {}
    found: dict[tuple[str, str], int] = {}
    for case in cases():
        seen.clear()
        for event in case.configs[0].truth.values():
            if not isinstance(event, RowChange):
                continue
            key = next((row["id"] for row in (event.after, event.before) if row and "id" in row), None)
            for column in event.table.columns:
                at = (event.table.schema, event.table.name, key, column.name)
                if event.before is not None and at in seen and key is not None and column.name in event.before:
                    old, value = seen[at]
                    if old.type != column.type:
                        change = conversion(lake(old), lake(column), "UTC")
                        assert change.exact, change.reason
                        assert change.python(value) == event.before[column.name], (str(case), at, value)
                        pair = (format_type(old.type), format_type(column.type))
                        found[pair] = found.get(pair, 0) + (value is not None)
                if event.after is not None and column.name in event.after:
                    seen[at] = (column, event.after[column.name])
    assert found.keys() >= {
        ("int(11)", "bigint(20)"),
        ("bigint(20)", "varchar(30)"),
        ("double", "decimal(12,2)"),
    }, found
    assert all(found.values()), found
