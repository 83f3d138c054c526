"""How ``partition-by`` and ``sort-by`` are read."""

import pytest

from ticdc_spark.config.job import Route
from ticdc_spark.config.layout import Layout, PartitionBy, SortBy, parse_partition, parse_sort
from ticdc_spark.config.routes import compiled
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import UsageError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("region", PartitionBy("identity", "region")),
        ("`a b``(`", PartitionBy("identity", "a b`(")),
        ("days(created_at)", PartitionBy("day", "created_at")),
        ("Month( `x y` )", PartitionBy("month", "x y")),
        ("years(d)", PartitionBy("year", "d")),
        ("hour(d)", PartitionBy("hour", "d")),
        ("identity(d)", PartitionBy("identity", "d")),
        ("bucket(16, id)", PartitionBy("bucket", "id", 16)),
        (" truncate( 4 ,name) ", PartitionBy("truncate", "name", 4)),
        ("days", PartitionBy("identity", "days")),
    ],
)
def test_a_partition_field_is_read_as_spark_writes_it(text: str, found: PartitionBy) -> None:
    assert parse_partition(text) == found


@pytest.mark.parametrize(
    "text", ["", "days(", "days)", "a b", "bucket(id)", "bucket(0, id)", "days(3, d)", "void(x)", "days(a), b", "a)"]
)
def test_what_is_no_partition_field_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_partition(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("id", SortBy("id")),
        ("id ASC", SortBy("id")),
        ("`order` desc", SortBy("order", descending=True, nulls_last=True)),
        ("id nulls last", SortBy("id", nulls_last=True)),
        ("id desc  nulls first", SortBy("id", descending=True)),
    ],
)
def test_a_sort_field_is_read_with_where_null_comes(text: str, found: SortBy) -> None:
    assert parse_sort(text) == found


@pytest.mark.parametrize("text", ["", "id down", "id nulls", "id, v", "lower(id)"])
def test_what_is_no_sort_field_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_sort(text)


def test_a_layout_is_of_the_first_rule_that_takes_a_table() -> None:
    rules = (Route(tables=("a.*",), partition_by=("days(d)",), sort_by=("id",), properties=(("x", "1"),)),)
    assert compiled(rules).layout(("a", "t")) == Layout(
        partition_by=(PartitionBy("day", "d"),), sort_by=(SortBy("id"),), properties=(("x", "1"),)
    )
    assert not compiled(rules).layout(("b", "t"))


@pytest.mark.parametrize("rule", [{"partition_by": ("days(x)",)}, {"sort_by": ("x",)}, {"sort_by": ("v",)}])
def test_a_layout_by_a_column_that_the_target_lacks_is_refused(rule: dict[str, tuple[str, ...]]) -> None:
    routes = compiled((Route(tables=("*.*",), drop_columns=("v",), **rule),))
    table = parse_create("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "s", "escape")
    routes.stop_if_wrong(table)
    with pytest.raises(UsageError, match=r"`s`.`t`: \[\[route\]\] (partition|sort)-by: the table has no column"):
        routes.stop_if_wrong(table, is_new=True)
