"""A topic that is not read for a while: what changed in its table may still come."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop
from ticdc_spark.protocols.base import Encoded

BATCHES = pytest.mark.parametrize("rows", [1, 3, 1000])


def two_topics() -> Shop:
    """Two tables with topics of their own."""
    shop = Shop(topic_per_table=True)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    shop.watermark()
    shop.run()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    for number in ("1", "2"):
        shop.insert("u", id=number)
        shop.watermark()
        shop.run()
    return shop


def left_out() -> Shop:
    """Two tables with topics of their own, and the topic of one is not read any more."""
    shop = two_topics()
    shop.configure(topics=("cdc_shop_u",))
    shop.insert("t", id="2", v="b")
    shop.insert("u", id="3")
    shop.watermark()
    shop.run()
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,), (3,)], "clean")
    return shop


@BATCHES
def test_a_table_whose_topic_is_left_out_stays_where_it_is(rows: int) -> None:
    shop = left_out()
    before = shop.status("t").applied
    shop.insert("u", id="4")
    shop.watermark()
    shop.run(rows)
    assert shop.status("t").applied == before < shop.applied
    assert shop.condition("t") == "unverified"
    assert "topic cdc_shop_t, which it came from, is not read" in shop.status("t").detail


@BATCHES
def test_a_table_whose_topic_was_left_out_gets_its_rows_once_it_is_read(rows: int) -> None:
    shop = left_out()
    shop.insert("t", id="3", v="c")
    shop.insert("u", id="4")
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    shop.run(rows)
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "a"), (2, "b"), (3, "c")], "clean")
    assert shop.status("t").applied == shop.applied
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,), (3,), (4,)], "clean")


def test_the_ddl_of_a_topic_that_was_left_out_is_applied_once_it_is_read() -> None:
    shop = left_out()
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.insert("t", id="3", v="c", n="7")
    shop.sql("RENAME TABLE t TO w")
    shop.insert("w", id="4", v="d", n="8")
    shop.insert("u", id="4")
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    shop.run()
    shop.insert("w", id="5", v="e", n="9")
    shop.watermark()
    shop.run()
    assert shop.rows("w") == [(1, "a", None), (2, "b", None), (3, "c", 7), (4, "d", 8), (5, "e", 9)]
    assert shop.rows("t") is None


def test_a_table_that_waits_to_be_made_is_held_with_its_topic_before_the_first_resolved_ts() -> None:
    shop = Shop(topic_per_table=True)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.run()
    shop.configure(topics=("cdc_shop_u",))
    shop.run()
    shop.insert("t", id="1", v="a")
    for number in ("1", "2"):
        shop.insert("u", id=number)
        shop.watermark()
        shop.run()
    assert (shop.rows("u"), shop.rows("t")) == ([(1,), (2,)], None)
    shop.configure(topics=None)
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "a")], "clean")


def test_rows_that_wait_before_a_rename_are_not_lost_with_the_topic_of_the_old_name() -> None:
    shop = two_topics()
    shop.insert("t", id="2", v="b")
    shop.sql("RENAME TABLE t TO w")
    shop.run()
    shop.configure(topics=("cdc_shop_u", "cdc_shop_w"))
    for number in ("3", "4"):
        shop.insert("w", id=number, v="c")
        shop.insert("u", id=number)
        shop.watermark("cdc_shop_u", "cdc_shop_w")
        shop.run()
    assert shop.condition("t") == shop.condition("w") == "unverified"
    shop.configure(topics=None)
    shop.watermark()
    shop.run()
    shop.clock.advance(3600.0)
    shop.run(again=True)
    assert (shop.rows("w"), shop.condition("w")) == ([(1, "a"), (2, "b"), (3, "c"), (4, "c")], "clean")


# ---- nothing is left in the topic of a name that a table has since a RENAME


def emptied(*, before: bool) -> Shop:
    """Nothing is left in the topic of the name ``w``. ``before``: ``t`` had got that name before the job began."""
    shop = Shop(topic_per_table=True)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    if before:
        shop.sql("RENAME TABLE t TO w")
    else:
        shop.broker.create("cdc_shop_w")
        shop.send(Encoded(None, b"{"), "cdc_shop_w")
    if before:
        shop.insert("w", id="2")
    shop.broker.trim(("cdc_shop_w", 0), 1)
    shop.watermark("cdc_shop_t")
    return shop


@BATCHES
def test_a_renamed_table_is_unverified_where_nothing_is_left_of_a_topic_that_may_be_its_own(rows: int) -> None:
    shop = emptied(before=True)
    shop.run(rows)
    shop.clock.advance(3600.0)
    shop.run(rows, again=True)
    assert (shop.rows("w"), shop.condition("w")) == ([(1,)], "unverified")


@BATCHES
def test_a_table_renamed_later_is_clean_though_nothing_is_left_of_some_topic(rows: int) -> None:
    shop = emptied(before=False)
    shop.run(rows)
    shop.clock.advance(3600.0)
    shop.watermark("cdc_shop_t")
    shop.run(rows)
    shop.sql("RENAME TABLE t TO v")
    shop.insert("v", id="2")
    shop.watermark("cdc_shop_t", "cdc_shop_v")
    shop.run(rows)
    shop.clock.advance(3600.0)
    shop.watermark("cdc_shop_v")
    shop.run(rows)
    assert (shop.rows("v"), shop.condition("v")) == ([(1,), (2,)], "clean")
