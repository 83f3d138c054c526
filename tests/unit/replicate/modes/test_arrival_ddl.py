"""DDL in arrival mode: topics and partitions are read in any order, so a DDL may come after what followed it."""

from __future__ import annotations

import pytest

from tests.support.arrival_shop import CREATE, ArrivalShop

PROTOCOLS = pytest.mark.parametrize("protocol", ["canal-json", "debezium"])


@PROTOCOLS
def test_a_drop_database_that_is_read_late_leaves_a_later_table(protocol: str) -> None:
    shop = ArrivalShop(protocol)
    shop.ddl("CREATE DATABASE shop")
    shop.ddl(CREATE, "cdc_t")
    shop.run()
    drop, again = shop.change("DROP DATABASE shop"), shop.change("CREATE DATABASE shop")
    shop.ddl("CREATE TABLE n (id INT PRIMARY KEY)", "cdc_n")
    shop.put("n", topic="cdc_n", id="2")
    shop.run()
    shop.put_ddl(drop)
    shop.put_ddl(again)
    shop.run()
    assert shop.row_ids("n") == [2]
    assert shop.rows("t") is None
