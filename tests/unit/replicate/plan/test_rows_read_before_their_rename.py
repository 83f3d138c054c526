"""Rows that are read before the RENAME that gave their table its name, of which another table has it later in other
letters."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop

SQL = ["open", "canal-json", "debezium"]
TOPICS = ("cdc", *(f"cdc_shop_{name}" for name in ("a", "A", "b", "B", "c", "C", "x")))


def shop_of(protocol: str) -> Shop:
    shop = Shop(protocol, topic_per_table=True)
    shop.configure(topics=TOPICS)
    return shop


def finish(shop: Shop) -> None:
    shop.watermark()
    for rows in (2, 100_000):
        shop.run(rows)
    shop.watermark()
    shop.run()


@pytest.mark.parametrize("protocol", SQL)
def test_a_delete_before_a_rename_is_not_lost_where_a_later_table_has_its_name_in_other_letters(protocol: str) -> None:
    shop = shop_of(protocol)
    shop.sql("CREATE TABLE c (id INT PRIMARY KEY)")
    shop.insert("c", id="2")
    shop.sql("RENAME TABLE c TO a")
    shop.delete("a", id="2")
    shop.sql("RENAME TABLE a TO c")
    shop.sql("CREATE TABLE A (id INT PRIMARY KEY)")
    finish(shop)
    assert (shop.rows("c"), shop.condition("c")) == ([], "clean")


@pytest.mark.parametrize("protocol", ["simple", "open", "canal-json"])
def test_rows_that_wait_do_not_wait_for_ever_where_an_older_table_had_their_name_in_other_letters(
    protocol: str,
) -> None:
    shop = shop_of(protocol)
    shop.sql("CREATE TABLE x (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.sql("RENAME TABLE x TO B")
    shop.sql("RENAME TABLE B TO x")
    shop.sql("RENAME TABLE a TO b")
    shop.insert("b", id="2")
    finish(shop)
    assert shop.applied >= shop.ts - 1
