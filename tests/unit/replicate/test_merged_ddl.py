"""DDL of tables that are merged into one."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from tests.unit.replicate.test_merged import COLUMNS, ONE, PROTOCOLS, RULE, condition, merged, rows
from ticdc_spark.config.ddl import DdlRule
from ticdc_spark.config.job import Route
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl


@PROTOCOLS
@pytest.mark.parametrize("batches", [1, 2])
def test_a_new_column_of_one_shard_comes_to_the_table_and_is_there_for_the_next(protocol: str, batches: int) -> None:
    shop = merged(protocol)
    if batches == 2:
        shop.run()
    shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT DEFAULT 5")
    shop.insert("orders_1", id="3", v="12", w="6")
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    if batches == 2:
        shop.run()
        assert rows(shop) == [
            ("orders_1", 1, 10, 5),
            ("orders_1", 2, 11, 5),
            ("orders_1", 3, 12, 6),
            ("orders_2", 1, 20, 5),
            ("orders_2", 2, 21, 5),
            ("orders_2", 3, 22, 5),
        ]
    shop.sql("ALTER TABLE orders_2 ADD COLUMN w INT DEFAULT 5")
    shop.update("orders_2", id="1", v="20", w="9")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop) == [
        ("orders_1", 1, 10, 5),
        ("orders_1", 2, 11, 5),
        ("orders_1", 3, 12, 6),
        ("orders_2", 1, 20, 9),
        ("orders_2", 2, 21, 5),
        ("orders_2", 3, 22, 5),
    ]
    assert condition(shop) == "clean"


@PROTOCOLS
def test_another_default_of_the_second_shard_marks_the_table(protocol: str) -> None:
    shop = merged(protocol)
    shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT DEFAULT 5")
    shop.sql("ALTER TABLE orders_2 ADD COLUMN w INT DEFAULT 6")
    shop.watermark()
    shop.run()
    assert condition(shop) == "diverged"
    assert "`orders_2` from before it may have another default" in shop.status("orders", f"merged:{SCHEMA}").detail


@PROTOCOLS
def test_a_wider_type_of_one_shard_is_that_of_the_table(protocol: str) -> None:
    shop = merged(protocol)
    shop.sql("ALTER TABLE orders_2 MODIFY v BIGINT")
    shop.update("orders_2", id="1", v=str(2**40))
    shop.sql("ALTER TABLE orders_1 MODIFY v BIGINT")
    shop.update("orders_1", id="1", v=str(2**41))
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_1", 1, 2**41), ("orders_1", 2, 11), ("orders_2", 1, 2**40), ("orders_2", 2, 21)]
    assert condition(shop) == "clean"


@PROTOCOLS
def test_a_column_that_one_shard_drops_stays(protocol: str) -> None:
    shop = merged(protocol)
    shop.sql("ALTER TABLE orders_2 DROP COLUMN v")
    shop.insert("orders_2", id="3")
    shop.watermark()
    shop.run()
    assert rows(shop) == [
        ("orders_1", 1, 10),
        ("orders_1", 2, 11),
        ("orders_2", 1, 20),
        ("orders_2", 2, 21),
        ("orders_2", 3, None),
    ]
    assert condition(shop) == "clean"
    shop.sql("ALTER TABLE orders_2 ADD COLUMN v INT")
    shop.watermark()
    shop.run()
    assert condition(shop) == "diverged"


@PROTOCOLS
@pytest.mark.parametrize("batches", [1, 2])
def test_truncate_and_drop_remove_the_rows_of_one_shard(protocol: str, batches: int) -> None:
    shop = merged(protocol, RULE)
    if batches == 2:
        shop.run()
    shop.sql("TRUNCATE TABLE orders_1")
    shop.insert("orders_1", id="9", v="9")
    shop.sql("DROP TABLE orders_2")
    shop.watermark()
    shop.run()
    assert rows(shop) == [(SCHEMA, "orders_1", 9, 9)]
    shop.sql("DROP TABLE orders_1")
    shop.watermark()
    shop.run()
    assert rows(shop) == []
    shop.sql("CREATE TABLE orders_2 (id INT PRIMARY KEY, v INT, x INT)")
    shop.insert("orders_2", id="1", v="1", x="2")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop) == [(SCHEMA, "orders_2", 1, 1, 2)]
    assert condition(shop) == "clean"


def changed() -> Shop:
    shop = merged("simple", RULE)
    shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT DEFAULT 5")
    shop.update("orders_1", id="1", v="7", w="8")
    shop.delete("orders_2", id="1")
    shop.sql("ALTER TABLE orders_2 ADD COLUMN w INT DEFAULT 5")
    shop.sql("ALTER TABLE orders_2 MODIFY v BIGINT")
    shop.insert("orders_2", id="3", v=str(2**40), w="1")
    shop.sql("TRUNCATE TABLE orders_1")
    shop.insert("orders_1", id="9", v="9", w="9")
    shop.sql("CREATE TABLE orders_3 (id INT PRIMARY KEY, v INT, x INT)")
    shop.insert("orders_3", id="9", v="9", x="9")
    shop.watermark()
    return shop


CHANGED = [
    (SCHEMA, "orders_1", 9, 9, 9, None),
    (SCHEMA, "orders_2", 2, 21, 5, None),
    (SCHEMA, "orders_2", 3, 2**40, 1, None),
    (SCHEMA, "orders_3", 9, 9, 5, 9),
]


def test_whatever_kills_the_job_the_merged_table_ends_as_its_shards_are() -> None:
    def judge(shop: Shop) -> None:
        assert rows(shop) == CHANGED
        assert condition(shop) == "clean"

    assert after_every_death(changed, judge) > 10


def test_whatever_kills_the_job_a_shard_that_is_made_again_has_none_of_its_older_rows() -> None:
    def make() -> Shop:
        shop = merged("open", drop_table="keep")
        shop.sql("DROP TABLE orders_2")
        shop.insert("orders_1", id="3", v="12")
        shop.sql(f"CREATE TABLE orders_2 ({COLUMNS}, w INT)")
        shop.insert("orders_2", id="5", v="5", w="6")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert [row[:2] for row in rows(shop)] == [("orders_1", 1), ("orders_1", 2), ("orders_1", 3), ("orders_2", 5)]

    assert after_every_death(make, judge) > 10


@PROTOCOLS
def test_the_rows_of_a_shard_that_is_dropped_stay_by_the_policy(protocol: str) -> None:
    shop = merged(protocol, drop_table="keep", truncate_table="keep")
    shop.sql("DROP TABLE orders_2")
    shop.sql("TRUNCATE TABLE orders_1")
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11), ("orders_2", 1, 20), ("orders_2", 2, 21)]
    assert condition(shop) == "unverified"


@PROTOCOLS
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("CREATE TABLE orders_3 (id INT PRIMARY KEY, v VARCHAR(9))", "column `v` is VARCHAR(9), but INT"),
        (
            "CREATE TABLE orders_3 (id INT, v INT, PRIMARY KEY (id, v))",
            "its key is id, v, but the key of the other tables is id",
        ),
        ("CREATE TABLE orders_3 (id INT PRIMARY KEY, V INT)", "column `V` is spelled `v` in the other tables"),
        ("ALTER TABLE orders_1 MODIFY v SMALLINT", "column `v` becomes SMALLINT"),
        ("ALTER TABLE orders_1 CHANGE v w INT", "column `v` of a shard becomes `w`"),
        ("RENAME TABLE orders_1 TO orders_7", "it renames a table"),
        ("RENAME TABLE orders_1 TO others", "it renames a table"),
        ("RENAME TABLE others TO orders_7", "it renames a table"),
    ],
)
def test_a_ddl_that_the_merged_table_cannot_follow_stops_the_job_before_it(protocol: str, sql: str, why: str) -> None:
    shop = merged(protocol)
    shop.sql("CREATE TABLE others (id INT PRIMARY KEY)")
    shop.insert("orders_1", id="3", v="12")
    shop.watermark()
    shop.run()
    shop.sql(sql)
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=re.escape(why)) as stop:
        shop.run()
    assert rows(shop)[2] == ("orders_1", 3, 12)
    (ts,) = re.findall(r'skip-ddl = \["(\d+):', str(stop.value))
    shop.configure(skip_ddl=(SkipDdl(int(ts), "*"),))
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    shop.run()
    assert ("orders_2", 3, 22) in rows(shop)
    assert condition(shop) == "diverged"


def test_shards_of_several_databases_go_with_their_database() -> None:
    rule = Route(tables=("shop_*.o",), target_schema="all", target_table="o", origin=("_db", "_t"))
    shop = Shop("simple", routes=(rule,))
    for schema in ("shop_1", "shop_2"):
        shop.sql("CREATE TABLE o (id INT PRIMARY KEY)", schema=schema)
        shop.insert("o", id="1", schema=schema)
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)", schema="shop_1")
    shop.watermark()
    shop.run()
    assert shop.rows("o", "all") == [("shop_1", "o", 1), ("shop_2", "o", 1)]
    shop.insert("o", id="2", schema="shop_1")
    shop.sql("DROP DATABASE shop_1", schema="shop_1")
    shop.watermark()
    shop.run()
    assert shop.rows("o", "all") == [("shop_2", "o", 1)]
    assert shop.status("o", "merged:all").condition == "clean"
    assert set(shop.lab.lake.tables()) == {("all", "o")}


def test_what_is_known_of_shards_does_not_grow_with_those_that_are_gone() -> None:
    shop = merged("simple")
    shop.run()
    sizes = []
    for day in range(4):
        shop.sql(f"CREATE TABLE orders_2024{day} ({COLUMNS})")
        shop.insert(f"orders_2024{day}", id="1", v="1")
        shop.watermark()
        shop.run()
        shop.sql(f"DROP TABLE orders_2024{day}")
        shop.watermark()
        shop.run()
        assert shop.steps is not None
        progress = shop.steps.progress
        sizes.append((len(progress.schemas), len(progress.shards), len(progress.tables)))
    assert set(sizes) == {(2, 2, 1)}


@PROTOCOLS
def test_a_shard_is_dropped_while_the_next_one_of_its_name_waits(protocol: str) -> None:
    shop = merged(protocol)
    shop.sql("DROP TABLE orders_2")
    shop.watermark()
    shop.sql(f"CREATE TABLE orders_2 ({COLUMNS}, w INT)")
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11)]
    shop.insert("orders_2", id="3", v="22", w="1")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop)[-1] == ("orders_2", 3, 22, 1)
    assert condition(shop) == "clean"


@pytest.mark.parametrize("policy", ["drop_table", "truncate_table", "drop_column", "modify_column"])
def test_policies_of_ddl_go_by_the_names_of_shards(policy: str) -> None:
    sql = {
        "drop_table": "DROP TABLE orders_{}",
        "truncate_table": "TRUNCATE TABLE orders_{}",
        "drop_column": "ALTER TABLE orders_{} DROP COLUMN v",
        "modify_column": "ALTER TABLE orders_{} MODIFY v BIGINT",
    }[policy]
    rules: dict[str, Any] = {policy: "stop"}
    shop = merged("simple", rules=(DdlRule(tables=("shop.orders_2",), **rules),))
    shop.sql(sql.format(1))
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    shop.run()
    assert condition(shop) == "clean"
    shop.sql(sql.format(2))
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=policy.replace("_", "-")):
        shop.run()


@PROTOCOLS
def test_rows_of_a_shard_that_is_made_again_wait_in_one_batch_with_those_from_before_its_drop(protocol: str) -> None:
    shop = merged(protocol)
    shop.run()
    shop.insert("orders_2", id="3", v="22")
    shop.sql("DROP TABLE orders_2")
    shop.watermark()
    shop.sql(f"CREATE TABLE orders_2 ({COLUMNS})")
    shop.insert("orders_2", id="4", v="23")
    shop.run()
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11), ("orders_2", 4, 23)]
    assert condition(shop) == "clean"


def drop_database(shop: Shop) -> None:
    """As TiCDC sends it: without a table."""
    change = shop.change(f"DROP DATABASE {SCHEMA}")
    shop.send_ddl(msgspec.structs.replace(change, schema=SCHEMA, name="", table=None, pre_table=None))


@PROTOCOLS
@pytest.mark.parametrize("routes", [(), (RULE,)])
@pytest.mark.parametrize("alters", [False, True])
def test_a_drop_of_a_database_that_comes_again_for_a_late_table_drops_no_table_that_was_made_since(
    protocol: str, routes: tuple[Route, ...], alters: bool
) -> None:
    shop = Shop(protocol, routes=routes, topic_per_table=True)
    shop.configure(topics=("cdc", "cdc_shop_orders_1"))
    for name in ("orders_1", "other"):
        shop.sql(f"CREATE TABLE {name} ({COLUMNS})")
        shop.insert(name, id="1", v="10")
    drop_database(shop)
    shop.sql(f"CREATE TABLE orders_1 ({COLUMNS})")
    shop.insert("orders_1", id="2", v="11")
    shop.watermark()
    shop.run()
    shop.configure(topics=("cdc", "cdc_shop_orders_1", "cdc_shop_other"))
    shop.insert("orders_1", id="3", v="12")
    if alters:
        shop.sql("ALTER TABLE orders_1 ADD COLUMN w INT DEFAULT 5")
    shop.watermark()
    shop.run()
    shop.watermark()
    shop.run()
    found = shop.lake("orders" if routes else "orders_1")
    assert found is not None
    assert sorted((row["id"], row["v"]) for row in found.rows) == [(2, 11), (3, 12)]
    assert shop.status("other").condition == "dropped"


@PROTOCOLS
@pytest.mark.parametrize("others", [False, True])
def test_the_create_of_a_shard_whose_topic_is_read_late_is_no_replay(protocol: str, others: bool) -> None:
    shop = Shop(protocol, routes=(ONE,), topic_per_table=True)
    shop.configure(topics=("cdc_shop_orders_1",))
    shop.sql(f"CREATE TABLE orders_1 ({COLUMNS})")
    shop.insert("orders_1", id="1", v="10")
    shop.sql(f"CREATE TABLE orders_2 ({COLUMNS})")
    if others:
        shop.sql("ALTER TABLE orders_1 MODIFY v BIGINT")
    shop.insert("orders_1", id="2", v="11")
    shop.watermark()
    shop.run()
    shop.configure(topics=("cdc_shop_orders_1", "cdc_shop_orders_2"))
    shop.insert("orders_2", id="2", v="21")
    shop.watermark()
    shop.run()
    assert rows(shop) == [("orders_1", 1, 10), ("orders_1", 2, 11), ("orders_2", 2, 21)]
    assert condition(shop) == "diverged"


@pytest.mark.parametrize(("old", "new"), [("orders_1", "plain"), ("plain", "orders_3"), ("orders_1", "sales_1")])
def test_a_rename_between_tables_that_is_skipped_marks_them_all(old: str, new: str) -> None:
    sales = Route(tables=("shop.sales_*",), target_table="sales", origin=("_table",))
    shop = merged("simple")
    shop.configure(routes=(ONE, sales))
    shop.sql(f"CREATE TABLE sales_9 ({COLUMNS})")
    if old == "plain":
        shop.sql(f"CREATE TABLE plain ({COLUMNS})")
    ts = shop.sql(f"RENAME TABLE {old} TO {new}")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="the rows in the target keep the old name"):
        shop.run()
    shop.configure(skip_ddl=(SkipDdl(ts, "RENAME"),))
    shop.run()
    conditions = {name: one.condition for name, one in shop.lab.view().tables.items()}
    names = {"orders_1": (f"merged:{SCHEMA}", "orders"), "orders_3": (f"merged:{SCHEMA}", "orders")}
    names |= {"sales_1": (f"merged:{SCHEMA}", "sales"), "plain": (SCHEMA, "plain")}
    assert (conditions[names[old]], conditions[names[new]]) == ("diverged", "diverged")
