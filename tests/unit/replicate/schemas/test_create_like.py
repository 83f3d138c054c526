"""CREATE TABLE ... LIKE, where topics are read late: the columns that the new table takes over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from tests.simulator.database import Database
from tests.simulator.snapshots import DatabaseView
from tests.support.shop import Shop, ShopTables


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_a_copy_whose_model_catches_up_has_the_columns_that_the_model_had_then(rows: int) -> None:
    """Seed 8844369: both topics are read late, and the copy's CREATE before an ALTER of the model that is older."""
    shop = Shop("canal-json", topic_per_table=True, topics=("cdc", "cdc_shop_x"))
    shop.sql("CREATE TABLE x (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
    shop.watermark()
    shop.run()
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.sql("CREATE TABLE u LIKE t")
    shop.insert("u", id="1", w="2")
    shop.insert("x", id="1")
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    for _ in range(3):
        shop.run(rows)
        shop.watermark()
    shop.run(rows)
    assert shop.columns("u") == ("id", "w") or shop.condition("u") == "diverged"
    assert shop.rows("u") == [(1, 2)]


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("model", ["t", "T"])
@pytest.mark.parametrize("protocol", ["canal-json", "open", "simple"])
def test_a_copy_that_is_further_than_its_model_is_certain_of_no_columns(protocol: str, model: str, first: int) -> None:
    """Seed 8934051: of two topics that are read late, the copy's is read whole by a batch, and the model's in part."""
    shop = Shop(protocol, topic_per_table=True, topics=("cdc", "cdc_shop_x"))
    shop.sql("CREATE TABLE x (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
    for number in ("1", "2", "3"):
        shop.insert("t", id=number, v="1", w="1")
        shop.watermark()
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.sql(f"CREATE TABLE u LIKE {model}")
    shop.sql("CREATE TABLE c LIKE u")
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    for _ in range(4):
        shop.run(first)
        shop.watermark()
    shop.run()
    assert (shop.columns("t"), shop.condition("t")) == (("id", "w"), "clean")
    for name in ("u", "c"):
        assert shop.columns(name) == ("id", "w") or shop.condition(name) in ("unverified", "diverged"), name
    if protocol == "simple" or first == 6:
        assert shop.columns("u") == shop.columns("c") == ("id", "w")


@pytest.mark.parametrize("watermarks", [1, 2, 4])
@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_copy_is_not_certain_while_nothing_of_its_models_topic_was_read(first: int, watermarks: int) -> None:
    shop = Shop("canal-json", topic_per_table=True, topics=("cdc", "cdc_shop_a"))
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT, w INT)")
    shop.sql("RENAME TABLE a TO t")
    shop.watermark()
    shop.run()
    for _ in range(watermarks):
        shop.watermark("cdc_shop_a", "cdc_shop_t")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.sql("CREATE TABLE b LIKE t")
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    for _ in range(4):
        shop.run(first)
        shop.watermark()
    shop.run()
    assert shop.columns("b") == ("id", "w") or shop.condition("b") in ("unverified", "diverged")


def test_a_copy_of_a_table_whose_topic_is_not_read_any_more_is_made() -> None:
    shop = Shop("canal-json", topic_per_table=True)
    for name in ("t", "x"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
        shop.insert(name, id="1", v="1")
    shop.watermark()
    shop.run()
    shop.configure(topics=("cdc", "cdc_shop_x", "cdc_shop_u"))
    shop.insert("x", id="2", v="1")
    shop.watermark()
    shop.run()
    shop.sql("CREATE TABLE u LIKE t")
    shop.insert("u", id="1", v="5")
    shop.watermark()
    shop.run()
    assert shop.rows("u") == [(1, 5)]


@pytest.mark.parametrize("protocol", ["canal-json", "debezium", "open"])
def test_a_copy_is_not_certain_while_the_topic_of_its_model_is_left_out(protocol: str) -> None:
    shop = Shop(protocol, topic_per_table=True)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
    shop.batch()
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.configure(topics=("cdc", "cdc_shop_u"))
    shop.sql("CREATE TABLE u LIKE t")
    for _ in range(2):
        shop.watermark("cdc", "cdc_shop_u")
        shop.run()
    assert shop.columns("u") == ("id", "w") or shop.condition("u") in ("unverified", "diverged")


def test_what_is_made_like_a_table_that_was_read_in_full_and_sends_nothing_may_have_other_columns() -> None:
    """The DDL of the model is in a topic that the job does not read."""
    shop = Shop("open", topic_per_table=True, topics=("cdc", "cdc_shop_u"), snapshot="now")
    shop.change("CREATE TABLE model (id INT PRIMARY KEY, v INT)")
    shop.send(shop.encoder.watermark(shop.ts), "cdc_shop_u")
    shop.watermark()
    for _ in range(4):
        shop.run()
        shop.watermark()
    assert shop.rows("model") == []
    shop.sql("ALTER TABLE model DROP COLUMN v")
    shop.sql("CREATE TABLE u LIKE model")
    shop.watermark()
    shop.run()
    assert shop.condition("u") == "snapshot", "it is read in full, which tells its columns"


class DumpedShop(Shop):
    """Full reads come from a dump of the tables that the shop has now."""

    def dump(self) -> None:
        tables = dict(ShopTables(self).now)
        database = SimpleNamespace(now=tables, ts=self.ts, meanwhile=None, truth_at=lambda _: tables)
        self.dumped = DatabaseView(cast(Database, database), "dump", self.ts)
        self.setup = replace(self.setup, snapshot="dump")
        self.start()

    def reader(self) -> DatabaseView:
        return self.dumped


@pytest.mark.parametrize("protocol", ["canal-json", "open", "debezium"])
def test_a_copy_that_waits_for_its_table_keeps_the_columns_of_a_model_that_is_dropped_meanwhile(protocol: str) -> None:
    shop = DumpedShop(protocol)
    shop.change("CREATE TABLE x (id INT PRIMARY KEY)")
    shop.dump()
    shop.sql("CREATE TABLE m (id INT PRIMARY KEY, v INT)")
    shop.sql("CREATE TABLE t LIKE x")
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t LIKE m")
    shop.insert("t", id="1", v="2")
    shop.sql("DROP TABLE m")
    shop.watermark()
    for _ in range(3):
        shop.watermark()
        shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1, 2)], "clean")
