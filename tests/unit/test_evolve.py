"""What a DDL does to a table's columns. No Spark."""

from typing import Any

import pytest

from ticdc_spark.model import Column, ColumnType, SchemaChange, Table
from ticdc_spark.replicate.plan.evolve import Alter, Evolution, Refused, action, evolution
from ticdc_spark.spark.types import LakeOptions, lake_columns


def column(name: str, kind: str = "int", **more: Any) -> Column:
    default = more.pop("default", None)
    return Column(name=name, type=ColumnType(name=kind, **more), default=default)


def evolved(live: dict[str, str], *columns: Column, renames: dict[str, str] | None = None) -> Evolution:
    table = Table(schema="s", name="a", columns=columns)
    return evolution(live, lake_columns(table, (), LakeOptions()), renames or {})


LIVE = {"id": "int", "b": "int"}


def test_no_change_is_none() -> None:
    found = evolved(LIVE, column("id"), column("b"))
    assert not found.changes and not found.fills and not found.rewrites


def test_columns_come_and_go() -> None:
    found = evolved(LIVE, column("id"), column("c", "bigint"))
    assert [one.name for one in found.changes.add] == ["c"]
    assert found.changes.drop == ("b",)
    assert not found.changes.rename


def test_a_renamed_column_keeps_its_values() -> None:
    found = evolved(LIVE, column("id"), column("c"), renames={"b": "c"})
    assert found.changes.rename == (("b", "c"),)
    assert not found.changes.drop and not found.changes.add and not found.fills


def test_two_columns_change_names() -> None:
    found = evolved({"a": "int", "b": "bigint"}, column("b"), column("a", "bigint"), renames={"a": "b", "b": "a"})
    assert set(found.changes.rename) == {("a", "b"), ("b", "a")}
    assert not found.changes.promote and not found.rewrites


@pytest.mark.parametrize("renames", [{}, {"b": "B"}])
def test_a_change_of_case_alone_is_a_rename(renames: dict[str, str]) -> None:
    found = evolved(LIVE, column("id"), column("B"), renames=renames)
    assert found.changes.rename == (("b", "B"),)
    assert not found.changes.drop and not found.changes.add


def test_a_dropped_name_that_a_rename_takes_is_not_mixed_up() -> None:
    found = evolved({"id": "int", "b": "int", "c": "string"}, column("id"), column("b", "text"), renames={"c": "b"})
    assert found.changes.rename == (("c", "b"),)
    assert found.changes.drop == ("b",)
    assert not found.changes.promote and not found.rewrites


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", column("b", "bigint")),
        ("float", column("b", "double")),
        ("decimal(5,2)", column("b", "decimal", length=9, decimal=2)),
    ],
)
def test_what_the_lake_promotes_is_not_rewritten(old: str, new: Column) -> None:
    found = evolved({"id": "int", "b": old}, column("id"), new)
    assert [one.name for one in found.changes.promote] == ["b"]
    assert not found.rewrites


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bigint", column("b", "int")),
        ("int", column("b", "varchar")),
        ("decimal(9,2)", column("b", "decimal", length=9, decimal=4)),
        ("decimal(9,2)", column("b", "decimal", length=5, decimal=2)),
    ],
)
def test_any_other_change_of_type_converts_every_value(old: str, new: Column) -> None:
    found = evolved({"id": "int", "b": old}, column("id"), new)
    assert [(one.column.name, one.old_type) for one in found.rewrites] == [("b", old)]
    assert "{old}" in found.rewrites[0].expression
    assert "try_" not in found.rewrites[0].expression
    assert not found.changes.promote


def test_a_new_column_fills_old_rows_with_its_default_and_no_other_does() -> None:
    found = evolved(LIVE, column("id"), column("b", default="7"), column("c", default="5"), column("d"))
    assert [(one.column.name, one.value) for one in found.fills] == [("c", "5")]


def test_old_rows_do_not_get_the_default_of_a_column_that_avro_calls_text() -> None:
    found = evolved(LIVE, column("id"), column("b"), column("c", "text", default="USD"))
    assert [one.name for one in found.changes.add] == ["c"]
    assert not found.fills


def test_a_renamed_column_with_a_default_is_not_filled() -> None:
    found = evolved(LIVE, column("id"), column("c", default="5"), renames={"b": "c"})
    assert not found.fills


def test_rows_that_move_without_messages_are_refused() -> None:
    table = Table(schema="s", name="a", columns=(column("id"),))

    def of(query: str) -> object:
        return action(SchemaChange(commit_ts=1, query=query, kind="ALTER", schema="s", name="a", table=table))

    assert isinstance(of("ALTER TABLE a EXCHANGE PARTITION p0 WITH TABLE b"), Refused)
    assert isinstance(of("ALTER TABLE a DROP PARTITION p0"), Refused)
    assert isinstance(of("RECOVER TABLE a"), Refused)
    assert isinstance(of("ALTER TABLE a ADD COLUMN x INT"), Alter)
    renamed = of("RENAME TABLE old TO a")
    assert isinstance(renamed, Alter) and renamed.old == ("s", "old")
