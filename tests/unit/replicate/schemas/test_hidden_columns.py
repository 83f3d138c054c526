"""TiDB's hidden columns, and columns without a DDL, where a full read or a row that cannot be read comes first."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from tests.unit.replicate.schemas.test_row_columns import ORIGIN, canal_row, shop_with, simple_row
from ticdc_spark.protocols.base import Encoded

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


def test_columns_without_a_ddl_leave_a_table_unverified_behind_its_full_read() -> None:
    """A full read of several moments ends clean once all of them are applied, unless rows bring a column until then."""
    shop = Shop("simple", snapshot="now")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.bootstrap("t")
    shop.insert("t", id="1", v="1")
    shop.start()
    assert shop.steps is not None
    for number in range(8):
        shop.watermark()
        shop.insert("t", id=str(10 + number), v="3")
        shop.clock.advance(1.0)
        shop.steps.load(lambda _phase, _batch: None)
        tables = () if shop.lab.state.progress is None else shop.lab.state.progress.tables
        if any(table.settles for table in tables):
            break
        shop.steps.batch(None, lambda _phase, _batch: None)
    else:
        raise AssertionError("the table is not read in several moments")
    shop.change("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 5")
    shop.bootstrap("t")
    shop.insert("t", id="2", v="2", w="2")
    for _ in range(3):
        shop.watermark()
        shop.run()
    rows = shop.rows("t")
    assert rows is not None
    assert (1, 1, None) in rows  # 5 at the source
    assert shop.condition("t") == "unverified"


def test_a_row_that_cannot_be_read_takes_none_with_hidden_columns_along() -> None:
    """One task stops at the first row before another task has met the second."""
    shop = shop_with("v INT", "simple", on_reject="continue")
    unreadable = simple_row(shop, 1)
    shop.send(Encoded(None, unreadable.value.replace(b'"v":"1"', b'"v":"x"')), "cdc")
    shop.change("ALTER TABLE t ADD INDEX (v)")
    shop.bootstrap("t")
    shop.send(simple_row(shop, 2, ORIGIN), "cdc")
    shop.watermark()
    shop.run()
    assert origins(shop) == {2: Decimal(7)}
    assert shop.condition("t") == "diverged"
    assert "'x' is no int" in shop.status("t").detail
