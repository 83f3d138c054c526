"""Several tables of the source as one in the target: what a job does by ``origin`` of ``[[route]]``."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.job import Route
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
RULE = Route(tables=("shop.orders_*",), target_table="orders", origin=("_schema", "_table"))
ONE = Route(tables=("shop.orders_*",), target_table="orders", origin=("_table",))
COLUMNS = "id INT PRIMARY KEY, v INT"


def merged(protocol: str = "simple", rule: Route = ONE, **job: Any) -> Shop:
    shop = Shop(protocol, routes=(rule,), **job)
    for number in (1, 2):
        shop.sql(f"CREATE TABLE orders_{number} ({COLUMNS})")
        shop.insert(f"orders_{number}", id="1", v=f"{number}0")
        shop.insert(f"orders_{number}", id="2", v=f"{number}1")
    shop.watermark()
    return shop


def rows(shop: Shop) -> list[tuple[Any, ...]]:
    found = shop.rows("orders")
    assert found is not None, "the merged table is there"
    return found


def condition(shop: Shop) -> str:
    return shop.status("orders", f"merged:{SCHEMA}").condition


@PROTOCOLS
@pytest.mark.parametrize("batch", [1, 1000])
def test_rows_of_all_shards_are_in_one_table_with_their_origin(protocol: str, batch: int) -> None:
    shop = merged(protocol, RULE)
    shop.run(batch)
    assert rows(shop) == [
        (SCHEMA, "orders_1", 1, 10),
        (SCHEMA, "orders_1", 2, 11),
        (SCHEMA, "orders_2", 1, 20),
        (SCHEMA, "orders_2", 2, 21),
    ]
    assert condition(shop) == "clean"
    assert set(shop.lab.lake.tables()) == {(SCHEMA, "orders")}


@PROTOCOLS
@pytest.mark.parametrize("batches", [1, 2])
def test_equal_keys_of_two_shards_change_apart(protocol: str, batches: int) -> None:
    shop = merged(protocol)
    if batches == 2:
        shop.run()
    shop.update("orders_1", id="1", v="7")
    shop.delete("orders_2", id="1")
    shop.insert("orders_2", id="3", v="22")
    shop.watermark()
    shop.run(again=True)
    assert rows(shop) == [("orders_1", 1, 7), ("orders_1", 2, 11), ("orders_2", 2, 21), ("orders_2", 3, 22)]
    assert condition(shop) == "clean"


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
        ("CREATE TABLE orders_3 (id INT PRIMARY KEY, v VARCHAR(9))", "column `v` is VARCHAR(9), and INT"),
        (
            "CREATE TABLE orders_3 (id INT, v INT, PRIMARY KEY (id, v))",
            "its key is id, v, and that of the others is id",
        ),
        ("CREATE TABLE orders_3 (id INT PRIMARY KEY, V INT)", "column `V` is written `v` in the others"),
        ("ALTER TABLE orders_1 MODIFY v SMALLINT", "column `v` becomes SMALLINT"),
        ("ALTER TABLE orders_1 CHANGE v w INT", "column `v` of a shard becomes `w`"),
        ("RENAME TABLE orders_1 TO orders_7", "is renamed"),
        ("RENAME TABLE orders_1 TO others", "is renamed"),
        ("RENAME TABLE others TO orders_7", "is renamed"),
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
