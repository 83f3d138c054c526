"""A RENAME waits for a quarantined table. A rebuild of one of its names reads all tables that it joins."""

from __future__ import annotations

import pytest

from tests.simulator.wire import WIRES
from tests.support.shop import Shop, after_every_death
from ticdc_spark.protocols.base import Encoded

PROTOCOLS = pytest.mark.parametrize("protocol", sorted(WIRES))


def settled(shop: Shop, batches: int = 6) -> Shop:
    for number in range(batches):
        shop.insert("other", id=str(100 + len(shop.held) + number))
        shop.watermark()
        shop.run()
    return shop


def with_a_quarantined(protocol: str) -> Shop:
    """Table ``a`` is quarantined: a message of it cannot be read, and more of its rows came after."""
    shop = Shop(protocol, on_reject="quarantine", snapshot="now", topic_per_table=True)
    for name in ("other", "a", "b"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(name, id="1", v=name)
    settled(shop, 1)
    shop.send(Encoded(None, b"{"), "cdc_shop_a")
    shop.insert("a", id="2", v="a2")
    settled(shop, 1)
    assert shop.condition("a") == "quarantined"
    return shop


def swapped(protocol: str = "canal-json") -> Shop:
    """Two tables have swapped their names by way of a third."""
    shop = with_a_quarantined(protocol)
    for query in ("RENAME TABLE a TO x", "RENAME TABLE b TO a", "RENAME TABLE x TO b"):
        shop.sql(query)
    shop.insert("a", id="3", v="was b")
    shop.insert("b", id="3", v="was a")
    settled(shop, 1)
    assert shop.rows("a") == [(1, "a")], "the RENAMEs wait"
    return shop


def judge_swapped(shop: Shop) -> None:
    settled(shop)
    assert shop.rows("a") == [(1, "b"), (3, "was b")]
    assert shop.rows("b") == [(1, "a"), (2, "a2"), (3, "was a")]
    assert shop.rows("x") is None
    assert {shop.condition(name) for name in ("a", "b", "other")} == {"clean"}


@PROTOCOLS
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_rebuild_of_a_quarantined_table_that_was_swapped_reads_both(protocol: str, name: str) -> None:
    shop = swapped(protocol)
    shop.rebuild(name)
    judge_swapped(shop)


def renamed(protocol: str = "canal-json") -> Shop:
    """A chain: ``b`` makes room for ``a``."""
    shop = with_a_quarantined(protocol)
    shop.sql("ALTER TABLE a ADD COLUMN n INT")
    shop.sql("RENAME TABLE b TO c")
    shop.sql("RENAME TABLE a TO b")
    shop.insert("b", id="3", v="was a", n="3")
    settled(shop, 1)
    assert shop.rows("c") is not None, "nothing waits for it"
    return shop


def judge_renamed(shop: Shop) -> None:
    settled(shop)
    assert shop.rows("a") is None
    assert shop.rows("b") == [(1, "a", None), (2, "a2", None), (3, "was a", 3)]
    assert shop.rows("c") == [(1, "b")]
    assert {shop.condition(name) for name in ("b", "c", "other")} == {"clean"}


@PROTOCOLS
def test_a_rebuild_of_the_new_name_of_a_quarantined_table_drops_the_old_one(protocol: str) -> None:
    shop = renamed(protocol)
    shop.rebuild("b")
    judge_renamed(shop)


@PROTOCOLS
def test_a_rebuild_from_topics_is_refused_behind_such_a_rename(protocol: str) -> None:
    shop = swapped(protocol)
    shop.rebuild_from_topic("a")
    settled(shop)
    assert "waits for shop.a, which is quarantined. Resume that one first" in shop.status("a").detail
    assert shop.condition("a") == "quarantined"


@PROTOCOLS
def test_the_feed_goes_on_behind_the_renames(protocol: str) -> None:
    shop = swapped(protocol)
    shop.rebuild("a")
    settled(shop)
    shop.sql("ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7")
    shop.delete("b", id="1")
    shop.sql("CREATE TABLE x (id INT PRIMARY KEY)")
    shop.insert("x", id="5")
    settled(shop)
    assert shop.rows("a") == [(1, "b", 7), (3, "was b", 7)]
    assert shop.rows("b") == [(2, "a2"), (3, "was a")]
    assert shop.rows("x") == [(5,)]


@pytest.mark.parametrize(("make", "name", "judge"), [(swapped, "b", judge_swapped), (renamed, "b", judge_renamed)])
def test_a_death_at_any_point_leaves_tables_that_are_read_again(make, name, judge) -> None:  # type: ignore[no-untyped-def]
    def asked() -> Shop:
        shop = make()
        shop.rebuild(name)
        for _ in range(4):
            shop.insert("other", id=str(100 + len(shop.held)))
            shop.watermark()
        return shop  # type: ignore[no-any-return]

    assert after_every_death(asked, judge, rows=2) > 20
