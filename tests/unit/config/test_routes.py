"""The rules of ``[[route]]``: which one is a table's, and the name that it gives."""

import pytest

from ticdc_spark.config.job import Route
from ticdc_spark.config.routes import compiled
from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName

VERSIONED = Route(tables=("shop.*", "!shop.tmp_*"), target_schema="lake_{schema}", target_table="{table}_v1")


def test_the_first_rule_that_takes_a_table_decides() -> None:
    routes = compiled((Route(tables=("shop.orders",), target_table="sales"), VERSIONED))
    assert routes.target(("shop", "orders")) == ("shop", "sales")
    assert routes.target(("shop", "items")) == ("lake_shop", "items_v1")
    assert routes.target(("shop", "tmp_1")) == ("shop", "tmp_1")
    assert routes.target(("other", "orders")) == ("other", "orders")


def test_patterns_take_names_in_any_case_and_keep_their_letters() -> None:
    assert compiled((VERSIONED,)).target(("Shop", "Orders")) == ("lake_Shop", "Orders_v1")


def test_each_part_of_a_name_may_come_from_the_other() -> None:
    routes = compiled((Route(tables=("*.*",), target_schema="lake", target_table="{schema}.{table}"),))
    assert routes.target(("a", "b")) == ("lake", "a.b")


def test_a_table_that_was_set_aside_stays_beside_the_one_that_it_was() -> None:
    routes = compiled((Route(tables=("shop.orders",), target_schema="lake", target_table="sales"),))
    assert routes.target(("shop", "orders_dropped_463267588472832000")) == ("lake", "sales_dropped_463267588472832000")
    assert routes.target(("shop", "orders_dropped_463267588472832000_again_again")) == (
        "lake",
        "sales_dropped_463267588472832000_again_again",
    )
    assert routes.target(("shop", "items_dropped_463267588472832000")) == ("shop", "items_dropped_463267588472832000")


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ((), ("shop", True)),
        ((VERSIONED,), ("lake_shop", True)),
        ((Route(tables=("shop.orders",), target_schema="x"),), ("shop", True)),
        ((Route(tables=("*.*",), target_schema="lake"),), ("lake", False)),
        ((Route(tables=("*.*",), target_schema="{schema}_{table}"),), ("", False)),
    ],
)
def test_a_database_is_where_its_tables_go_that_no_narrower_rule_names(
    rules: tuple[Route, ...], found: tuple[str, bool]
) -> None:
    assert compiled(rules).database("shop") == found


@pytest.mark.parametrize("name", ["orders", "Orders"])
def test_two_tables_of_one_name_are_refused_with_both(name: str) -> None:
    routes = compiled((Route(tables=("*.*",), target_schema="lake"),))
    tables = [("shop1", "orders"), ("shop2", name), ("shop2", "items")]
    assert routes.shared(tables) == f"`shop1`.`orders` and `shop2`.`{name}` would both be `lake`.`{name}` in the target"


def test_one_table_in_other_letters_is_still_one() -> None:
    assert not compiled((VERSIONED,)).shared([("shop", "orders"), ("Shop", "ORDERS")])


def test_without_rules_nothing_is_compared() -> None:
    assert not compiled(()).shared([("shop", "orders"), ("shop", "orders")])


MERGING = Route(tables=("shop_*.o*",), target_schema="shop", target_table="orders", origin=("_db", "_t"))


def test_tables_of_a_rule_with_their_origin_are_known_as_one() -> None:
    routes = compiled((Route(tables=("shop_9.*",)), MERGING))
    merged = ("merged:shop", "orders")
    assert routes.known_as(("shop_1", "o_1")) == routes.known_as(("Shop_2", "O")) == merged
    assert routes.known_as(("shop_9", "o_1")) == ("shop_9", "o_1")
    assert (routes.target(merged), routes.rule(merged), routes.origin(merged)) == (
        ("shop", "orders"),
        MERGING,
        ("_db", "_t"),
    )
    assert routes.shared([("shop_1", "o_1"), ("shop_2", "o_1"), merged]) == ""
    assert "would both be `shop`.`orders`" in routes.shared([("shop_1", "o_1"), ("shop", "orders")])


SHARDS = Route(
    tables=("*.*",),
    regex=r"shop_(\d+)\.(?P<what>orders|items)_(\d+)(_old)?",
    target_schema="{what}",
    target_table="of_{1}_{3}{4}",
)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (("shop_1", "orders_07"), ("orders", "of_1_07")),
        (("SHOP_1", "Orders_07_OLD"), ("Orders", "of_1_07_OLD")),
        (("shop_1", "orders_7x"), ("shop_1", "orders_7x")),
        (("a_shop_1", "orders_7"), ("a_shop_1", "orders_7")),
    ],
)
def test_groups_of_a_regular_expression_for_the_whole_name_are_in_the_target(
    name: TableName, target: TableName
) -> None:
    assert compiled((SHARDS,)).target(name) == target


def test_a_table_that_the_expression_does_not_match_is_for_a_later_rule() -> None:
    routes = compiled((SHARDS, Route(tables=("shop_*.*",), target_schema="rest")))
    assert routes.target(("shop_1", "orders_x")) == ("rest", "orders_x")
    assert routes.target(("shop_1", "items_1")) == ("items", "of_1_1")


def test_a_table_that_was_set_aside_is_matched_by_its_name_before() -> None:
    aside = "_dropped_463267588472832000"
    assert compiled((SHARDS,)).target(("shop_1", f"orders_07{aside}")) == ("orders", f"of_1_07{aside}")


def test_tables_that_an_expression_names_have_databases_of_their_own() -> None:
    by_group = Route(tables=("*.*",), regex=r"(\w+)_\d+\..*", target_schema="{1}")
    assert compiled((by_group,)).database("shop_1") == ("", False)
    assert compiled((by_group,)).database("other") == ("other", True)
    fixed = Route(tables=("*.*",), regex=r"shop_\d+\..*", target_schema="all")
    assert compiled((fixed,)).database("shop_1") == ("all", False)


def test_an_empty_name_is_refused_with_the_table() -> None:
    routes = compiled((Route(tables=("*.*",), regex=r".*\.t_?(\d*)", target_table="{1}"),))
    assert routes.target(("s", "t_5")) == ("s", "5")
    with pytest.raises(UsageError, match=r"target-table: the groups of `regex` are empty for `s`.`t`, so it has no"):
        routes.target(("s", "t"))


def test_shards_that_an_expression_names_are_one_table_per_name() -> None:
    rule = Route(
        tables=("*.*",),
        regex=r"(?P<shop>[a-z]+)_(\d+)\.(?P<what>[a-z]+)_\d+",
        target_schema="{shop}",
        target_table="{what}",
        origin=("_db", "_t"),
    )
    routes = compiled((rule,))
    names = [("Shop_1", "orders_1"), ("shop_2", "ORDERS_2"), ("shop_1", "items_1")]
    merged = [routes.merged(name) for name in names]
    assert merged == [("merged:shop", "orders"), ("merged:shop", "orders"), ("merged:shop", "items")]
    orders = ("merged:shop", "orders")
    assert (routes.target(orders), routes.rule(orders), routes.origin(orders)) == (
        ("shop", "orders"),
        rule,
        ("_db", "_t"),
    )
    assert routes.merged(("shop", "orders_1")) is None
    assert routes.shared(names) == ""


def test_shards_are_named_by_their_own_letters_before_these_become_lower_case() -> None:
    rule = Route(tables=("*.*",), regex=r"shop\.(?-i:(O|I)S_)\d+", target_table="all_{1}", origin=("_db", "_t"))
    routes = compiled((rule,))
    assert [routes.merged(("shop", name)) for name in ("OS_1", "IS_2", "os_3")] == [
        ("merged:shop", "all_o"),
        ("merged:shop", "all_i"),
        None,
    ]


def test_two_rules_do_not_merge_into_one_table() -> None:
    routes = compiled((MERGING, Route(tables=("*.orders",), target_schema="{schema}", origin=("_t",))))
    with pytest.raises(UsageError, match=r"two rules make tables `shop`\.`orders`"):
        routes.known_as(("shop", "orders"))


def test_names_that_look_like_those_of_merged_tables_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot be merged with others"):
        compiled((Route(tables=("*.*",), origin=("_t",)),)).merged(("merged:a", "b"))
