"""A DDL that TiCDC sends again after an upgrade, with another text or under another name, is one DDL."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.model import SchemaChange

PARTITIONED = (
    "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
)
EXCHANGE = f"ALTER TABLE `{SCHEMA}`.`t` EXCHANGE PARTITION `p0` WITH TABLE `{SCHEMA}`.`o`"
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])


def shop_of(protocol: str) -> Shop:
    shop = Shop(protocol)
    shop.sql(PARTITIONED)
    shop.sql("CREATE TABLE o (id INT PRIMARY KEY)")
    for table, key in (("t", "1"), ("t", "11"), ("o", "2"), ("o", "3")):
        shop.insert(table, id=key)
    shop.watermark()
    return shop


@PROTOCOLS
def test_an_exchange_that_comes_under_the_names_of_both_tables_is_done_once(protocol: str) -> None:
    shop = shop_of(protocol)
    plain, partitioned = shop.tables[SCHEMA, "o"], shop.tables[SCHEMA, "t"]
    ts = shop.tick()
    change = SchemaChange(
        commit_ts=ts,
        query=EXCHANGE,
        kind="QUERY",
        schema=SCHEMA,
        name="t",
        table=replace(partitioned, version=ts - 1),
        pre_table=plain if protocol == "simple" else None,
    )
    for name in ("t", "o"):
        shop.send(shop.encoder.ddl(replace(change, name=name)), "cdc")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.rows("o")) == ([(11,), (2,), (3,)], [(1,)])
    assert (shop.condition("t"), shop.condition("o")) == ("clean", "clean")


@PROTOCOLS
@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ("ALTER TABLE t ADD COLUMN c INT", "ALTER TABLE `t` ADD COLUMN `c` INT", {"t": [(1, None), (11, None)]}),
        ("ALTER TABLE t DROP PARTITION p0", "ALTER TABLE `t` DROP PARTITION `p0`", {"t": [(11,)]}),
        ("RENAME TABLE o TO u", f"RENAME TABLE `{SCHEMA}`.`o` TO `{SCHEMA}`.`u`", {"u": [(2,), (3,)], "o": None}),
        ("CREATE TABLE u (id INT PRIMARY KEY)", "CREATE TABLE `u` (`id` INT PRIMARY KEY)", {"u": []}),
        ("DROP TABLE o", f"DROP TABLE `{SCHEMA}`.`o`", {"o": None}),
    ],
)
def test_a_ddl_that_comes_with_two_texts_is_done_once(
    protocol: str, first: str, second: str, left: dict[str, list[tuple[int, ...]] | None]
) -> None:
    shop = shop_of(protocol)
    change = shop.change(first)
    if "PARTITION" in first:
        change = replace(change, table=replace(shop.tables[SCHEMA, "t"], version=change.commit_ts - 1))
    for query in (first, second):
        shop.send(shop.encoder.ddl(replace(change, query=query)), "cdc")
    shop.watermark()
    shop.run()
    assert {name: shop.rows(name) for name in left} == left
    assert all(shop.condition(name) == "clean" for name, rows in left.items() if rows is not None)
