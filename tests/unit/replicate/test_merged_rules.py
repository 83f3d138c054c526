"""What is refused of tables that are merged, and what other rules do to them."""

from __future__ import annotations

import msgspec
import pytest

from tests.simulator.setup import job_of, scratch_folder
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from tests.unit.replicate.test_merged import COLUMNS, ONE, PROTOCOLS, RULE, condition, merged, rows
from ticdc_spark.config.job import Route
from ticdc_spark.errors import DecisionNeeded, UnsupportedDdl, UsageError
from ticdc_spark.operate.requests import rebuild_from_topic


def test_one_column_does_not_tell_tables_of_one_name_apart() -> None:
    rule = Route(tables=("shop_*.o",), target_schema="all", target_table="o", origin=("_t",))
    for bootstraps in (False, True):
        shop = Shop("simple", routes=(rule,))
        for schema in ("shop_1", "shop_2"):
            change = shop.change("CREATE TABLE o (id INT PRIMARY KEY)", schema=schema)
            if bootstraps:
                shop.bootstrap("o", schema)
            else:
                shop.send_ddl(change)
            shop.insert("o", id="1", schema=schema)
        shop.watermark()
        with pytest.raises(DecisionNeeded, match="two columns, for the database and the table"):
            shop.run()


@PROTOCOLS
def test_other_rules_of_the_route_hold_for_merged_tables(protocol: str) -> None:
    rule = msgspec.structs.replace(
        RULE,
        drop_columns=("*", "!id", "!v"),
        rename_columns=(("v", "value"),),
        where="v >= 11 AND secret IS NULL",
    )
    shop = Shop(protocol, routes=(rule,))
    for number in (1, 2):
        shop.sql(f"CREATE TABLE orders_{number} ({COLUMNS}, secret INT)")
        shop.insert(f"orders_{number}", id="1", v=f"{number}0", secret=None)
        shop.insert(f"orders_{number}", id="2", v=f"{number}1", secret=None)
        shop.insert(f"orders_{number}", id="3", v=f"{number}2", secret="1")
    shop.watermark()
    shop.run()
    assert shop.columns("orders") == ("_schema", "_table", "id", "value")
    assert rows(shop) == [(SCHEMA, "orders_1", 2, 11), (SCHEMA, "orders_2", 1, 20), (SCHEMA, "orders_2", 2, 21)]


def test_a_table_without_a_key_cannot_be_merged() -> None:
    shop = Shop("simple", routes=(ONE,), no_key="apply")
    shop.sql("CREATE TABLE orders_1 (id INT)")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="has no primary key"):
        shop.run()


def test_a_table_that_has_such_a_column_cannot_be_merged() -> None:
    shop = Shop("simple", routes=(ONE,))
    shop.sql("CREATE TABLE orders_1 (id INT PRIMARY KEY, _TABLE INT)")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="has a column `_TABLE` already"):
        shop.run()


def test_another_table_cannot_have_the_name_of_a_merged_one() -> None:
    shop = merged()
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY)")
    shop.watermark()
    with pytest.raises(UsageError, match=r"would both be `shop`\.`orders`"):
        shop.run()


@pytest.mark.parametrize(
    ("before", "after"),
    [((ONE,), ()), ((), (ONE,)), ((ONE,), (RULE,)), ((RULE,), (msgspec.structs.replace(RULE, target_table="o"),))],
)
def test_a_job_that_has_tables_does_not_begin_or_cease_to_merge_them(
    before: tuple[Route, ...], after: tuple[Route, ...]
) -> None:
    shop = merged()
    shop.configure(routes=before)
    shop.run()
    shop.configure(routes=after)
    with pytest.raises(UsageError, match=r"\[\[route\]\]"):
        shop.start()


def test_a_shard_that_the_job_file_leaves_out_marks_the_table() -> None:
    shop = merged()
    shop.run()
    shop.configure(tables=("shop.*", "!shop.orders_2"))
    shop.insert("orders_1", id="3", v="12")
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    shop.run()
    assert ("orders_2", 3, 22) not in rows(shop)
    assert ("orders_1", 3, 12) in rows(shop)
    assert condition(shop) == "diverged"


def test_excluded_tables_are_no_shards() -> None:
    shop = merged("canal-json", tables=("shop.*", "!shop.orders_2"))
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11)]
    assert condition(shop) == "clean"


def test_a_merged_table_is_not_read_again_from_its_topics() -> None:
    shop = merged()
    shop.run()
    job = job_of(shop.setup, scratch_folder("merged"))
    with pytest.raises(UsageError, match=r"made of several tables by \[\[route\]\] origin"):
        rebuild_from_topic(job, shop.lab.state.load(), [f"merged:{SCHEMA}.orders"])
