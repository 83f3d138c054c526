"""DDL in arrival mode: topics and partitions are read in any order, so a DDL may come after what followed it."""

from __future__ import annotations

import pytest

from tests.support.arrival_shop import CREATE, ArrivalShop
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.job import SchemaFiles
from ticdc_spark.config.values import SkipDdl

PROTOCOLS = pytest.mark.parametrize("protocol", ["canal-json", "debezium"])


@PROTOCOLS
def test_a_drop_database_that_is_read_late_leaves_a_later_table(protocol: str) -> None:
    shop = ArrivalShop(protocol)
    shop.ddl("CREATE DATABASE shop")
    shop.ddl(CREATE, "cdc_t")
    shop.run()
    drop, again = shop.change("DROP DATABASE shop"), shop.change("CREATE DATABASE shop")
    shop.ddl("CREATE TABLE n (id INT PRIMARY KEY)", "cdc_n")
    shop.put("n", topic="cdc_n", id="2")
    shop.run()
    shop.put_ddl(drop)
    shop.put_ddl(again)
    shop.run()
    assert shop.row_ids("n") == [2]
    assert shop.rows("t") is None


@pytest.mark.parametrize("rows", [1, 1000])
def test_rows_behind_a_drop_wait_for_the_next_create(rows: int) -> None:
    shop = ArrivalShop("canal-json", 2)
    shop.ddl(CREATE)
    shop.put("t", id="1", v="1")
    shop.run()
    shop.ddl("DROP TABLE t")
    create = shop.change(CREATE)
    shop.put("t", 1, id="2", v="2")
    shop.run(rows)
    assert shop.lab.view().hold.startswith("`shop`.`t` waits for the schema")
    shop.put_ddl(create)
    shop.run()
    assert (shop.row_ids(), shop.condition("t")) == ([2], "unverified")


@PROTOCOLS
def test_rows_behind_a_drop_database_wait_for_the_next_create(protocol: str) -> None:
    shop = ArrivalShop(protocol)
    shop.ddl("CREATE DATABASE shop")
    shop.ddl(CREATE, "cdc_t")
    shop.run()
    shop.ddl("DROP DATABASE shop")
    shop.ddl("CREATE DATABASE shop")
    create = shop.change(CREATE)
    shop.put("t", topic="cdc_rows", id="2", v="2")
    shop.run()
    assert not shop.row_ids()
    shop.put_ddl(create, "cdc_t")
    shop.run()
    assert shop.row_ids() == [2]


@PROTOCOLS
def test_tables_with_a_topic_each_are_swapped_whenever_their_topics_are_read(protocol: str) -> None:
    shop = ArrivalShop(protocol)
    for name in ("t", "t_new"):
        shop.ddl(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"cdc_{name}")
    shop.put("t", topic="cdc_t", id="1", v="1")
    shop.put("t_new", topic="cdc_t_new", id="1", v="10")
    shop.run()
    away = shop.change("RENAME TABLE t TO t_old")
    here = shop.change("RENAME TABLE t_new TO t", ts=shop.ts)
    shop.put_ddl(away, "cdc_t")
    shop.put("t", topic="cdc_t", id="2", v="20")
    shop.run()
    shop.put_ddl(here, "cdc_t_new")
    shop.run()
    assert shop.row_ids("t") == [1, 2]
    assert shop.row_ids("t_old") == [1]


def test_rows_that_skip_to_known_leaves_out_mark_the_next_table_of_the_name() -> None:
    shop = ArrivalShop("canal-json", 2, schema=SchemaFiles(skip_to_known=("shop.t",)))
    shop.ddl(CREATE)
    shop.ddl("DROP TABLE t")
    create = shop.change(CREATE)
    shop.put("t", 1, id="2", v="2")
    shop.run()
    shop.put_ddl(create)
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], "diverged")


def test_rows_of_a_table_that_skip_to_known_leaves_out_mark_it() -> None:
    shop = ArrivalShop("canal-json", schema=SchemaFiles(skip_to_known=("shop.t",)))
    shop.change(CREATE)
    shop.put("t", id="1", v="1")
    shop.run()
    assert shop.condition("t") == "diverged"


def test_rows_that_skip_to_known_leaves_out_before_the_first_create_mark_the_table() -> None:
    shop = ArrivalShop("canal-json", 2, schema=SchemaFiles(skip_to_known=("shop.t",)))
    create = shop.change(CREATE)
    shop.put("t", 1, id="1", v="1")
    shop.run()
    shop.put_ddl(create)
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], "diverged")


def test_rows_of_a_former_table_that_skip_to_known_leaves_out_mark_no_later_table() -> None:
    shop = ArrivalShop("canal-json", 2, schema=SchemaFiles(skip_to_known=("shop.t",)))
    shop.change(CREATE)
    shop.put("t", 1, id="1", v="1")
    shop.run()
    shop.ddl("DROP TABLE t")
    shop.ddl(CREATE)
    shop.put("t", 1, id="2", v="2")
    shop.run()
    assert (shop.row_ids(), shop.condition("t")) == ([2], "unverified")


def test_rows_that_a_kept_table_takes_mark_the_next_table_of_the_name() -> None:
    shop = ArrivalShop("canal-json", 2, drop_table="keep", schema=SchemaFiles(skip_to_known=("shop.t",)))
    shop.ddl(CREATE)
    shop.put("t", id="1", v="1")
    shop.ddl("DROP TABLE t")
    shop.run()
    create = shop.change(CREATE)
    shop.put("t", 1, id="2", v="2")
    shop.run()
    shop.put_ddl(create)
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], "diverged")


@PROTOCOLS
@pytest.mark.parametrize("gap", ["DROP TABLE t", "RENAME TABLE t TO o"])
def test_a_table_is_made_anew_within_one_batch(protocol: str, gap: str) -> None:
    shop = ArrivalShop(protocol)
    shop.ddl(CREATE)
    shop.put("t", id="1", v="1")
    shop.ddl(gap)
    shop.ddl(CREATE)
    shop.put("t", id="2", v="2")
    shop.run()
    assert shop.row_ids() == [2]


@PROTOCOLS
@pytest.mark.parametrize("gap", ["DROP TABLE t", "RENAME TABLE t TO o"])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_table_is_made_anew_whenever_the_job_dies(protocol: str, gap: str, is_known: bool) -> None:
    def make() -> Shop:
        shop = ArrivalShop(protocol)
        shop.ddl(CREATE)
        if is_known:
            shop.put("t", id="3", v="1")
            shop.run()
        shop.put("t", id="1", v="1")
        shop.ddl(gap)
        shop.ddl(CREATE)
        shop.put("t", id="2", v="2")
        return shop

    def judge(shop: Shop) -> None:
        assert [row[0] for row in shop.rows("t") or ()] == [2]

    assert after_every_death(make, judge) > 5


def test_a_ddl_that_waits_for_rows_of_a_topic_comes_again_with_the_topic() -> None:
    shop = ArrivalShop("debezium", 2)
    for name in "ab":
        shop.ddl(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"cdc_{name}")
        shop.put(name, 1, f"cdc_{name}", id="1")
    shop.run()
    end = shop.broker.end_offsets()["cdc_a", 1]
    shop.put("a", 1, "cdc_a", id="2")
    shop.ddl("ALTER TABLE a ADD COLUMN c INT", "cdc_a")
    shop.batch_behind({("cdc_a", 1): end})
    assert shop.lab.view().hold.startswith("DDL at")
    shop.configure(topics=("cdc_b",))
    shop.put("b", topic="cdc_b", id="3")
    shop.run()
    assert (shop.row_ids("a"), shop.row_ids("b")) == ([1], [1, 3])
    shop.configure(topics=None)
    shop.run()
    assert shop.row_ids("a") == [1, 2]
    assert "c" in shop.columns("a")


@pytest.mark.parametrize(
    ("ddls", "more"),
    [
        (["ALTER TABLE t ADD COLUMN c INT"], {"c": "3"}),
        (["TRUNCATE TABLE t"], {}),
        (["DROP TABLE t", CREATE], {}),
        (["RENAME TABLE t TO o", CREATE], {}),
    ],
)
def test_a_job_that_begins_in_the_middle_doubts_no_table_for_rows_behind_its_first_ddl(
    ddls: list[str], more: dict[str, str]
) -> None:
    shop = ArrivalShop("canal-json", schema_sql="CREATE TABLE shop.t (id INT PRIMARY KEY, v INT);")
    shop.change("CREATE DATABASE shop")
    shop.change(CREATE)
    shop.put("t", id="1", v="1")
    for query in ddls:
        shop.ddl(query)
    shop.put("t", id="2", v="2", **more)
    shop.run()
    assert 2 in shop.row_ids()
    assert shop.condition("t") == "unverified"


@PROTOCOLS
def test_a_kept_table_takes_the_rows_of_a_table_whose_create_is_skipped(protocol: str) -> None:
    shop = ArrivalShop(protocol, drop_table="keep")
    shop.ddl(CREATE)
    shop.put("t", id="1", v="1")
    shop.run()
    drop, create = shop.change("DROP TABLE t"), shop.change(CREATE)
    sent = create.commit_ts >> 18 << 18 if protocol == "canal-json" else create.commit_ts
    shop.configure(skip_ddl=(SkipDdl(commit_ts=sent, prefix="*"),))
    shop.put_ddl(drop)
    shop.put_ddl(create)
    shop.put("t", id="2", v="2")
    shop.run()
    assert (shop.row_ids(), shop.condition("t")) == ([1, 2], "diverged")


@PROTOCOLS
def test_a_rename_that_is_read_late_holds_back_no_row_of_a_later_table(protocol: str) -> None:
    shop = ArrivalShop(protocol)
    shop.ddl("CREATE DATABASE shop")
    old, rename = shop.change(CREATE), shop.change("RENAME TABLE t TO o")
    shop.ddl(CREATE, "cdc_n")
    shop.put("t", topic="cdc_n", id="2", v="2")
    shop.run()
    shop.put_ddl(old, "cdc_t")
    shop.put_ddl(rename, "cdc_t")
    shop.put("t", topic="cdc_n", id="3", v="3")
    shop.run()
    assert shop.row_ids() == [2, 3]


def test_what_an_interrupted_batch_left_waiting_is_applied_without_a_new_message() -> None:
    shop = ArrivalShop("canal-json", drop_table="stop")
    shop.ddl(CREATE)
    shop.run()
    shop.put("t", id="1", v="1")
    shop.ddl("DROP TABLE t")
    shop.dies("save the progress")
    shop.configure(drop_table="drop")
    shop.batch()
    assert shop.row_ids() == [1]
    shop.batch()
    assert shop.rows("t") is None
