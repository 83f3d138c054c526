"""The rules of ``[[route]]``: which one is a table's, and the name that it gives."""

import pytest

from ticdc_spark.config.job import Route
from ticdc_spark.config.routes import compiled

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
