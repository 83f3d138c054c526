"""TiDB's hidden columns, and columns without a DDL, where a full read or a row that cannot be read comes first."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.unit.test_holes.changefeed import SCHEMA
from tests.unit.test_holes.shop import Shop, after_every_death
from tests.unit.test_holes.test_row_columns import canal_row

UNREAD = "a full read gives no values of TiDB's columns _tidb_origin_ts"


def shop_read_in_full(how: str) -> Shop:
    """A table that was there before its changefeed."""
    shop = Shop("canal-json", snapshot=how)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "a"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    for _ in range(4):
        shop.watermark()
        shop.run()
    assert shop.condition("t") == "unverified"
    assert shop.rows("t") == [(1, "a")]
    return shop


def origins(shop: Shop) -> dict[int, Decimal | None]:
    lake = shop.lake("t")
    assert lake is not None
    return {row["id"]: row["_tidb_origin_ts"] for row in lake.rows}


@pytest.mark.parametrize("how", ["now", "exact"])
def test_hidden_columns_that_first_come_behind_a_full_read_mark_the_table(how: str) -> None:
    shop = shop_read_in_full(how)
    shop.send(canal_row(shop, 2, "_tidb_origin_ts"), "cdc")
    shop.watermark()
    shop.run()
    assert origins(shop) == {1: None, 2: Decimal(7)}
    assert shop.condition("t") == "diverged"
    assert UNREAD in shop.status("t").detail
    shop.sql("TRUNCATE TABLE t")
    shop.send(canal_row(shop, 3, "_tidb_origin_ts"), "cdc")
    shop.watermark()
    shop.run()
    assert origins(shop) == {3: Decimal(7)}
    assert shop.condition("t") == "clean"


def test_no_death_loses_the_mark_of_hidden_columns_behind_a_full_read() -> None:
    def make() -> Shop:
        shop = shop_read_in_full("exact")
        shop.send(canal_row(shop, 2, "_tidb_origin_ts"), "cdc")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert origins(shop) == {1: None, 2: Decimal(7)}
        assert UNREAD in shop.status("t").detail

    assert after_every_death(make, judge) > 5


def test_a_ddl_that_brings_hidden_columns_behind_a_full_read_marks_the_table() -> None:
    """Simple's schemas have the hidden columns; what a database shows of a table has not."""
    shop = Shop("simple", snapshot="exact")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.bootstrap("t")
    shop.insert("t", id="1", v="1")
    for _ in range(4):
        shop.watermark()
        shop.run()
    assert shop.condition("t") == "clean"
    shop.sql("ALTER TABLE t ADD COLUMN _tidb_origin_ts BIGINT UNSIGNED")
    shop.watermark()
    shop.run()
    assert UNREAD in shop.status("t").detail
