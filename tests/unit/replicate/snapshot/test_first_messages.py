"""Messages of a table that come before its full read has begun, in protocols that tell no schema before the first row.
The read brings the schema, and no other table waits for it."""

from __future__ import annotations

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop

PROTOCOLS = pytest.mark.parametrize("protocol", ["canal-json", "debezium", "open"])


def shop_with_a_table_before(protocol: str, *, topic_per_table: bool = False) -> Shop:
    """The changefeed began after the CREATE TABLE of ``t`` and its first row."""
    shop = Shop(protocol, snapshot="now", topic_per_table=topic_per_table)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "x"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    return shop


def settled(shop: Shop, batches: int = 8) -> None:
    for number in range(batches):
        shop.insert("other", id=str(100 + number))
        shop.watermark()
        shop.run()


@PROTOCOLS
@pytest.mark.parametrize("topic_per_table", [False, True])
def test_rows_before_the_read_do_not_hold_it_up(protocol: str, topic_per_table: bool) -> None:
    shop = shop_with_a_table_before(protocol, topic_per_table=topic_per_table)
    shop.insert("t", id="2", v="y")
    settled(shop)
    assert shop.rows("t") == [(1, "x"), (2, "y")]
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_other_tables_go_on_meanwhile(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    settled(shop, 1)
    assert shop.rows("t") is None
    assert shop.rows("other") == [(100,)]
    assert shop.status("t").detail == "it will be read in full; the read has not begun"


@PROTOCOLS
def test_a_ddl_before_the_read_needs_no_schema(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "x", "n": None}
    shop.insert("t", id="2", v="y", n="3")
    settled(shop)
    assert shop.rows("t") == [(1, "x", None), (2, "y", 3)]
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_rows_of_a_former_name_wait_for_the_read_of_the_new_one(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="3", v="z")
    settled(shop)
    assert shop.rows("t") is None
    assert shop.rows("u") == [(1, "x"), (2, "y"), (3, "z")]
    assert shop.condition("u") == "clean"


@PROTOCOLS
def test_rows_of_a_table_that_is_dropped_since_need_no_schema(protocol: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.sql("DROP TABLE t")
    settled(shop, 2)
    assert shop.rows("t") is None
    assert shop.applied > shop.ts - (5000 << 18)


@PROTOCOLS
def test_an_online_schema_change_before_the_read_leaves_the_new_table(protocol: str) -> None:
    """As gh-ost and pt-online-schema-change make it: a copy with the new columns takes the name."""
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.sql("CREATE TABLE t_new LIKE t")
    settled(shop, 1)
    shop.follow_source()
    shop.sql("ALTER TABLE t_new ADD COLUMN n INT")
    shop.insert("t_new", id="1", v="x", n=None)
    shop.insert("t_new", id="2", v="y", n="3")
    settled(shop, 1)
    shop.sql("RENAME TABLE t TO t_old")
    shop.sql("RENAME TABLE t_new TO t")
    shop.sql("DROP TABLE t_old")
    shop.insert("t", id="4", v="z", n="5")
    settled(shop)
    assert shop.rows("t") == [(1, "x", None), (2, "y", 3), (4, "z", 5)]
    assert shop.rows("t_new") is None
    assert shop.rows("t_old") is None
    assert shop.condition("t") == "clean"
