"""A lost state folder, and a topic that is not read any more: what changed in its table may still come."""

from __future__ import annotations

import pytest

from tests.unit.test_holes.shop import Shop
from tests.unit.test_holes.test_lost_state import two_topics
from ticdc_spark.protocols.base import Encoded

BATCHES = pytest.mark.parametrize("rows", [1, 3, 1000])


def left_out() -> Shop:
    """Two tables with topics of their own; the state is lost, and the topic of one is not read any more."""
    shop = two_topics()
    shop.configure(topics=("cdc_shop_u",))
    shop.insert("t", id="2", v="b")
    shop.insert("u", id="3")
    shop.watermark()
    shop.run()
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,), (3,)], "clean")
    return shop


@BATCHES
def test_a_table_whose_topic_is_left_out_after_the_state_was_lost_stays_where_it_is(rows: int) -> None:
    shop = left_out()
    before = shop.status("t").applied
    shop.insert("u", id="4")
    shop.watermark()
    shop.run(rows)
    assert shop.status("t").applied == before < shop.applied
    assert shop.condition("t") == "unverified"
    assert "topic cdc_shop_t, which it came from, is not read" in shop.status("t").detail


@pytest.mark.parametrize("again", [False, True])
@BATCHES
def test_a_table_whose_topic_was_left_out_gets_its_rows_once_it_is_read(rows: int, again: bool) -> None:
    """Seed 7203349: the state was lost once more, and the table counted as being as far as the others."""
    shop = left_out()
    shop.insert("t", id="3", v="c")
    shop.insert("u", id="4")
    shop.watermark()
    shop.run()
    if again:
        shop.lose_state()
    shop.configure(topics=None)
    shop.run(rows)
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "a"), (2, "b"), (3, "c")], "unverified")
    assert shop.status("t").applied == shop.applied
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,), (3,), (4,)], "clean")


@pytest.mark.parametrize("again", [False, True])
def test_the_ddl_of_a_topic_that_was_left_out_is_applied_once_it_is_read(again: bool) -> None:
    shop = left_out()
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.insert("t", id="3", v="c", n="7")
    shop.sql("RENAME TABLE t TO w")
    shop.insert("w", id="4", v="d", n="8")
    shop.insert("u", id="4")
    shop.watermark()
    shop.run()
    if again:
        shop.lose_state()
    shop.configure(topics=None)
    shop.run()
    shop.insert("w", id="5", v="e", n="9")
    shop.watermark()
    shop.run()
    assert shop.rows("w") == [(1, "a", None), (2, "b", None), (3, "c", 7), (4, "d", 8), (5, "e", 9)]
    assert shop.rows("t") is None


@BATCHES
def test_a_table_that_was_renamed_goes_on_though_the_topic_of_its_old_name_is_gone(rows: int) -> None:
    shop = two_topics()
    shop.run()
    shop.sql("RENAME TABLE t TO w")
    shop.insert("w", id="2", v="b")
    shop.watermark()
    shop.run()
    shop.lose_state()
    shop.broker.delete("cdc_shop_t")
    shop.insert("w", id="3", v="c")
    shop.watermark()
    shop.run(rows)
    shop.insert("w", id="4", v="d")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("w"), shop.condition("w")) == ([(1, "a"), (2, "b"), (3, "c"), (4, "d")], "unverified")
    assert shop.status("w").applied == shop.applied


def test_the_topics_of_a_table_are_in_its_stamp_and_cost_no_commit() -> None:
    shop = two_topics()
    shop.run()
    found = shop.lake("t")
    assert found is not None
    before = found.snapshots
    shop.run(again=True)
    found = shop.lake("t")
    assert found is not None and found.snapshots == before


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


def test_a_table_whose_topic_is_gone_is_unverified_though_another_topic_lost_its_first_messages() -> None:
    """What was removed there cannot be all that the table had: its stamp has its own topic."""
    shop = two_topics()
    shop.broker.trim(("cdc_shop_u", 0), shop.broker.end_offsets()["cdc_shop_u", 0] - 3)
    shop.broker.delete("cdc_shop_t")
    shop.bootstrap("u")
    shop.insert("u", id="3")
    shop.watermark()
    shop.run()
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,), (3,)], "clean")
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "a")], "unverified")


def test_a_table_of_a_full_read_whose_topic_was_left_out_is_only_as_far_as_that_read() -> None:
    """Story 3016 of ``--harder``: after the state was lost it counted as being as far as all others."""
    shop = Shop(topic_per_table=True, topics=("cdc_shop_a",), snapshot="now")
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE b (id INT PRIMARY KEY, v INT)")
    shop.insert("b", id="1", v="1")
    for _ in range(3):
        shop.watermark()
        shop.run()
    shop.update("b", id="1", v="2")
    for number in (1, 2):
        shop.insert("a", id=str(number))
        shop.watermark()
        shop.run()
    assert (shop.rows("a"), shop.rows("b")) == ([(1,), (2,)], [(1, 1)])
    shop.lose_state()
    shop.configure(topics=None)
    for _ in range(2):
        shop.watermark()
        shop.run()
    assert (shop.rows("b"), shop.condition("b")) == ([(1, 2)], "clean")
