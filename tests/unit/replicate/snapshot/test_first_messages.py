"""Messages of a table that come before its full read has begun, in protocols that tell no schema before the first row.
The read brings the schema, and no other table waits for it."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.errors import SchemaMissing

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


@PROTOCOLS
@pytest.mark.parametrize(
    "ddls",
    [
        ("ALTER TABLE t ADD COLUMN n INT", "DROP TABLE t"),
        ("TRUNCATE TABLE t", "DROP TABLE t"),
        ("RENAME TABLE t TO u", "ALTER TABLE u ADD COLUMN n INT", "DROP TABLE u"),
    ],
)
def test_a_table_that_was_changed_and_dropped_before_the_job_began_stops_nothing(
    protocol: str, ddls: tuple[str, ...]
) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    for query in ddls:
        shop.sql(query)
    settled(shop)
    assert shop.rows("other") is not None
    assert shop.rows("t") is shop.rows("u") is None
    assert shop.applied > shop.ts - (5000 << 18)


@PROTOCOLS
@pytest.mark.parametrize("ddl", ["", "ALTER TABLE t ADD COLUMN n INT"])
def test_a_table_that_is_excluded_while_it_waits_is_read_once_it_is_included_again(protocol: str, ddl: str) -> None:
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    if ddl:
        shop.sql(ddl)
    shop.watermark()
    shop.run()
    shop.configure(tables=("shop.*", "!shop.t"))
    settled(shop)
    assert shop.rows("t") is None
    assert shop.condition("other") == "clean"
    shop.configure(tables=())
    settled(shop)
    assert [row[:2] for row in shop.rows("t") or ()] == [(1, "x"), (2, "y")]


@PROTOCOLS
def test_a_job_without_full_reads_does_not_wait_for_one(protocol: str) -> None:
    """The section was there when the table was found, and is gone."""
    shop = shop_with_a_table_before(protocol)
    shop.insert("t", id="2", v="y")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.setup = msgspec.structs.replace(shop.setup, snapshot="")
    shop.insert("t", id="3", v="z")
    with suppress(SchemaMissing):
        for _ in range(8):
            shop.clock.advance(200.0)
            shop.watermark()
            shop.run()
        pytest.fail("the job waits for ever")
