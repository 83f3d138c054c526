"""What the comparison with the truth sees: every kind of difference, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.workload import Truth, WorkloadConfig, generate
from tests.workload.compare import differences, expected
from ticdc_spark.model import Row


def shop() -> Truth:
    workload = generate(WorkloadConfig(changes=600, ddl_every=0))
    for _ in workload:
        pass
    return workload.truth


def test_tables_equal_themselves_in_any_order() -> None:
    for table, rows in shop().values():
        found = expected(table, rows.values())
        assert found.num_rows == len(rows) > 10
        assert differences(found, table, reversed(list(rows.values()))) == []


def replaced(found: pa.Table, name: str, cells: list[object]) -> pa.Table:
    at = found.schema.get_field_index(name)
    return found.set_column(at, found.schema.field(at), pa.array(cells, found.schema.field(at).type))


def with_null(found: pa.Table) -> pa.Table:
    return replaced(found, "phone", [None, *found.column("phone").to_pylist()[1:]])


def with_other(found: pa.Table) -> pa.Table:
    return replaced(found, "full_name", ["somebody else", *found.column("full_name").to_pylist()[1:]])


def with_other_type(found: pa.Table) -> pa.Table:
    at = found.schema.get_field_index("id")
    return found.set_column(at, "id", found.column("id").cast(pa.decimal128(20, 0)))


DAMAGE: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a cell": (with_other, "full_name is 'somebody else', and should be"),
    "a null": (with_null, "phone is None, and should be"),
    "a row gone": (lambda found: found.slice(1), "is missing"),
    "a row twice": (lambda found: pa.concat_tables([found, found.slice(0, 1)]), "is there 2 times"),
    "a type": (with_other_type, "column id is decimal128(20, 0), and should be int64"),
    "a column gone": (lambda found: found.drop_columns(["tier"]), "column tier is missing"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_every_difference_is_seen(kind: str) -> None:
    damage, word = DAMAGE[kind]
    table, rows = shop()["shop", "customers"]
    held: list[Row] = sorted(rows.values(), key=lambda row: row["phone"] is None)
    reported = differences(damage(expected(table, held)), table, held)
    assert any(word in line for line in reported), reported


def test_a_row_too_many_and_no_rows_at_all() -> None:
    table, rows = shop()["shop", "orders"]
    first, *others = rows.values()
    assert any("should not be there" in line for line in differences(expected(table, rows.values()), table, others))
    assert differences(expected(table, []), table, []) == []
    assert any("is missing" in line for line in differences(expected(table, []), table, [first]))


def test_only_the_first_differences_are_listed_one_by_one() -> None:
    table, rows = shop()["shop", "orders"]
    reported = differences(expected(table, []), table, rows.values())
    assert len(reported) == 7
    assert reported[-1] == f"… and {len(rows) - 5} more rows differ"
