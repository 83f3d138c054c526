"""Which columns are compared, which are named as not compared, and which tables are not compared at all."""

from __future__ import annotations

import pytest

from tests.unit.verify.tables import LAKE
from ticdc_spark.ddl import parse_create
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.types import lake_columns
from ticdc_spark.verify.columns import TablePlan, columns_gone, plan_of


def plan(source: str, target: str) -> TablePlan | str:
    tables = tuple(parse_create(f"CREATE TABLE t ({of})", "s", "escape") for of in (source, target))
    columns = tuple(lake_columns(one, handle_key(one), LAKE) for one in tables)
    return plan_of((tables[0], tables[1]), (columns[0], columns[1]), LAKE)


def test_columns_of_one_side_and_virtual_ones_are_named() -> None:
    found = plan(
        "id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL", "ID INT PRIMARY KEY, b INT, v INT AS (1) VIRTUAL"
    )
    assert isinstance(found, TablePlan)
    assert [(pair.name, pair.target.name) for pair in found.pairs] == [("id", "ID")]
    assert found.skipped == {
        "b": "the source has no such column",
        "v": "a virtual generated column: no message has its values",
        "a": "the target has no such column",
    }


def test_the_key_comes_first_and_says_whether_there_are_ranges() -> None:
    found = plan(*["v INT, b BINARY(2), a BIGINT, PRIMARY KEY (a, b)"] * 2)
    assert isinstance(found, TablePlan)
    assert ([pair.name for pair in found.pairs], found.keys, found.has_ranges) == (["a", "b", "v"], 2, True)
    text = plan(*["k VARCHAR(9) PRIMARY KEY, f FLOAT"] * 2)
    assert isinstance(text, TablePlan)
    assert (text.has_ranges, text.has_text_key, text.pushed, text.rest) == (False, True, (0,), (1,))


@pytest.mark.parametrize(
    ("source", "target", "pushed"),
    [
        ("INT", "INT", True),
        ("INT", "BIGINT", False),
        ("VARCHAR(5)", "VARCHAR(9)", True),
        ("VARCHAR(5) CHARSET gbk", "VARCHAR(5) CHARSET gbk", False),
        ("ENUM('a')", "ENUM('b')", False),
        ("DATETIME(3)", "DATETIME(6)", False),
        ("DOUBLE", "DOUBLE", False),
        ("JSON", "JSON", False),
    ],
)
def test_a_checksum_is_of_columns_that_both_sides_write_alike(source: str, target: str, pushed: bool) -> None:
    found = plan(f"id INT PRIMARY KEY, v {source}", f"id INT PRIMARY KEY, v {target}")
    assert isinstance(found, TablePlan)
    assert (found.pairs[1].form is not None) is pushed


def test_a_table_without_a_key_or_with_another_one_is_not_compared() -> None:
    assert plan("a INT", "a INT") == "it has no key, so rows cannot be matched"
    other = plan("a INT PRIMARY KEY, b INT NOT NULL", "a INT, b INT PRIMARY KEY")
    assert isinstance(other, str) and "another key" in other


def test_columns_that_the_target_has_no_more_are_told_in_whatever_letters() -> None:
    found = plan("id INT PRIMARY KEY, a INT, b INT", "id INT PRIMARY KEY, a INT, b INT")
    assert isinstance(found, TablePlan)
    assert [pair.name for pair in columns_gone(found, ["ID", "B", "other"])] == ["a"]
    assert columns_gone(found, ["id", "a", "b"]) == ()
    assert columns_gone(found, []) == (), "the table itself is gone"
