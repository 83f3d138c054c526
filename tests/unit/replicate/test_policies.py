"""What the job file decides beforehand: DDL that moves the rows of a partition, and tables without a key."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.errors import DecisionNeeded, UnsupportedDdl
from ticdc_spark.model import RowChange, SchemaChange
from ticdc_spark.replicate.report import needs_a_look

BATCHES = pytest.mark.parametrize("rows", [2, 1000])
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
PARTITIONED = "CREATE TABLE {} (id INT PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 4"
"""By KEY, so that the rows of a partition are not computed."""


def partition_ddl(shop: Shop, query: str) -> int:
    """Send a DDL on the table t that leaves its columns as they are. Returns: its commit_ts"""
    table = shop.tables[SCHEMA, "t"]
    change = SchemaChange(
        commit_ts=shop.tick(), query=query, kind="ALTER", schema=SCHEMA, name="t", table=table, pre_table=table
    )
    shop.send_ddl(change)
    return change.commit_ts


def partitioned(protocol: str = "simple", query: str = "ALTER TABLE t TRUNCATE PARTITION p1", **job: Any) -> Shop:
    shop = Shop(protocol, **job)
    shop.sql(PARTITIONED.format("t"))
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    partition_ddl(shop, query)
    shop.insert("t", id="2")
    shop.insert("other", id="3")
    shop.watermark()
    return shop


def test_a_partition_ddl_stops_the_job_and_the_error_names_the_key_that_goes_on() -> None:
    shop = partitioned()
    with pytest.raises(UnsupportedDdl, match=r'(?s)TRUNCATE PARTITION p1.*skip-ddl = .*partition-ddl = "mark"'):
        shop.run()
    assert shop.rows("t") == [(1,)]


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize(
    "query",
    [
        "ALTER TABLE t TRUNCATE PARTITION p1",
        "ALTER TABLE t DROP PARTITION p1",
        "ALTER TABLE `t` EXCHANGE PARTITION p1 WITH TABLE `other`",
    ],
)
def test_a_partition_ddl_that_is_marked_does_not_stop_the_job(protocol: str, rows: int, query: str) -> None:
    shop = partitioned(protocol, query, partition_ddl="mark")
    shop.run(rows)
    assert (shop.rows("t"), shop.rows("other")) == ([(1,), (2,)], [(3,)])
    assert shop.condition("t") == "diverged"
    assert "partition-ddl left out: ALTER TABLE" in shop.status("t").detail
    assert shop.condition("other") == ("diverged" if "EXCHANGE" in query else "clean")
    assert shop.applied == shop.ts - 1


@PROTOCOLS
def test_a_truncate_equals_a_table_again_that_a_partition_ddl_had_marked(protocol: str) -> None:
    shop = partitioned(protocol, partition_ddl="mark")
    shop.sql("TRUNCATE TABLE t")
    shop.insert("t", id="7")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(7,)]
    assert shop.condition("t") == "clean"


def test_a_partition_ddl_is_marked_wherever_the_job_was_killed() -> None:
    def judge(shop: Shop) -> None:
        assert shop.rows("t") == [(1,), (2,)]
        assert (shop.condition("t"), shop.condition("other")) == ("diverged", "clean")

    assert after_every_death(lambda: partitioned(partition_ddl="mark"), judge) >= 10


@pytest.mark.parametrize("query", ["ALTER TABLE t REORGANIZE PARTITION p1 INTO (PARTITION p2 VALUES LESS THAN (9))"])
def test_a_partition_ddl_that_keeps_all_rows_marks_nothing(query: str) -> None:
    shop = partitioned(query=query, partition_ddl="mark")
    shop.run()
    assert shop.condition("t") == "clean"


def test_rows_that_come_back_stop_the_job_whatever_partition_ddl_is() -> None:
    shop = partitioned(query="FLASHBACK TABLE t TO u", partition_ddl="mark")
    with pytest.raises(UnsupportedDdl, match="does not send the rows that come back"):
        shop.run()


def keyless(**job: Any) -> Shop:
    """Two tables without a key, and one with a key."""
    shop = Shop(**job)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    for name in ("log", "audit"):
        shop.sql(f"CREATE TABLE {name} (v INT)")
    shop.insert("t", id="1")
    append(shop, "log", v="1")
    append(shop, "log", v="1")
    shop.watermark()
    return shop


def append(shop: Shop, table: str, **row: Any) -> None:
    change = RowChange(op="insert", table=shop.tables[SCHEMA, table], commit_ts=shop.tick(), before=None, after={**row})
    shop.send_row(change)


def test_an_error_names_all_tables_without_a_key_at_once() -> None:
    shop = keyless()
    with pytest.raises(DecisionNeeded, match=r'`shop`\.`log`, `shop`\.`audit`: .*no primary key.*no-key = "skip"'):
        shop.run()


def test_a_table_without_a_key_that_tables_leaves_out_is_not_named() -> None:
    shop = keyless(tables=("*.*", "!shop.audit"))
    with pytest.raises(DecisionNeeded, match=r"^`shop`\.`log`: "):
        shop.run()


@BATCHES
def test_rows_of_a_table_without_a_key_are_skipped(rows: int) -> None:
    shop = keyless(no_key="skip")
    shop.run(rows)
    append(shop, "log", v="2")
    shop.insert("t", id="2")
    shop.watermark()
    shop.run(rows, again=True)
    assert (shop.rows("t"), shop.rows("log")) == ([(1,), (2,)], [])
    assert (shop.condition("t"), shop.condition("log")) == ("clean", "skipped")
    assert "no-key" in shop.status("log").detail
    assert shop.steps is not None
    assert needs_a_look(shop.steps.progress) == "", "it was decided, and is no reason to look"
    assert not shop.steps.progress.pending


def test_a_table_that_gets_its_key_later_lacks_the_rows_that_were_skipped() -> None:
    shop = keyless(no_key="skip")
    shop.run()
    shop.sql("ALTER TABLE log ADD COLUMN id INT PRIMARY KEY")
    append(shop, "log", v="2", id="9")
    shop.watermark()
    shop.run()
    assert shop.rows("log") == [(2, 9)]
    assert shop.condition("log") == "diverged"


def test_rows_of_a_table_without_a_key_are_skipped_wherever_the_job_was_killed() -> None:
    def judge(shop: Shop) -> None:
        assert (shop.rows("t"), shop.rows("log")) == ([(1,)], [])
        assert shop.condition("log") == "skipped"

    assert after_every_death(lambda: keyless(no_key="skip"), judge) >= 10


def test_rows_of_a_table_without_a_key_are_skipped_without_watermarks_too() -> None:
    shop = keyless(protocol="canal-json", mode="arrival", no_key="skip")
    shop.run()
    append(shop, "log", v="2")
    shop.insert("t", id="2")
    shop.run(again=True)
    assert shop.lab.view().tables["shop", "log"].condition == "skipped"
    assert [row[0] for row in shop.rows("t") or ()] == [1, 2]
    assert shop.rows("log") == []
    assert shop.steps is not None and not shop.steps.progress.pending


def test_a_table_without_a_key_is_not_read_in_full() -> None:
    shop = Shop(snapshot=True, no_key="skip")
    for name, key in (("t", " PRIMARY KEY"), ("log", "")):
        shop.change(f"CREATE TABLE {name} (id INT{key})")
        shop.bootstrap(name)
    shop.row("insert", (SCHEMA, "t"), {"id": "1"})
    append(shop, "log", id="2")
    for _ in range(3):
        shop.watermark()
        shop.run()
    shop.insert("t", id="3")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1,), (3,)], "clean")
    assert (shop.rows("log"), shop.condition("log")) == ([], "skipped")
    assert shop.steps is not None and not shop.steps.progress.wanted


def test_a_full_read_of_a_table_without_a_key_stops_before_it_begins_and_no_key_lets_the_job_go_on() -> None:
    shop = Shop(snapshot=True)
    for name, key in (("t", " PRIMARY KEY"), ("log", "")):
        shop.change(f"CREATE TABLE {name} (id INT{key})")
    shop.bootstrap("t")
    shop.row("insert", (SCHEMA, "t"), {"id": "1"})

    def go_on() -> None:
        for _ in range(4):
            shop.watermark()
            shop.run()

    with pytest.raises(DecisionNeeded, match=r"`shop`\.`log`: there is no primary key"):
        go_on()
    shop.configure(no_key="skip")
    go_on()
    assert (shop.rows("t"), shop.rows("log")) == ([(1,)], None)
    assert shop.steps is not None and not shop.steps.progress.wanted
