"""What a DDL does to a table's columns. No Spark."""

from typing import Any

import pytest
from msgspec.structs import replace

from ticdc_spark.errors import UsageError
from ticdc_spark.model import Column, ColumnType, SchemaChange, Table
from ticdc_spark.replicate.plan.column_diff import ColumnDefaults, ColumnDiff, SessionZone, column_diff, set_aside
from ticdc_spark.replicate.plan.ddl_actions import Alter, Refused, action
from ticdc_spark.sinks.conversions import NO_ZONE
from ticdc_spark.sinks.spark_types import SparkTypes
from ticdc_spark.spark.types import LakeOptions, lake_columns


def column(name: str, kind: str = "int", **more: Any) -> Column:
    default = more.pop("default", None)
    return Column(name=name, type=ColumnType(name=kind, **more), default=default)


def evolved(live: dict[str, str], *columns: Column, renames: dict[str, str] | None = None) -> ColumnDiff:
    table = Table(schema="s", name="a", columns=columns)
    return column_diff(live, lake_columns(table, (), LakeOptions()), renames or {}, TYPES)


LIVE = {"id": "int", "b": "int"}
TYPES = SparkTypes()


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
    assert [one.column.name for one in found.rewrites] == ["b"]
    assert "{old}" in found.rewrites[0].conversion.expression
    assert "try_" not in found.rewrites[0].conversion.expression
    assert not found.changes.promote


def test_a_new_column_fills_old_rows_with_its_default_and_no_other_does() -> None:
    found = evolved(LIVE, column("id"), column("b", default="7"), column("c", default="5"), column("d"))
    assert [(one.column.name, one.value) for one in found.fills] == [("c", "5")]


@pytest.mark.parametrize(("literal", "filled"), [(True, ["USD"]), (False, [])])
def test_old_rows_get_the_default_of_a_text_where_it_is_no_expression(literal: bool, filled: list[str]) -> None:
    table = Table(schema="s", name="a", columns=(column("id"), column("b"), column("c", "longtext", default="USD")))
    found = column_diff(
        LIVE, lake_columns(table, (), LakeOptions()), {}, TYPES, defaults=ColumnDefaults(literal=literal)
    )
    assert [one.name for one in found.changes.add] == ["c"]
    assert [one.value for one in found.fills] == filled


def test_what_the_server_made_in_old_rows_is_not_known() -> None:
    made = replace(column("d", default=None), nullable=False, stored=True)
    table = Table(
        schema="s", name="a", columns=(column("id"), column("b"), column("C", "varchar", default="uuid()"), made)
    )
    wanted = lake_columns(table, (), LakeOptions())
    found = column_diff(LIVE, wanted, {}, TYPES, defaults=ColumnDefaults(computed=("C",)))
    assert not found.fills
    assert found.inexact == (
        "column `C`: rows from before it have NULL in place of its default, 'uuid()'",
        "column `d`: rows from before it have NULL in place of what the server made",
    )
    assert [fill.value for fill in column_diff(LIVE, wanted, {}, TYPES).fills] == ["uuid()"], "by the text alone"
    change = SchemaChange(
        commit_ts=1,
        query="ALTER TABLE a ADD C VARCHAR(36) DEFAULT uuid()",
        kind="ALTER",
        schema="s",
        name="a",
        table=table,
    )
    act = action(change)
    assert isinstance(act, Alter) and act.computed == ("C",)


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


def modified(old: Column, new: Column, zone: str | None = None) -> ColumnDiff:
    before, after = (lake_columns(Table(schema="s", name="a", columns=(one,)), (), LakeOptions()) for one in (old, new))
    live = {one.name: one.type.spark for one in before}
    renames = {} if old.name == new.name else {old.name: new.name}
    return column_diff(live, after, renames, TYPES, old=before, defaults=ColumnDefaults(session=SessionZone(zone)))


def test_values_change_where_the_lake_type_does_not() -> None:
    found = modified(column("b", "datetime", decimal=6), column("c", "datetime", decimal=0))
    assert found.changes.rename == (("b", "c"),)
    (rewrite,) = found.rewrites
    assert rewrite.conversion.convert is not None
    assert rewrite.conversion.convert("2024-01-01 00:00:00.500000") == "2024-01-01 00:00:01"
    assert "`_old`" in rewrite.conversion.expression.format(
        old="`_old`"
    ) and "{" not in rewrite.conversion.expression.format(old="x")
    assert not found.inexact


def test_no_rewrite_when_no_value_changes() -> None:
    for old, new in [
        (column("b", "varchar", length=10), column("b", "varchar", length=20)),
        (column("b", "datetime", decimal=0), column("b", "datetime", decimal=3)),
        (column("b", "int"), column("b", "int", length=5)),
    ]:
        found = modified(old, new)
        assert not found.rewrites and not found.changes


def test_a_promotion_stays_one_when_the_source_types_are_known() -> None:
    found = modified(column("b", "int"), column("b", "bigint"))
    assert [one.name for one in found.changes.promote] == ["b"] and not found.rewrites


def test_what_is_not_exact_is_named() -> None:
    found = modified(column("b", "datetime", decimal=0), column("b", "timestamp", decimal=0))
    assert found.inexact == (f"column `b`: inexact: {NO_ZONE}",)
    assert not modified(column("b", "datetime"), column("b", "timestamp"), "UTC").inexact


STAMP = column("ts", "timestamp", default="2010-10-10 10:10:10")


def filled(zone: str | None, *, local: bool, new: Column = STAMP) -> object:
    table = Table(schema="s", name="a", columns=(column("id"), new))
    wanted = lake_columns(table, (), LakeOptions())
    found = column_diff(
        {"id": "int"}, wanted, {}, TYPES, defaults=ColumnDefaults(session=SessionZone(zone), local=local)
    )
    return found.fills[0].value if found.fills else None


def test_a_timestamp_default_of_sql_is_local_time_of_the_session() -> None:
    assert filled("Asia/Shanghai", local=True) == "2010-10-10 02:10:10"
    assert filled("Asia/Shanghai", local=False) == "2010-10-10 10:10:10", "Simple sends UTC"
    with pytest.raises(UsageError, match=r"\[job\] ddl-timezone: missing; .*`ts`"):
        filled(None, local=True)


def test_no_zone_is_needed_for_defaults_without_one() -> None:
    assert filled(None, local=True, new=column("d", "datetime", default="2010-10-10 10:10:10")) is not None
    assert filled(None, local=True, new=column("ts", "timestamp")) is None
    assert filled(None, local=True, new=column("ts", "timestamp", default="CURRENT_TIMESTAMP")) is None
    assert filled(None, local=True, new=column("ts", "timestamp", default="0000-00-00 00:00:00")) is not None


def test_a_default_that_the_zone_skips_is_refused_where_ambiguity_is() -> None:
    table = Table(schema="s", name="a", columns=(column("ts", "timestamp", default="2024-03-10 02:30:00"),))
    session = SessionZone("America/New_York", "reject")
    with pytest.raises(UsageError, match="never happens"):
        column_diff(
            {}, lake_columns(table, (), LakeOptions()), {}, TYPES, defaults=ColumnDefaults(session=session, local=True)
        )


def test_columns_end_in_the_order_of_the_source() -> None:
    assert evolved(LIVE, column("id"), column("c"), column("b")).changes.order == ("id", "c", "b")
    assert evolved(LIVE, column("id"), column("b"), column("c")).changes.order == ()
    moved = evolved(LIVE, column("b"), column("id"))
    assert moved.changes.order == ("b", "id") and moved.changes
    assert evolved(LIVE, column("id"), column("c"), renames={"b": "c"}).changes.order == ()


def test_a_rewritten_column_stays_where_it_stood() -> None:
    found = evolved({"a": "int", "b": "int", "c": "int"}, column("a"), column("b", "varchar"), column("c"))
    assert not found.changes.order
    aside = set_aside(found.rewrites[0], found, "_old")
    assert aside.rename == (("b", "_old"),) and [one.name for one in aside.add] == ["b"]
    assert aside.order == ("a", "b", "_old", "c")
    moved = evolved({"a": "int", "b": "int"}, column("b", "varchar"), column("a"))
    assert moved.changes.order == ("b", "a")


@pytest.mark.parametrize(
    ("added", "default"),
    [
        (column("b", "text", default="'x'"), "'x'"),
        (column("b", "json", default="json_array()"), "json_array()"),
        (column("b", "int", default="floor(rand() * 9)"), "floor(rand() * 9)"),
        (column("b", "datetime", default="now() + interval 1 day"), "now() + interval 1 day"),
        (column("b", "binary", length=2, default="\ufffd\ufffd"), "\ufffd\ufffd"),
    ],
)
def test_a_default_that_cannot_be_computed_marks_the_table(added: Column, default: str) -> None:
    found = evolved({"a": "int"}, column("a"), added)
    assert not found.fills
    assert found.inexact == (f"column `b`: rows from before it have NULL in place of its default, {default!r}",)


@pytest.mark.parametrize("default", ["CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP(6)", "now()", "CURRENT_DATE"])
def test_the_moment_of_a_ddl_is_about_that_of_the_server(default: str) -> None:
    found = evolved({"a": "int"}, column("a"), column("b", "datetime", default=default))
    assert [fill.moment for fill in found.fills] == [True]
    why = f"column `b`: rows from before it have the DDL's commitTs in place of its default, {default!r}"
    assert found.inexact == (why,)
