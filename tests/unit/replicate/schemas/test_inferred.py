"""Schema changes without a DDL: what follows from two schemas of a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Column, Index, Table
from ticdc_spark.mysql import NO_CONSTANT, default_value, parse_type
from ticdc_spark.replicate.schemas.inferred import Additions, Other, follow, schema_change

TYPES = ("int", "bigint", "longtext", "longblob", "decimal(10,2)", "enum('a','b')", "datetime(6)")


def table(*columns: str, key: tuple[str, ...] = ("id",)) -> Table:
    """A table of columns written ``name type``."""
    primary = Index(name="primary", unique=True, primary=True, nullable=False, columns=key)
    split = [text.split(" ", 1) for text in columns]
    return Table(
        schema="s",
        name="t",
        columns=tuple(Column(name=name, type=parse_type(kind), nullable=name not in key) for name, kind in split),
        indexes=(primary,) if key else (),
    )


OLD = table("id int", "a longtext", "e enum('a','b')")


@pytest.mark.parametrize(
    ("new", "added"),
    [
        (OLD, []),
        (table("id int", "a longtext", "b bigint", "e enum('a','b')", "c int"), ["b", "c"]),
        (table("e enum('a','b')", "id int", "a longtext"), []),
        (table("ID int", "A longtext", "e enum('a','b')", key=("ID",)), []),
        (table("id int", "a longtext", "e enum('a','b','c')"), []),
        (replace(OLD, columns=tuple(replace(column, default="x") for column in OLD.columns)), []),
    ],
)
def test_additions(new: Table, added: list[str]) -> None:
    change = schema_change(OLD, new)
    assert isinstance(change, Additions)
    assert [column.name for column in change.columns] == added
    followed = follow(OLD, new, "stop")
    assert [column.name for column in followed.columns] == ["id", "a", "e", *added]
    assert followed == follow(OLD, new, "keep")
    assert schema_change(followed, new) == Additions(())


@pytest.mark.parametrize(
    ("new", "reasons", "kept"),
    [
        (table("id int", "e enum('a','b')"), ["column `a` is gone"], ["id", "a", "e"]),
        (table("id int", "x longtext", "e enum('a','b')"), ["column `a` is gone"], ["id", "a", "e", "x"]),
        (table("id smallint", "a longtext", "e enum('a','b')"), ["column `id` was int(11) and is smallint(6)"], None),
        (table("id int", "a longtext", "e enum('a','b')", key=("a",)), ["the key was (id) and is (a)"], None),
        (table("id int", "a longtext", "e enum('a','b')", key=()), ["the key was (id) and is ()"], None),
    ],
)
def test_anything_else_is_for_the_operator_to_decide(new: Table, reasons: list[str], kept: list[str] | None) -> None:
    change = schema_change(OLD, new)
    assert isinstance(change, Other)
    assert len(change.reasons) == len(reasons)
    assert all(reported.startswith(reason) for reported, reason in zip(change.reasons, reasons, strict=True))
    with pytest.raises(UnsupportedDdl, match=r"(?s)`s`\.`t`.*without a DDL.*schema-change = \"keep\" under \[job\]"):
        follow(OLD, new, "stop")
    followed = follow(OLD, new, "keep")
    assert [column.name for column in followed.columns] == (kept or ["id", "a", "e"])
    assert [column.type for column in followed.columns[:3]] == [column.type for column in OLD.columns]
    assert followed.indexes == OLD.indexes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "bigint"),
        ("tinyint unsigned", "int unsigned"),
        ("int unsigned", "bigint"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("float", "double"),
    ],
)
def test_a_type_that_holds_all_values_of_the_old_one_is_followed_without_asking(old: str, new: str) -> None:
    narrow, wide = table("id int", f"v {old}"), table("id int", f"v {new}")
    followed = follow(narrow, wide, "stop")
    assert followed.columns[1].type == wide.columns[1].type
    with pytest.raises(UnsupportedDdl, match="column `v` was"):
        follow(wide, narrow, "stop")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "int unsigned"),
        ("int unsigned", "int"),
        ("bigint unsigned", "bigint"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("decimal(10,2)", "double"),
        ("int", "decimal(20,0)"),
        ("int", "double"),
    ],
)
def test_a_type_that_may_change_values_is_for_the_operator_to_decide(old: str, new: str) -> None:
    with pytest.raises(UnsupportedDdl, match="column `v` was"):
        follow(table("id int", f"v {old}"), table("id int", f"v {new}"), "stop")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("enum('a','b')", "enum('x','a','b')"),
        ("enum('a','b')", "set('a','b')"),
        ("longtext", "enum('a','b')"),
        ("longtext", "longblob"),
        ("datetime(6)", "datetime"),
        ("datetime", "timestamp"),
        ("int", "date"),
    ],
)
def test_a_type_whose_values_would_be_misread_cannot_be_kept(old: str, new: str) -> None:
    for before, after in ((old, new), (new, old)):
        with pytest.raises(UnsupportedDdl, match=r"`v` would be misread as the old type.*Exclude the table"):
            follow(table("id int", f"v {before}"), table("id int", f"v {after}"), "keep")


def test_a_column_that_comes_back_is_the_one_that_was_kept() -> None:
    without = table("id int", "e enum('a','b')")
    assert follow(follow(OLD, without, "keep"), OLD, "stop").columns == OLD.columns


TABLES = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from(TYPES)), max_size=5, unique_by=lambda c: c[0]
).map(lambda columns: table("id int", *(f"{name} {kind}" for name, kind in columns)))


@given(TABLES, TABLES, TABLES)
def test_what_is_kept_holds_the_columns_of_every_schema(first: Table, second: Table, third: Table) -> None:
    try:
        followed = follow(follow(first, second, "keep"), third, "keep")
    except UnsupportedDdl:
        return  # a type cannot be kept
    names = [column.name for column in followed.columns]
    assert set(names) == {column.name for each in (first, second, third) for column in each.columns}
    assert len(set(names)) == len(names)
    assert names[: len(first.columns)] == [column.name for column in first.columns]
    assert follow(followed, third, "keep") == followed


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("longtext", "it's", "it's"),
        ("longtext", "", ""),
        ("longtext", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("longblob", "ab", b"ab"),
        ("longblob", "a\ufffd", NO_CONSTANT),
        ("json", "{}", NO_CONSTANT),
        ("enum('a','b')", "b", "2"),
        ("datetime(6)", "CURRENT_TIMESTAMP", NO_CONSTANT),
    ],
)
def test_literal_defaults_of_texts(kind: str, default: str, expected: object) -> None:
    column = Column(name="c", type=parse_type(kind), default=default)
    assert default_value(column, literal=True) == expected
